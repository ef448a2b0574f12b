-- Runs scripts: each run in a coroutine, with an environment of its own. Rust keeps the coroutines,
-- each of which runs scripts one after the other: it resumes one with a script's number, and most
-- runs end at once, or wait for one thing after the other, after each of which it is resumed. What
-- else a coroutine yields Rust gives to `paused` and, when something that such a run waited for is
-- there, it calls `go_on`; whatever happens in a script, these return.
--
-- They tell Rust a number if the script has ended, the run if it waits, and a text if something
-- went wrong.
--
-- A run may be ended between any two instructions, here too, when its time is up. So what ended
-- badly is not used again: Rust forgets the coroutine, and the script's function is in no list
-- while it is in use.
--
-- A script may have several functions run side by side, as branches: each in a coroutine of its
-- own, which may wait, or branch again, like the script itself. The branching one goes on when the
-- last of its branches has ended.
--
-- What scripts find and what their end means is the business of `dialect`: `globals(directory)` are
-- those of a script file, `enter(run)` says whose script is executed now, `finish(run, value)` ends
-- a run. It may have `begin(script)`, which comes before a run, `pause(run)`, which comes when one
-- waits, and `loaded(script, path, main, changed)`, which comes when a file has been compiled.
local host, dialect, reset, marks = ...

local begin, enter, pause = dialect.begin, dialect.enter, dialect.pause
local finish, loaded, globals_for = dialect.finish, dialect.loaded, dialect.globals

local create, resume, yield, running = coroutine.create, coroutine.resume, coroutine.yield, coroutine.running
local load, next, setfenv, setmetatable, xpcall = load, next, setfenv, setmetatable, xpcall
local take, tostring, traceback, type = host.take, tostring, debug.traceback, type

-- What a coroutine says when it yields; scripts cannot get hold of these. Rust knows the first two
-- as well.
local DONE, WAIT, FAILED, BRANCH = marks[1], marks[2], {}, {}

-- Most functions of a script that are kept for its next runs. Chosen arbitrarily.
local MOST_KEPT = 64

-- The script files, by their numbers.
local scripts = {}

-- The run that is being executed, or was last.
local current

-- What is wrong with a coroutine, the present one if no other is named, in which an error was
-- raised.
local function explain(problem, thread)
    local kind = type(problem)
    if kind == "string" then
        return thread and traceback(thread, problem) or traceback(problem, 2)
    elseif kind == "number" or kind == "userdata" then
        return tostring(problem)
    end
    return "(error object is a " .. kind .. " value)"
end

-- A coroutine's whole life: it is resumed with the number of the script that is next.
local function loop(id)
    -- With all its fields at once, a table need not grow. Those of the dialect are all in `own`.
    local run = { thread = running(), own = false, has_waited = false, branches = false, ready = false, waits = false }
    while true do
        local script = scripts[id]
        if begin then
            begin(script)
        end
        -- A function has only one environment, so runs that overlap have one each.
        local idle = script.idle
        local count = idle.count
        local main = idle[count]
        if main then
            idle.count = count - 1
        else
            main = script.factory()
        end
        setfenv(main, setmetatable({}, script.fallback))
        current = run
        enter(run)
        reset()
        local good, value = xpcall(main, explain)
        if not good then
            -- Where the stack was full, there was no room for `explain`.
            yield(FAILED, value == "stack overflow" and script.path .. ": " .. value or value)
        end
        value = finish(run, value)
        count = idle.count
        if count < MOST_KEPT then
            idle[count + 1] = main
            idle.count = count + 1
        end
        run.own = false
        if run.has_waited then
            run.has_waited, run.branches, run.ready, run.waits = false, false, false, false
        end
        id = yield(DONE, value)
    end
end

-- A branch's whole life.
local function branch(body)
    return DONE, body()
end

-- What a branching coroutine is told: by the branches' names what each returned first and second;
-- and an error, if one of them raised any.
local function outcome_of(fork)
    return fork.values, fork.problems, fork.failure
end

local go_on_in

-- Makes the branches of a coroutine; it goes on at once if there are none.
local function fork(run, parent, bodies)
    local new = { parent = parent, left = 0, values = {}, problems = {}, failure = nil }
    local first = #run.ready
    for name, body in next, bodies do
        local thread = create(branch)
        new.left = new.left + 1
        run.branches[thread] = { fork = new, name = name }
        run.ready[first + new.left] = { thread, body }
    end
    if new.left == 0 then
        return go_on_in(run, parent, outcome_of(new))
    end
