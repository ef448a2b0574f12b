-- Runs scripts: each run in a coroutine, with an environment of its own. Rust calls `start` and, when what a run
-- waited for is there, `go_on`; whatever happens in a script, both return to Rust.
--
-- A run may be ended between any two instructions, here too, when its time is up. So a coroutine is never in the
-- pool while it is in use, and what ended badly is not put back.
--
-- What scripts find and what their end means is the business of `dialect`: `globals(directory)` are those of a script file,
-- `enter(run)` says whose script is executed now, `finish(run, value)` ends a run. It may have `begin(script)`, which comes
-- before a run, `pause(run)`, which comes when one waits, and `loaded(script, path, main, changed)`, which comes when a file
-- has been compiled.
local host, dialect, reset = ...

local begin, enter, pause = dialect.begin, dialect.enter, dialect.pause
local finish, loaded, globals_for = dialect.finish, dialect.loaded, dialect.globals

local create, resume, yield, running = coroutine.create, coroutine.resume, coroutine.yield, coroutine.running
local load, setfenv, setmetatable = load, setfenv, setmetatable
local tostring, traceback, type, xpcall = tostring, debug.traceback, type, xpcall

-- What a coroutine says when it yields; scripts cannot get hold of these.
local DONE, WAIT = {}, {}
-- What Rust is told.
local FINISHED, WAITING, FAILED = 0, 1, 2

-- Most coroutines that are kept for the next runs. Chosen arbitrarily.
local MOST_IDLE = 64

local idle, count = {}, 0
local current

local function explain(problem)
    local kind = type(problem)
    if kind == "string" then
        return traceback(problem, 2)
    elseif kind == "number" or kind == "userdata" then
        return tostring(problem)
    end
    return "(error object is a " .. kind .. " value)"
end

local function loop(run)
    while true do
        local good, value = xpcall(run.main, explain)
        run = yield(DONE, good, value)
    end
end

local function settle(run, alive, mark, good, value)
    current = nil
    if not alive then
        return FAILED, explain(mark)
    elseif mark == WAIT then
        if pause then
            pause(run)
        end
        return WAITING, run
    elseif mark ~= DONE then
        return FAILED, "attempt to yield from outside a coroutine"
    end
    if count < MOST_IDLE then
        idle[count + 1] = run.thread
        count = count + 1
    end
    if not good then
        return FAILED, value
    end
    return finish(run, value)
end

local function go_on(run, ...)
    current = run
    enter(run)
    reset()
    return settle(run, resume(run.thread, ...))
end

-- The script files, by their numbers.
local scripts = {}

local function start(id)
    local script = scripts[id]
    if begin then
        begin(script)
    end
    local environment = setmetatable({}, script.fallback)
    local factory = script.factory
    setfenv(factory, environment)
    -- With all its fields at once, a table need not grow.
    local run = { main = factory(), thread = false, header = false, content = false, notes = false, printed = false, input = false }
    if count > 0 then
        run.thread = idle[count]
        idle[count] = nil
        count = count - 1
    else
        run.thread = create(loop)
    end
    return go_on(run, run)
end

-- Compiles `text`, which was changed then, for a script file; a message if it cannot be. The globals of a file stay when
-- its text changes.
local function compile(id, text, path, directory, changed)
    local name = "@" .. path
    local script = scripts[id]
    if not script then
        local globals = globals_for(directory)
        script = { globals = globals, fallback = { __index = globals, __metatable = false } }
        scripts[id] = script
    end
    -- For the message alone: in the next line the end of the text is not where the compiler would find it.
    local good, problem = load(text, name, "t", script.globals)
    if not good then
        return problem
    end
    -- A function that makes the script's function, so that runs which overlap have one each: a function has only one
    -- environment. It stays on the first line for the sake of line numbers.
    local factory, trouble = load("return function(...) " .. text .. "\nend", name, "t", script.globals)
    if not factory then
        return trouble
    end
    script.factory = factory
    if loaded then
        loaded(script, path, good, changed)
    end
end

function host.current_thread()
    return current and current.thread
end

-- Waits for what Rust was asked for just now, and gives its answer.
function host.wait()
    if not current or running() ~= current.thread then
        host.forget()
        return false, "only the script itself may wait, not a coroutine of its own"
    end
    return yield(WAIT)
end

return compile, start, go_on
