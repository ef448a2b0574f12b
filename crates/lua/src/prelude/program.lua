-- What scripts find that take the place of a program, as under the FastCGI launcher for Lua: one
-- global environment for all of them, standard streams that are the request's, and the script cache
-- to look at.
local host, lighty, globals = ...

local error, find, match, next, select = error, string.find, string.match, next, select
local setmetatable, sub, tonumber, tostring, type = setmetatable, string.sub, tonumber, tostring, type
local concat, isyieldable, rawset, unpack = table.concat, coroutine.isyieldable, rawset, unpack
local open_lines, type_of_file = globals.io.lines, globals.io.type

-- Bytes of a body that are read at once, and of a response that are collected before Rust is given
-- them. Chosen arbitrarily.
local PIECE = 65536
local MOST_COLLECTED = 16384

-- The run whose script is being executed.
local current

-- What a run keeps: what it has printed and what it has fetched of the body.
local function own_of(run)
    local own = { printed = false, input = false }
    run.own = own
    return own
end

-- What a run has printed and Rust has not seen: mostly all of it, so that a response is one call.
local function flush(run)
    local own = run.own
    local printed = own and own.printed
    if printed then
        own.printed = false
        return host.write(concat(printed, "", 1, printed.count))
    end
end

local function flush_and_wait()
    -- Where a script cannot wait, Rust has to keep more.
    if flush(current) and isyieldable() then
        host.wait(host.sent())
    end
end

local function put(text)
    local own = current.own or own_of(current)
    local printed = own.printed
    if not printed then
        printed = { count = 0, bytes = 0 }
        own.printed = printed
    end
    local count = printed.count + 1
    printed[count] = text
    printed.count = count
    local bytes = printed.bytes + #text
    printed.bytes = bytes
    if bytes >= MOST_COLLECTED then
        flush_and_wait()
    end
end

function globals.print(...)
    for at = 1, select("#", ...) do
        local value = select(at, ...)
        if type(value) ~= "string" then
            value = tostring(value)
            if type(value) ~= "string" then
                error("'tostring' must return a string to 'print'", 2)
            end
        end
        put(value)
    end
end

-- The bytes of the body that have been fetched, from `at` on.
local function input()
    local own = current.own or own_of(current)
    local state = own.input
    if not state then
        state = { text = "", at = 1 }
        own.input = state
    end
    return state
end

-- Fetches the next bytes in the place of those that there are; whether there were any.
local function fetch(state)
    state.text, state.at = host.read(PIECE), 1
    return state.text ~= ""
end

