-- `tokamak.shared`: the dictionaries that the scripts of all event loops share, with the methods of
-- OpenResty's.
local host = ...

local error, floor, next, setmetatable = error, math.floor, next, setmetatable
local tonumber, tostring, type = tonumber, tostring, type

local LONGEST_KEY = 65535

-- A key as text, or why it is none.
local function text_of(key)
    if type(key) ~= "string" then
        if key == nil then
            return nil, "nil key"
        end
        key = tostring(key)
    end
    if key == "" then
        return nil, "empty key"
    elseif #key > LONGEST_KEY then
        return nil, "key too long"
    end
    return key
end

-- Seconds; 0 is for ever.
local function seconds_of(value, name)
    if value == nil then
        return 0
    end
    local number = tonumber(value)
    if not number or not (number >= 0) then
        error('bad "' .. name .. '" argument', 3)
    end
    return number
end

local function number_of(value, name)
    local number = tonumber(value)
    if not number then
        error('bad "' .. name .. '" argument: number expected, got ' .. type(value), 3)
    end
    return number
end

local function most_of(value, default)
    return floor(seconds_of(value == nil and default or value, "max_count"))
end

local function read_only()
    error("lua table is read-only", 2)
end

local function sealed(fields)
    return setmetatable(fields, { __newindex = read_only, __metatable = false })
end

-- Methods that write: `add` and `replace` have nothing to do with nil.
local function writer(write, delete)
    return function(_, key, value, exptime)
        local text, problem = text_of(key)
        if not text then
            return nil, problem
        end
        local seconds = seconds_of(exptime, "exptime")
        if value == nil then
            if not delete then
                return nil, "attempt to add or replace nil values"
            end
            delete(text)
            return true, nil, false
        end
        return write(text, value, seconds)
    end
end

local function methods(own)
    local get, incr, delete, ttl, expire = own.get, own.incr, own.delete, own.ttl, own.expire
    local get_keys, flush_expired = own.get_keys, own.flush_expired
    return sealed {
        get = function(_, key)
            local text, problem = text_of(key)
            if not text then
                return nil, problem
            end
            return get(text)
        end,
        set = writer(own.set, delete),
        add = writer(own.add),
        replace = writer(own.replace),
        delete = function(_, key)
            local text, problem = text_of(key)
            if not text then
                return nil, problem
            end
            delete(text)
            return true
        end,
        incr = function(_, key, by, initial, exptime)
            local text, problem = text_of(key)
            if not text then
                return nil, problem
            end
            local seconds = seconds_of(exptime, "init_ttl")
            if exptime ~= nil and initial == nil then
                error('must provide "init" when providing "init_ttl"', 2)
            end
            initial = initial ~= nil and number_of(initial, "init") or nil
            return incr(text, number_of(by, "value"), initial, seconds)
        end,
        ttl = function(_, key)
            local text, problem = text_of(key)
            if not text then
                return nil, problem
            end
            return ttl(text)
        end,
        expire = function(_, key, exptime)
            local text, problem = text_of(key)
            if not text then
                return nil, problem
            elseif exptime == nil then
                error('bad "exptime" argument', 2)
            end
            return expire(text, seconds_of(exptime, "exptime"))
        end,
        get_keys = function(_, most)
            return get_keys(most_of(most, 1024))
        end,
        flush_all = function()
            own.flush_all()
        end,
        flush_expired = function(_, most)
            return flush_expired(most_of(most, 0))
        end,
        capacity = function()
            return own.capacity()
        end,
        free_space = function()
            return own.free_space()
        end,
    }
end

-- The dictionaries for one script file.
return function()
    local all = {}
    for name, own in next, host.dictionaries do
        all[name] = methods(own)
    end
    return sealed(all)
end
