-- The standard library as scripts see it, made anew for each script file: what one script changes
-- in it, no other script sees. Left out is what ends or blocks the process, reaches past a script's
-- own functions, loads machine code or byte code, or switches the limits off.
--
-- Every function here uses locals only, because a script may try to give any function that it gets
-- hold of another environment.
local host, bounded = ...

local raw = _G
local assert, error, ipairs, next, pcall, rawequal, rawget = assert, error, ipairs, next, pcall, rawequal, rawget
local select, tonumber, tostring, type, unpack = select, tonumber, tostring, type, unpack
local getfenv, load, setfenv, setmetatable, xpcall = getfenv, load, setfenv, setmetatable, xpcall
local metatable_of = debug.getmetatable
local getinfo, traceback = debug.getinfo, debug.traceback
local open, concat, running, used = io.open, table.concat, coroutine.running, collectgarbage
local find, gmatch, gsub, sub = string.find, string.gmatch, string.gsub, string.sub

-- Names that are copied as they are; `true` is the whole library.
local kept = {
    bit = true,
    math = true,
    table = true,
    string = true,
    coroutine = { "create", "isyieldable", "resume", "status", "wrap", "yield" },
    io = { "lines", "open", "type" },
    os = { "clock", "date", "difftime", "getenv", "remove", "rename", "time", "tmpname" },
    jit = { "arch", "os", "version", "version_num" },
}
local functions = {
    "assert", "error", "getmetatable", "ipairs", "next", "pcall", "rawequal", "rawget", "rawset", "select",
    "setmetatable", "tonumber", "tostring", "type", "unpack", "_VERSION",
}

-- `pairs` that asks `__pairs`, which LuaJIT's does not: the tables of the request have it.
local function pairs(t, ...)
    local meta = metatable_of(t)
    local own = meta and rawget(meta, "__pairs")
    if own then
        return own(t)
    end
    if type(t) ~= "table" then
        error("bad argument #1 to 'pairs' (table expected, got " .. type(t) .. ")", 2)
    end
    return next, t, nil
end

-- While an error of the time limit is on its way, the limit is off: a handler may not use that to
-- go on.
local function guarded_xpcall(function_, handler, ...)
    return xpcall(function_, function(problem)
        if host.is_overdue() then
            return problem
        end
        return handler(problem)
    end, ...)
end

local function copy(library, names)
    local new = {}
    if names == true then
        for name, value in next, library do
            new[name] = value
        end
    else
        for _, name in ipairs(names) do
            new[name] = library[name]
        end
    end
    return new
end

local libraries = {}
for name, names in next, kept do
    libraries[name] = copy(raw[name], names)
end
for name in next, libraries do
    for field, function_ in next, bounded[name] or {} do
        libraries[name][field] = function_
    end
end
libraries.string.dump = nil
local plain = copy(raw, functions)

-- `("x"):upper()` uses methods that are out of every script's reach.
local of_strings = metatable_of("")
of_strings.__index = copy(libraries.string, true)
of_strings.__metatable = false
metatable_of(io.stdout).__metatable = false
math.randomseed(host.random())

-- Scripts may not see the coroutine that they run in: resumed by another run it would run in its
-- place.
libraries.coroutine.running = function()
    local thread = running()
    if host.is_hidden(thread) then
        return nil
    end
    return thread
end

local function described(...)
    local info = getinfo(...)
    if info then
        info.func = nil
    end
    return info
end

local function blocks(name)
    return function()
        error(name .. " is not available here: it would stop all requests of the event loop", 2)
    end
end

-- Reads the source of a file; text only, since nothing checks byte code.
local function source_of(path)
    local file, problem = open(path, "rb")
    if not file then
        return nil, problem
    end
    local text = file:read("*a")
    file:close()
    if not text then
        return nil, "cannot read " .. path
    end
    return (gsub(text, "^#[^\n]*", ""))
end
host.source_of = source_of

