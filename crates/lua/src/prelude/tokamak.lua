-- `tokamak`: what scripts have beyond lighttpd's interface. Its functions wait without holding up
-- anybody else, and give nil and a message if what they were to bring cannot be had; errors are for
-- calls that can never succeed.
local host, sealed = ...

local new_cache = host.cache(host, sealed)

local error, lower, next, rawget, setmetatable = error, string.lower, next, rawget, setmetatable
local concat, gmatch, match = table.concat, string.gmatch, string.match
local tonumber, tostring, type = tonumber, tostring, type

-- As Rust numbers them.
local SINGLE, PIPELINE, TRANSACTION = 0, 1, 2

-- Seconds that a call may take, and bytes that it may bring, if the script says nothing. Chosen
-- arbitrarily.
local TIMEOUT, MOST = 10, 8 * 2 ^ 20

-- Functions that may run side by side. Chosen arbitrarily.
local MOST_BRANCHES = 100

-- Names of Redis commands that are remembered as methods: there are 240. Chosen arbitrarily.
local MOST_METHODS = 500

-- Waits for what was begun under a number.
local function wait(number)
    return host.wait(number)
end

local function positive(value, name, default)
    if value == nil then
        return default
    end
    local number = tonumber(value)
    if not number or not (number >= 0) then
        error("'" .. name .. "' must be a number, and not below 0", 3)
    end
    return number
end

local function text(value, name)
    if value == nil or type(value) == "string" then
        return value
    elseif type(value) == "number" then
        return tostring(value)
    end
    error("'" .. name .. "' must be a string", 3)
end

-- Nothing writes into it.
local NO_OPTIONS = {}

local function checked(options, known, name)
    if options == nil then
        return NO_OPTIONS
    elseif type(options) ~= "table" then
        error("bad argument to '" .. name .. "' (table expected, got " .. type(options) .. ")", 3)
    end
    for option in next, options do
        if not known[option] then
            error("'" .. name .. "' has no option '" .. tostring(option) .. "'", 3)
        end
    end
    return options
end

local function sleep(seconds)
    local number = tonumber(seconds)
    if not number or not (number >= 0) then
        error("bad argument #1 to 'sleep' (seconds expected)", 2)
    end
    local _, problem = wait(host.sleep(number))
    if problem then
        error(problem, 2)
    end
end

-- A flat list of header fields; a table as a value is several of them.
local function fields_of(headers)
    if headers == nil then
        return nil
    elseif type(headers) ~= "table" then
        error("'headers' must be a table", 3)
    end
    local list, count = {}, 0
    local function add(name, value)
        if type(name) ~= "string" or type(value) ~= "string" and type(value) ~= "number" then
            error("'headers' must have strings, or lists of strings, by name", 4)
        end
        list[count + 1], list[count + 2] = name, tostring(value)
        count = count + 2
    end
    for name, value in next, headers do
        if type(value) == "table" then
            for at = 1, #value do
                add(name, value[at])
            end
        else
            add(name, value)
        end
    end
    return list
end

-- Response fields are asked for by any spelling of their names.
local any_case = {
    __index = function(fields, name)
        return type(name) == "string" and rawget(fields, lower(name)) or nil
    end,
    __metatable = false,
}