local function read_line(keeps_end)
    local state, parts = input(), nil
    while true do
        local stop = find(state.text, "\n", state.at, true)
        if stop then
            local line = sub(state.text, state.at, keeps_end and stop or stop - 1)
            state.at = stop + 1
            return parts and concat(parts) .. line or line
        end
        parts = parts or {}
        parts[#parts + 1] = sub(state.text, state.at)
        if not fetch(state) then
            local line = concat(parts)
            return line ~= "" and line or nil
        end
    end
end

local function read_all()
    local state = input()
    local parts = { sub(state.text, state.at) }
    while fetch(state) do
        parts[#parts + 1] = state.text
    end
    return concat(parts)
end

local function read_bytes(count)
    local state, parts = input(), {}
    if state.at > #state.text and not fetch(state) then
        return nil
    end
    while count > 0 do
        local piece = sub(state.text, state.at, state.at + count - 1)
        parts[#parts + 1] = piece
        state.at = state.at + #piece
        count = count - #piece
        if count > 0 and not fetch(state) then
            break
        end
    end
    return concat(parts)
end

-- No number that is meant has more digits. Chosen arbitrarily.
local LONGEST_NUMBER = 200

local function read_number()
    local state = input()
    while true do
        local from = find(state.text, "%S", state.at)
        if from then
            state.at = from
            break
        elseif not fetch(state) then
            return nil
        end
    end
    -- It may go on in the bytes that come next.
    local text = sub(state.text, state.at)
    if #text < LONGEST_NUMBER then
        text = text .. host.read(LONGEST_NUMBER)
        state.text, state.at = text, 1
    end
    local word = match(text, "^[+-]?0[xX]%x+") or match(text, "^[+-]?%d*%.?%d*[eE][+-]?%d+")
        or match(text, "^[+-]?%d*%.?%d*")
    state.at = state.at + #word
    return tonumber(word)
end

local readers = {
    n = read_number,
    a = read_all,
    l = read_line,
    L = function() return read_line(true) end,
}

local function read_one(format)
    if type(format) == "number" then
        return read_bytes(format)
    end
    local reader = type(format) == "string" and readers[match(format, "^%*?([nalL])") or ""]
    if not reader then
        error("bad argument to 'read' (invalid format)", 3)
    end
    return reader()
end

local function read(...)
    local count = select("#", ...)
    if count == 0 then
        return read_line()
    elseif count == 1 then
        return (read_one((...)))
    end
    local values = {}
    for at = 1, count do
        values[at] = read_one((select(at, ...)))
        if values[at] == nil then
            return unpack(values, 1, at)
        end
    end
    return unpack(values, 1, count)
end

-- A standard stream: files that scripts open are another kind.
local function stream(methods)
    local name = methods.name
    methods.name = nil
    function methods.close()
        return nil, "a standard stream stays open"
    end
    function methods.seek()
        return nil, "Illegal seek", 29
    end
    return setmetatable({}, {
        __index = methods,
        __newindex = function() error("a standard stream has no fields", 2) end,
        __tostring = function() return "file (" .. name .. ")" end,
        __metatable = false,
    })
end

local function refuses(what)
    return function()
        return nil, "a stream that " .. what, 9
    end
end

local function writer(name, send, flushed)
    local own
    own = stream {
        name = name,
        write = function(_, ...)
            for at = 1, select("#", ...) do
                local value = select(at, ...)
                if type(value) == "number" then
                    value = tostring(value)
                elseif type(value) ~= "string" then
                    error("bad argument #" .. at .. " to 'write' (string expected, got " .. type(value) .. ")", 2)
                end
                send(value)
            end
            return own
        end,
        flush = flushed,
        setvbuf = function() return true end,
        read = refuses("is written to"),
        lines = refuses("is written to"),
    }
    return own
end

local io = globals.io
io.stdin = stream {
    name = "stdin",
    read = function(_, ...) return read(...) end,
    lines = function() return function() return read_line() end end,
    write = refuses("is read from"),
    flush = refuses("is read from"),
    setvbuf = refuses("is read from"),
}
io.stdout = writer("stdout", put, function()
    flush_and_wait()
    return true
end)
io.stderr = writer("stderr", host.write_stderr, function() return true end)

local standard = { [io.stdin] = true, [io.stdout] = true, [io.stderr] = true }
local stdin, stdout = io.stdin, io.stdout

io.read = read
function io.write(...) return stdout:write(...) end
function io.flush() return stdout:flush() end
function io.lines(path, ...)
    if path == nil then
        return stdin:lines()
    end
    return open_lines(path, ...)
end
function io.input(other)
    if other ~= nil then
        error("io.input is the request's body and cannot be changed", 2)
    end
    return stdin
end
function io.output(other)
    if other ~= nil then
        error("io.output is the response and cannot be changed", 2)
    end
    return stdout
end
function io.type(value)
    return standard[value] and "file" or type_of_file(value)
end

function globals.os.getenv(name)
    if type(name) ~= "string" and type(name) ~= "number" then
        error("bad argument #1 to 'getenv' (string expected, got " .. type(name) .. ")", 2)
    end
    return (host.variable(name))
end

local calls = {}
for name, call in next, lighty.calls do
    calls[name] = call
end
globals.lighty = { c = calls }
globals.tokamak = lighty.tokamak()

-- For scripts to look at; the driver has its own.
local cache, served = {}, 0
local magnet = { cache = cache, conns_served = served }
globals.magnet = magnet

local function loaded(script, path, main, changed)
    script.hits = script.hits or 0
    script.shown = { script = main, mtime = changed, hits = script.hits }
    rawset(cache, path, script.shown)
end

local function begin(script)
    script.hits = script.hits + 1
    rawset(script.shown, "hits", script.hits)
    served = served + 1
    rawset(magnet, "conns_served", served)
end

return {
    globals = function() return globals end,
    enter = function(run) current = run end,
    pause = flush,
    finish = function(run)
        flush(run)
        return 0
    end,
    loaded = loaded,
    begin = begin,
}