local function require_for(globals, directory)
    local package = {
        path = directory .. "/?.lua;" .. directory .. "/?/init.lua",
        loaded = { _G = globals },
        preload = {},
    }
    for name in next, kept do
        package.loaded[name] = globals[name]
    end
    local loading = {}
    local function loader_of(name)
        local preload = package.preload[name]
        if preload then
            return preload
        end
        if host.modules[name] then
            return host.modules[name]
        end
        local tried = {}
        for template in gmatch(tostring(package.path), "[^;]+") do
            local path = gsub(template, "%?", (gsub(gsub(name, "%.", "/"), "%%", "%%%%")))
            local text, problem = source_of(path)
            if text then
                return assert(load(text, "@" .. path, "t", globals))
            end
            tried[#tried + 1] = "\n\t" .. problem
        end
        error("module '" .. name .. "' not found:" .. concat(tried), 3)
    end
    local function require(name)
        if type(name) ~= "string" then
            error("bad argument #1 to 'require' (string expected, got " .. type(name) .. ")", 2)
        end
        local loaded = package.loaded[name]
        if loaded ~= nil then
            return loaded
        end
        if loading[name] then
            error("loop in the modules that '" .. name .. "' requires", 2)
        end
        loading[name] = true
        local good, value = pcall(loader_of(name), name, globals)
        loading[name] = nil
        if not good then
            error(value, 0)
        end
        if value ~= nil then
            package.loaded[name] = value
        elseif package.loaded[name] == nil then
            package.loaded[name] = true
        end
        -- Before Lua 5.2 a module was also a global of its name, and old scripts rely on it.
        if name == "lfs" then
            globals.lfs = value
        end
        return package.loaded[name]
    end
    return package, require
end

-- Functions that compile or look at environments, for the globals of one script.
local function add_guarded(globals)
    local function shown(environment)
        return rawequal(environment, raw) and globals or environment
    end
    function globals.getfenv(of)
        of = of == nil and 1 or of
        if type(of) == "number" and of > 0 then
            of = of + 1
        end
        local good, environment = pcall(getfenv, type(of) == "number" and of + 1 or of)
        if not good then
            error(environment, 2)
        end
        return shown(environment)
    end
    function globals.setfenv(of, environment)
        if type(of) == "number" then
            -- The level of the caller, seen from here.
            local info = of >= 1 and getinfo(of + 1, "f")
            of = info and info.func
        end
        if type(of) ~= "function" or type(environment) ~= "table" then
            error("bad argument to 'setfenv' (function or level, and table expected)", 2)
        end
        if rawequal(getfenv(of), raw) then
            error("'setfenv' cannot change environment of given object", 2)
        end
        return setfenv(of, environment)
    end
    function globals.load(chunk, name, _, environment)
        if type(chunk) == "function" then
            local pieces = {}
            for piece in chunk do
                if piece == "" then
                    break
                end
                pieces[#pieces + 1] = piece
            end
            chunk = concat(pieces)
        elseif type(chunk) ~= "string" then
            error("bad argument #1 to 'load' (function expected, got " .. type(chunk) .. ")", 2)
        end
        return load(chunk, name or chunk, "t", environment or globals)
    end
    function globals.loadstring(chunk, name)
        return globals.load(chunk, name)
    end
    function globals.loadfile(path, _, environment)
        local text, problem = source_of(path)
        if not text then
            return nil, problem
        end
        return load(text, "@" .. path, "t", environment or globals)
    end
    function globals.dofile(path)
        local text, problem = source_of(path)
        if not text then
            error(problem, 2)
        end
        return assert(load(text, "@" .. path, "t", globals))()
    end
end

-- The globals of a script file, whose modules are looked for in `directory`.
return function(directory)
    local globals = copy(plain, true)
    globals._G = globals
    globals.pairs = pairs
    globals.xpcall = guarded_xpcall
    globals.print = bounded.print
    function globals.collectgarbage(what)
        return what == "count" and used("count") or 0
    end
    for name, library in next, libraries do
        globals[name] = copy(library, true)
    end
    globals.debug = { getinfo = described, traceback = traceback }
    globals.io.popen = blocks("io.popen")
    globals.os.execute = blocks("os.execute")
    globals.os.exit = function()
        error("os.exit is not available here: it would end the server", 2)
    end
    add_guarded(globals)
    globals.package, globals.require = require_for(globals, directory)
    return globals
end, pairs