local function parsed_fields(text)
    local headers = {}
    for name, value in gmatch(text, "([^\n]*)\n([^\n]*)\n") do
        local before = headers[name]
        if type(before) == "table" then
            before[#before + 1] = value
        else
            headers[name] = before and { before, value } or value
        end
    end
    return setmetatable(headers, any_case)
end

local response_meta = {
    __index = function(response, name)
        if name == "headers" then
            local headers = parsed_fields(response._fields)
            response.headers, response._fields = headers, nil
            return headers
        end
    end,
    __metatable = false,
}

local function received(status, body, fields)
    if not status then
        return nil, body
    end
    -- `_fields` are the header fields as text, until somebody asks for them. A table that is made
    -- with names that do not change has room for them at once.
    return setmetatable({ status = status, body = body, _fields = fields }, response_meta)
end

local http_options = {
    url = true, method = true, headers = true, body = true, timeout = true, max_body = true, socket = true,
}

local function send(url, method, body, options, through)
    url = text(url, "url")
    if not url then
        error("there is no 'url'", 2)
    end
    return received(wait((through or host.http)(
        method, url, text(options.socket, "socket"), fields_of(options.headers), body,
        positive(options.timeout, "timeout", TIMEOUT), positive(options.max_body, "max_body", MOST))))
end

local http = {
    get = function(url, options)
        options = checked(options, http_options, "tokamak.http.get")
        return send(url, "GET", nil, options)
    end,
    post = function(url, body, options)
        options = checked(options, http_options, "tokamak.http.post")
        return send(url, "POST", text(body, "body"), options)
    end,
    request = function(options)
        options = checked(options, http_options, "tokamak.http.request")
        local body = text(options.body, "body")
        return send(options.url, text(options.method, "method") or (body and "POST" or "GET"), body, options)
    end,
}

local fetch_options = { method = true, headers = true, body = true, timeout = true, max_body = true }

local function fetch(path, options)
    if type(path) ~= "string" then
        error("bad argument #1 to 'fetch' (string expected, got " .. type(path) .. ")", 2)
    end
    options = checked(options, fetch_options, "tokamak.fetch")
    local body = text(options.body, "body")
    local method = text(options.method, "method") or (body and "POST" or "GET")
    return send(path, method, body, options, host.fetch)
end

-- The numbers by which Rust knows the servers of these objects.
local servers = {}

local function send_commands(redis, kind, ...)
    local server = servers[redis]
    if not server then
        error("a Redis server's functions are called with a colon: redis:get(key)", 3)
    end
    local number, problem = host.redis(server, kind, ...)
    if not number then
        error(problem, 3)
    end
    return wait(number)
end

local methods, count = {
    call = function(redis, ...)
        return send_commands(redis, SINGLE, ...)
    end,
    pipeline = function(redis, commands)
        return send_commands(redis, PIPELINE, commands)
    end,
    transaction = function(redis, commands)
        return send_commands(redis, TRANSACTION, commands)
    end,
}, 0

setmetatable(methods, {
    __index = function(_, name)
        if type(name) ~= "string" then
            return nil
        end
        local function command(redis, ...)
            return send_commands(redis, SINGLE, name, ...)
        end
        if count < MOST_METHODS then
            methods[name] = command
            count = count + 1
        end
        return command
    end,
})

local redis_meta = {
    __index = methods,
    __newindex = function()
        error("lua table is read-only", 2)
    end,
    __metatable = false,
}

local redis_options = {
    host = true, port = true, socket = true, user = true, password = true, database = true, timeout = true,
}

-- What a text like `127.0.0.1:6379`, `[::1]` or `unix:/run/redis.sock` says.
local function parsed(address)
    local socket = match(address, "^unix:(.+)$")
    if socket then
        return { socket = socket }
    end
    local name, port = match(address, "^%[([%x:.]+)%]:?(%d*)$")
    if not name then
        name, port = match(address, "^([^:/@%s]+):?(%d*)$")
    end
    if not name then
        error("'" .. address .. "' is no address of a Redis server", 4)
    end
    return { host = name, port = tonumber(port) }
end

-- The object for a server that a script has named in this way. `known` are those of its file.
local function server_of(known, where)
    local options = type(where) == "string" and parsed(where) or checked(where, redis_options, "tokamak.redis")
    local parts = {
        text(options.host, "host") or "127.0.0.1",
        positive(options.port, "port", 6379),
        text(options.socket, "socket") or "",
        text(options.user, "user") or "",
        text(options.password, "password") or "",
        positive(options.database, "database", 0),
        positive(options.timeout, "timeout", TIMEOUT),
    }
    local key = concat(parts, "\0")
    local object = known[key]
    if not object then
        local number, problem = host.redis_server(parts[1], parts[2], parts[3], parts[4], parts[5], parts[6], parts[7])
        if not number then
            error(problem, 3)
        end
        object = setmetatable({}, redis_meta)
        servers[object] = number
        known[key] = object
    end
    if type(where) == "string" then
        known[where] = object
    end
    return object
end

local function read(path, most)
    if type(path) ~= "string" then
        error("bad argument #1 to 'read' (string expected, got " .. type(path) .. ")", 2)
    end
    return wait(host.read_file(path, positive(most, "max", MOST)))
end

local function all(bodies)
    if type(bodies) ~= "table" then
        error("bad argument #1 to 'all' (table expected, got " .. type(bodies) .. ")", 2)
    end
    local number = 0
    for _, body in next, bodies do
        if type(body) ~= "function" then
            error("bad argument #1 to 'all' (functions expected, got a " .. type(body) .. ")", 2)
        end
        number = number + 1
    end
    if number > MOST_BRANCHES then
        error("more than " .. MOST_BRANCHES .. " functions cannot run side by side", 2)
    end
    local values, problems, failure = host.branch(bodies)
    if failure then
        error(failure, 0)
    end
    return values, problems
end

-- The table for one script file, which shares nothing with those of others that a script could
-- change.
return function()
    local own = {}
    for name, call in next, http do
        own[name] = call
    end
    local known = {}
    return sealed {
        all = all,
        cache = new_cache(),
        fetch = fetch,
        file = sealed { read = read },
        http = sealed(own),
        null = host.null,
        redis = function(where)
            return known[where] or server_of(known, where)
        end,
        shared = host.shared(),
        sleep = sleep,
    }
end
