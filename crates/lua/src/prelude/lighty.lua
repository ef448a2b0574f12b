-- The tables that scripts know from lighttpd: `lighty.r`, `lighty.c`, `lighty.server`, and the
-- older ones beside them. What they hold is asked of Rust when a script looks at it; nothing is
-- prepared for a run that does not look.
local host, pairs, new_globals = ...

local error, floor, next, rawget, rawset, setmetatable = error, math.floor, next, rawget, rawset, setmetatable
local lower = string.lower
local tonumber, tostring, type = tonumber, tostring, type

local RESTART_REQUEST = 99

-- Whose header fields are meant.
local REQUEST, RESPONSE = 0, 1

-- The run whose script is being executed.
local current

-- What a run keeps: the tables of the older interface, and what the script has noted in `lighty`.
local function own_of(run)
    local own = { header = false, content = false, notes = {} }
    run.own = own
    return own
end

local function read_only()
    error("lua table is read-only", 2)
end

-- Text for Rust: numbers are text too, as everywhere in Lua.
local function text(value, position, name)
    local kind = type(value)
    if kind == "string" then
        return value
    elseif kind == "number" then
        return tostring(value)
    end
    error("bad argument #" .. position .. " to '" .. name .. "' (string expected, got " .. kind .. ")", 3)
end

local function text_or_empty(value)
    if value == nil then
        return ""
    end
    return text(value, 3, "newindex")
end

-- An iterator over a flat list of names and values.
local function each(list)
    local at = -1
    return function()
        at = at + 2
        return list[at], list[at + 1]
    end
end

-- A table whose fields are Rust's: `get(name)`, `set(name, value)` and `all()`, a flat list. The
-- call of `get` is a tail call, so a getter finds the script one level nearer than a setter does.
-- `methods` are found without a call.
local function window(get, set, all, methods)
    local function index(_, name)
        return get(text(name, 2, "index"))
    end
    return setmetatable({}, {
        __index = methods and setmetatable(methods, { __index = index }) or index,
        __newindex = set and function(_, name, value)
            set(text(name, 2, "newindex"), value)
        end or read_only,
        __pairs = all and function()
            return each(all())
        end,
        __metatable = false,
    })
end

local function sealed(fields)
    return setmetatable(fields, { __newindex = read_only, __metatable = false })
end

-- Header fields, to which Rust assigns: scripts do little else as often.
local function headers(side, assign)
    local get, all = host.header, host.headers
    return setmetatable({}, {
        __index = function(_, name)
            return get(side, text(name, 2, "index"))
        end,
        __newindex = assign,
        __pairs = function()
            return each(all(side))
        end,
        __metatable = false,
    })
end

local function pair(first, second)
    return function()
        return first, second
    end
end

local function attributes()
    return window(host.attribute, function(name, value)
        local problem = host.set_attribute(name, text_or_empty(value))
        if problem then
            error(problem, 3)
        end
    end, host.attributes)
end

local function items()
    return window(function(name)
        local value, nanoseconds = host.item(name)
        if value == nil then
            error("r.req_item['" .. name .. "'] invalid", 2)
        elseif name == "start_time" then
            return pair(value, nanoseconds)
        end
        return value
    end, function(name, value)
        if name ~= "keep_alive" then
            error("r.req_item['" .. name .. "'] invalid or read-only", 3)
        end
        value = tonumber(value)
        if not value then
            error("bad argument #3 to 'newindex' (number expected)", 3)
        end
        host.set_keep_alive(value)
    end)
end

local function variables()
    return window(host.variable, function(name, value)
        host.set_variable(name, value ~= nil and text(value, 3, "newindex") or nil)
    end, host.variables)
end

local function log(message)
    host.log(message)
end

-- Adds what a script gave as a body: text, or a list of texts and files. `range` says from a file's
-- table which part of it is meant: an offset and a length, or nothing if there is no telling.
local function add(list, label, range)
    for at = 1, #list do
        local piece = rawget(list, at)
        local kind = type(piece)
        if kind == "string" or kind == "number" then
            host.add_text(piece)
        elseif kind == "nil" then
            return
        elseif kind ~= "table" then
            return log(label .. "[" .. at .. "] is neither a string nor a table")
        else
            local name = piece.filename
            if type(name) ~= "string" then
                return log(label .. "[" .. at .. '] table field "filename" must be a string')
            end
            local offset, length = range(piece, name, label, at)
            if not offset or not host.add_file(name, offset, length) then
                return
            end
        end
    end