end

-- Notes how a branch ended; the branching coroutine goes on after the last one.
local function join(run, thread, good, value, problem)
    local place = run.branches[thread]
    local of = place.fork
    run.branches[thread] = nil
    of.left = of.left - 1
    if good then
        of.values[place.name], of.problems[place.name] = value, problem
    else
        of.failure = of.failure or value
    end
    if of.left == 0 then
        run.ready[#run.ready + 1] = { of.parent, outcome_of(of) }
    end
end

-- A coroutine of the run has paused or ended. What this returns is Rust's, unless it is nothing:
-- then the run waits, or others of its coroutines are ready.
local function settle(run, thread, alive, mark, value, problem)
    if (mark == DONE or mark == FAILED) and thread == run.thread then
        return value
    elseif mark == WAIT then
        return
    elseif mark == BRANCH then
        run.branches = run.branches or {}
        run.ready = run.ready or {}
        return fork(run, thread, value)
    end
    if not alive then
        value = explain(mark, thread)
    elseif mark ~= DONE then
        value = "attempt to yield from outside a coroutine"
    end
    if thread ~= run.thread then
        return join(run, thread, mark == DONE, value, problem)
    end
    return value
end

function go_on_in(run, thread, ...)
    return settle(run, thread, resume(thread, ...))
end

-- Goes on with every coroutine that is ready, unless the run has ended.
local function advance(run, step)
    local ready = run.ready
    while not step and ready and #ready > 0 do
        local at = #ready
        local turn = ready[at]
        ready[at] = nil
        step = go_on_in(run, turn[1], turn[2], turn[3], turn[4])
        ready = run.ready
    end
    if step then
        return step
    elseif pause then
        pause(run)
    end
    return run
end

-- The coroutine of a run that was just begun has yielded this, and its run has not ended well.
local function paused(mark, value)
    local run = current
    run.has_waited = true
    return advance(run, settle(run, run.thread, true, mark, value))
end

-- The run is executed again.
local function enter_again(run)
    current = run
    enter(run)
    reset()
end

-- What the coroutine waited for that waits under this number has come.
local function go_on(run, number)
    enter_again(run)
    local thread = run.waits and run.waits[number]
    if thread then
        run.waits[number] = nil
    else
        thread = run.thread
    end
    return advance(run, go_on_in(run, thread))
end

-- Compiles `text`, which was changed then, for a script file; a message if it cannot be. The
-- globals of a file stay when its text changes.
local function compile(id, text, path, directory, changed)
    local name = "@" .. path
    local script = scripts[id]
    if not script then
        local globals = globals_for(directory)
        script = { path = path, globals = globals, fallback = { __index = globals, __metatable = false } }
        scripts[id] = script
    end
    -- For the message alone: in the next line the end of the text is not where the compiler would
    -- find it.
    local good, problem = load(text, name, "t", script.globals)
    if not good then
        return problem
    end
    -- A function that makes the script's function. It stays on the first line for the sake of line
    -- numbers.
    local factory, trouble = load("return function(...) " .. text .. "\nend", name, "t", script.globals)
    if not factory then
        return trouble
    end
    script.factory, script.idle = factory, { count = 0 }
    if loaded then
        loaded(script, path, good, changed)
    end
end

local function is_own(thread)
    return current and (thread == current.thread or current.branches and current.branches[thread] ~= nil)
end

-- Whether scripts must not get hold of a coroutine: it is one that runs are made of.
host.is_hidden = is_own

-- What scripts are told that wait where nobody could go on with them.
local MISPLACED = "only the script itself may wait, not a coroutine of its own"

-- Waits for what Rust began under a number just now, and gives what it brought: a value, or nil and
-- a message.
function host.wait(number)
    local run, thread = current, running()
    if not is_own(thread) then
        host.forget(number)
        return nil, MISPLACED
    end
    if thread == run.thread then
        if pause then
            pause(run)
        end
        yield(WAIT)
        -- Rust may have resumed it without `go_on`.
        enter_again(run)
    else
        local waits = run.waits or {}
        run.waits = waits
        waits[number] = thread
        yield(WAIT)
    end
    return take()
end

-- Has functions run side by side; see `outcome_of`.
function host.branch(bodies)
    if not is_own(running()) then
        return nil, nil, MISPLACED
    end
    return yield(BRANCH, bodies)
end

return compile, loop, paused, go_on
