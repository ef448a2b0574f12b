-- `tokamak.cache`: what scripts say to the content cache of their request, and of other responses
-- there.
local host, sealed = ...

local error, huge, next, tonumber, tostring, type = error, math.huge, next, tonumber, tostring, type

-- Tags of a response. Chosen arbitrarily.
local MOST_TAGS = 100

local function text_of(value, name)
    if type(value) ~= "string" and type(value) ~= "number" or value == "" then
        error("'" .. name .. "' must be a string that is not empty", 3)
    end
    return tostring(value)
end

local function seconds_of(value, name)
    local number = tonumber(value)
    if not number or not (number >= 0) then
        error("'" .. name .. "' must be seconds, and not below 0", 3)
    end
    return number
end

local function list_of(value, name)
    if type(value) == "string" then
        return { value }
    elseif type(value) ~= "table" then
        error("'" .. name .. "' must be a list of strings", 3)
    end
    local list = {}
    for at = 1, #value do
        list[at] = text_of(value[at], name)
    end
    return list
end

local function tags_of(value, name)
    local tags = list_of(value, name)
    if #tags > MOST_TAGS then
        error("a response has " .. MOST_TAGS .. " tags at most", 3)
    end
    return tags
end

local function boolean_of(value, name)
    if type(value) ~= "boolean" then
        error("'" .. name .. "' must be true or false", 3)
    end
    return value
end

-- The fields of a request's cache settings, and how each value is read.
local settings = {
    bypass = boolean_of,
    key = text_of,
    lifetime = seconds_of,
    stale_if_error = seconds_of,
    stale_while_revalidate = seconds_of,
    tags = tags_of,
}

local purges = { key = true, prefix = true, tag = true, url = true }

local function table_of(value, name)
    if type(value) ~= "table" then
        error("bad argument to '" .. name .. "' (table expected, got " .. type(value) .. ")", 3)
    end
    return value
end

local function set(options)
    for name, value in next, table_of(options, "set") do
        local read = settings[name]
        if not read then
            error("'set' has no option '" .. tostring(name) .. "'", 2)
        end
        host.set_cache(name, read(value, name))
    end
end

local function purge(what)
    local name, value = next(table_of(what, "purge"))
    if name == nil or next(what, name) ~= nil then
        error("'purge' wants one of 'url', 'prefix', 'key', 'tag' and 'all'", 2)
    end
    if name == "all" and value == true then
        return host.cache_purge("all", "")
    elseif not purges[name] then
        error("'purge' has no option '" .. tostring(name) .. "'", 2)
    end
    return host.cache_purge(name, text_of(value, name))
end

local function find(key)
    return host.cache_find(key ~= nil and text_of(key, "key") or nil)
end

-- Makes what is kept under a key the response, and gives the status to return; nil if there is
-- nothing.
local function answer(key)
    return (host.cache_send(text_of(key, "key")))
end

-- A kept response is for use as long as it is newer than these files, and than the times under
-- these keys of a memory.
local function depends(sources)
    table_of(sources, "depends")
    for name in next, sources do
        if name ~= "files" and name ~= "keys" and name ~= "memory" then
            error("'depends' has no option '" .. tostring(name) .. "'", 2)
        end
    end
    local newest = 0
    for _, path in next, list_of(sources.files or {}, "files") do
        -- A file that is gone was there once: nobody knows until when.
        local time = host.changed(path) or huge
        newest = time > newest and time or newest
    end
    local keys = list_of(sources.keys or {}, "keys")
    if #keys > 0 and type(sources.memory) ~= "table" then
        error("'depends' looks for 'keys' in 'memory', such as tokamak.shared.NAME", 2)
    end
    for _, key in next, keys do
        local time = tonumber((sources.memory:get(key)))
        newest = time and time > newest and time or newest
    end
    host.set_cache("since", newest)
end

-- The table for one script file.
return function()
    return sealed { answer = answer, depends = depends, find = find, purge = purge, set = set }
end