end

-- A field of a file's table, as a whole number.
local function whole(piece, field, default, label, at)
    local value = piece[field]
    if value == nil then
        return default
    end
    local number = tonumber(value)
    if not number or number ~= floor(number) then
        log(label .. "[" .. at .. '] is a table and field "' .. field .. '" must be an integer')
        return default
    end
    return number
end

-- `offset` and `length` as they say.
local function by_length(piece, _, label, at)
    return whole(piece, "offset", 0, label, at), whole(piece, "length", -1, label, at)
end

-- In the older interface `length` is where the part ends. It was a mistake once, and scripts rely
-- on it.
local function by_end(piece, name, label, at)
    local offset = whole(piece, "offset", 0, label, at)
    local stop = whole(piece, "length", -1, label, at)
    if offset < 0 then
        log("offset for '" .. name .. "' is negative")
        return
    elseif stop == -1 then
        return offset, -1
    elseif stop < offset then
        log("offset > length for '" .. name .. "'")
        return
    end
    return offset, stop - offset
end

local function add_body(body)
    local kind = type(body)
    if kind == "table" then
        add(body, "body", by_length)
    elseif kind == "string" or kind == "number" then
        host.add_text(body)
    else
        return nil
    end
    return true
end

local function set_body(body)
    if type(body) == "string" then
        host.set_text(body)
        return true
    end
    host.clear_body()
    return add_body(body)
end

local function response_body()
    return window(function(name)
        if name == "get" then
            return (host.response_body())
        elseif name == "len" then
            return (host.response_length())
        elseif name == "bytes_in" or name == "bytes_out" then
            return host.response_bytes(name)
        end
        error("r.resp_body invalid method or param", 2)
    end, nil, nil, { add = add_body, set = set_body })
end

local function add_request_body(body)
    if type(body) == "table" then
        for at = 1, #body do
            local piece = rawget(body, at)
            if type(piece) ~= "string" and type(piece) ~= "number" then
                log("body[" .. at .. "] table must contain strings")
                return true
            end
            host.add_request_body(piece)
        end
    elseif type(body) == "string" or type(body) == "number" then
        host.add_request_body(body)
    else
        return nil
    end
    return true
end

local function request_body()
    return window(function(name)
        if name == "collect" then
            return host.collect_body()
        elseif name == "len" then
            return host.request_length()
        elseif name == "get" then
            return (host.request_body())
        elseif name == "add" then
            return host.has_request_body() and add_request_body or nil
        elseif name == "set" then
            return host.has_request_body() and function(body)
                host.clear_request_body()
                return add_request_body(body)
            end or nil
        elseif name == "bytes_in" or name == "bytes_out" then
            return host.request_bytes(name)
        elseif name == "unspecified_len" then
            -- A body that ends where the connection does is refused before a script could be asked.
            return false
        end
        error("r.req_body invalid method or param", 2)
    end)
end

local times = { st_atim = "st_atime", st_mtim = "st_mtime", st_ctim = "st_ctime" }
local stat_meta = {
    __index = function(stat, name)
        if times[name] then
            return pair(rawget(stat, times[name]), stat[1][name])
        elseif name == "content-type" or name == "etag" then
            return (host.file_property(stat[1].path, name))
        elseif name == "http-response-send-file" then
            return host.send_file(stat[1].path)
        end
        error('stat["field"] invalid: ' .. tostring(name), 2)
    end,
    __newindex = read_only,
    __pairs = function()
        log("pairs() not implemented on lighty.stat object; returning empty iter")
        return function() end
    end,
    __metatable = false,
}

local function stat(path)
    local found = path ~= nil and host.stat(text(path, 1, "stat"))
    return found and setmetatable(found, stat_meta) or nil
end

local function readdir(path)
    local names = host.readdir(text(path, 1, "readdir"))
    if not names then
        return nil
    end
    local at = 0
    return function()
        at = at + 1
        return names[at]
    end
end

