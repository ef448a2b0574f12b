-- `require "cml"`: runs scripts of lighttpd's mod_cml, which decide whether a page is put together
-- from files, or an application has to make it.
local host, new_lighty = ...

local error, floor, gmatch, load, setfenv, setmetatable = error, math.floor, string.gmatch, load, setfenv, setmetatable
local date, find, gsub, lower, match, sub = os.date, string.find, string.gsub, string.lower, string.match, string.sub
local tonumber, tostring, type = tonumber, tostring, type

local HIT, MISS = 0, 1

-- Compiled scripts that are kept, at most. Chosen arbitrarily: more are a sign that somebody makes
-- them.
local MOST_KEPT = 1000

local function text_of(value, name)
    if type(value) ~= "string" and type(value) ~= "number" then
        error(name .. ": argument has to be a string", 3)
    end
    return tostring(value)
end

-- What mod_cml lets scripts ask.
local function functions(calls)
    local function stat_of(path, name)
        return calls.stat(text_of(path, name))
    end
    return {
        CACHE_HIT = HIT,
        CACHE_MISS = MISS,
        md5 = function(text)
            return lower(calls.md("md5", text_of(text, "md5")))
        end,
        file_mtime = function(path)
            local stat = stat_of(path, "file_mtime")
            return stat and stat.st_mtime
        end,
        file_isreg = function(path)
            local stat = stat_of(path, "file_isreg")
            return stat and (stat.is_file and 1 or 0)
        end,
        file_isdir = function(path)
            local stat = stat_of(path, "file_isdir")
            return stat and (stat.is_dir and 1 or 0)
        end,
        dir_files = function(path)
            return calls.readdir(text_of(path, "dir_files"))
        end,
    }
end

-- What scripts ask of memory: of anything that has a method `get`.
local function add_memory(environment, memory)
    local function get(key, name)
        return (memory:get(text_of(key, name)))
    end
    function environment.memcache_exists(key)
        return get(key, "memcache_exists") ~= nil
    end
    function environment.memcache_get_string(key)
        local value = get(key, "memcache_get_string")
        return value ~= nil and tostring(value) or nil
    end
    function environment.memcache_get_long(key)
        local number = tonumber(get(key, "memcache_get_long"))
        return number and number == floor(number) and number or nil
    end
end

-- The query's parameters as they were sent: mod_cml did not decode them.
local function parameters(query)
    local all = {}
    for part in gmatch(query or "", "[^&]+") do
        local name, value = match(part, "^([^=]*)=(.*)$")
        if name then
            all[name] = value
        end
    end
    return all
end

-- Makes files the response, unless one is missing; `nil` then.
local function include(r, calls, list, folder)
    local body, newest = {}, 0
    for at = 1, #list do
        local name = list[at]
        if type(name) ~= "string" and type(name) ~= "number" then
            error("output_include has something that is not a string", 0)
        end
        local path = find(name, "^/") and name or folder .. name
        local stat = calls.stat(path)
        if not stat then
            return nil
        end
        newest = stat.st_mtime > newest and stat.st_mtime or newest
        body[at] = { filename = path }
    end
    local modified = r.resp_header["Last-Modified"]
    if not modified then
        modified = date("!%a, %d %b %Y %H:%M:%S GMT", newest > 0 and newest or nil)
        r.resp_header["Last-Modified"] = modified
    end
    if r.req_header["If-Modified-Since"] == modified then
        return 304
    end
    r.resp_body.set(body)
    return 200
end

return function(_, globals)
    local lighty = new_lighty()
    local r, calls = lighty.r, lighty.c
    local shared = functions(calls)
    local kept, count = {}, 0

    -- A function that makes a script's function, so that runs which overlap have one each.
    local function factory_of(path, stat)
        local known = kept[path]
        if known and known.mtime == stat.st_mtime and known.size == stat.st_size and known.inode == stat.st_ino then
            return known.factory
        end
        local text, problem = host.source_of(path)
        local factory
        if text then
            -- For the message alone: in the next line the end of the text is not where the compiler
            -- would find it.
            factory, problem = load(text, "@" .. path, "t", globals)
        end
        if factory then
            factory, problem = load("return function(...) " .. text .. "\nend", "@" .. path, "t", globals)
        end
        if not factory then
            error(problem, 0)
        end
        if count >= MOST_KEPT then
            kept, count = {}, 0
        end
        count = known and count or count + 1
        kept[path] = { factory = factory, mtime = stat.st_mtime, size = stat.st_size, inode = stat.st_ino }
        return factory
    end

    local function environment_for(path, options)
        local attr = r.req_attr
        local environment = setmetatable({
            request = {
                REQUEST_URI = attr["request.orig-uri"],
                SCRIPT_NAME = attr["uri.path"],
                SCRIPT_FILENAME = path,
                DOCUMENT_ROOT = attr["physical.doc-root"],
                PATH_INFO = attr["request.path-info"],
                CWD = match(path, "^.*/"),
                BASEURL = match(attr["uri.path"], "^.*/"),
            },
            get = parameters(attr["uri.query"]),
        }, { __index = function(_, name)
            local value = shared[name]
            if value == nil then
                value = globals[name]
            end
            return value
        end })
        if options.memory then
            add_memory(environment, options.memory)
        end
        return environment
    end

    -- The application that makes the page.
    local function escalate(environment, query)
        local path = calls.urlenc(environment.request.BASEURL .. environment.trigger_handler)
        r.req_attr["request.uri"] = query and path .. "?" .. query or path
        return lighty.RESTART_REQUEST
    end

    local cml = {}

    -- Answers a request for a script; nothing if there is none.
    function cml.serve(options)
        options = options or {}
        local path = r.req_attr["physical.path"]
        if not path then
            error("cml.serve: ask in lua_physical; before that it is not known which file is meant", 2)
        end
        if sub(path, -1) == "/" then
            path = path .. (options.index or "index.cml")
        end
        local stat = sub(path, -4) == ".cml" and calls.stat(path)
        if not stat then
            return nil
        end
        local factory = factory_of(path, stat)
        local environment = environment_for(path, options)
        local answer = tonumber(setfenv(factory, environment)()()) or HIT
        local handler = environment.trigger_handler
        if environment.output_contenttype then
            r.resp_header["Content-Type"] = environment.output_contenttype
        end
        if answer == HIT then
            if type(environment.output_include) ~= "table" then
                error(path .. ": output_include is missing or not a table", 0)
            end
            local status = include(r, calls, environment.output_include, environment.request.CWD)
            if status then
                return status
            end
        end
        if (answer == HIT or answer == MISS) and handler then
            r.resp_header["Content-Type"] = nil
            return escalate(environment, r.req_attr["uri.query"])
        end
        error(path .. (answer == HIT and ": a file is missing, and there is no trigger_handler"
            or ": a miss, and there is no trigger_handler"), 0)
    end

    return cml
end