local function urlenc_query(query)
    if type(query) ~= "table" then
        return ""
    end
    local list = {}
    for name, value in next, query do
        if type(name) == "string" or type(name) == "number" then
            list[#list + 1] = tostring(name)
            list[#list + 1] = text(value, 2, "urlenc_query")
        end
    end
    return host.urlenc_query(list)
end

local function statistics()
    return window(host.counter, function(name, value)
        local number = tonumber(value)
        if not number then
            error("bad argument #3 to 'newindex' (number expected, got " .. type(value) .. ")", 3)
        end
        host.set_counter(name, number)
    end, host.counters)
end

local calls = { stat = stat, readdir = readdir, urlenc_query = urlenc_query }
for name, call in next, host.calls do
    calls[name] = call
end

-- Names and values of a flat list; of several values for a name the last one.
local function named(list)
    local values = {}
    for at = 1, #list, 2 do
        values[list[at]] = list[at + 1]
    end
    return values
end

local function nothing()
    return nil
end

-- Another request, as it was when it was asked for; nothing of it can be changed, and of its
-- response only numbers are known.
local function shown(other)
    local attributes, fields, items = named(other.attributes), named(other.fields), other.items
    return sealed {
        req_attr = window(function(name) return attributes[name] end, nil, function() return other.attributes end),
        req_header = window(function(name) return fields[lower(name)] end, nil, function() return other.fields end),
        req_item = window(function(name)
            local item = items[name]
            if not item then
                error("r.req_item['" .. name .. "'] invalid", 2)
            elseif name == "start_time" then
                return pair(item[1], item[2])
            end
            return item[1]
        end),
        req_env = window(nothing),
        req_body = window(nothing),
        resp_header = window(nothing),
        resp_body = window(nothing),
    }
end

-- The tables for one script file. They are made once; `current` says whose request they show.
local function new()
    local r = sealed {
        req_header = headers(REQUEST, host.assign_request_header),
        req_attr = attributes(),
        req_item = items(),
        req_env = variables(),
        req_body = request_body(),
        resp_header = headers(RESPONSE, host.assign_response_header),
        resp_body = response_body(),
    }
    local counters = statistics()
    local own = {}
    for name, call in next, calls do
        own[name] = call
    end
    return setmetatable({
        r = r,
        c = sealed(own),
        server = sealed {
            -- The one that the script runs for comes first.
            irequests = function()
                local others, at = host.others(), -1
                return function()
                    at = at + 1
                    return at == 0 and r or others[at] and shown(others[at])
                end
            end,
            plugin_stats = counters,
            stats = window(function(name)
                local value = host.server(name)
                if value == nil then
                    error("server.stats['" .. name .. "'] invalid", 2)
                end
                return value
            end),
        },
        request = r.req_header,
        env = r.req_attr,
        req_env = r.req_env,
        status = counters,
        stat = stat,
        RESTART_REQUEST = RESTART_REQUEST,
    }, {
        __index = function(_, name)
            local own = current.own or own_of(current)
            if name ~= "header" and name ~= "content" then
                return own.notes[name]
            end
            local value = own[name]
            if not value then
                value = {}
                own[name] = value
            end
            return value
        end,
        __newindex = function(_, name, value)
            local own = current.own or own_of(current)
            if name == "header" or name == "content" then
                own[name] = value
            else
                own.notes[name] = value
            end
        end,
        __metatable = false,
    })
end

local function enter(run)
    current = run
end

-- What a run returned, as a whole number: how a number is meant is decided in Rust.
local function number_of(value)
    if value == nil then
        return 0
    end
    local kind = type(value)
    local number = kind == "number" and value or kind ~= "table" and tonumber(value)
    if number and number == floor(number) and number > -2 ^ 31 and number < 2 ^ 31 then
        return number
    end
end

-- Ends a run that returned `value`: what the older interface left in its tables takes effect.
local function finish(run, value)
    local number = number_of(value)
    if not number then
        log("unexpected non-integer return type: " .. type(value))
        return 0
    end
    local own = run.own
    if not own then
        return number
    end
    local header, content = own.header, own.content
    if type(header) == "table" then
        local set = host.set_response_header
        for name, value in next, header do
            local kind = type(value)
            if (kind == "string" or kind == "number") and (type(name) == "string" or type(name) == "number") then
                set(name, value)
            end
        end
    end
    if number >= 200 and type(content) == "table" then
        local first = rawget(content, 1)
        if #content == 1 and type(first) == "string" then
            host.set_text(first)
        else
            host.clear_body()
            add(content, "content", by_end)
        end
    end
    return number
end

local tokamak = host.tokamak(host, sealed)

-- The globals of a script file, whose modules are looked for in `directory`.
local function globals(directory)
    local own = new_globals(directory)
    own.lighty = new()
    own.tokamak = tokamak()
    return own
end

return { new = new, globals = globals, enter = enter, finish = finish, tokamak = tokamak, calls = calls }
