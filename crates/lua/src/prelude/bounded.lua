-- Functions of the standard library that call a script back from C, or resume a coroutine: each such call takes a piece
-- of the thread's own stack, of which nothing else tells when it ends. So their nesting is bounded, as it is in Lua
-- itself, though not in LuaJIT.
local host = ...

local error, select, tostring, type = error, select, tostring, type
local pcall, create, resume = pcall, coroutine.create, coroutine.resume
local concat, sort, format, gsub = table.concat, table.sort, string.format, string.gsub

-- As Lua 5.1 has it.
local MOST = 200

local depth = 0

local function deeper()
    if depth >= MOST then
        error("C stack overflow", 3)
    end
    depth = depth + 1
end

-- Ends a call that cannot wait: its error must not keep the depth.
local function settle(good, ...)
    depth = depth - 1
    if not good then
        error((...), 0)
    end
    return ...
end

local function leave(...)
    depth = depth - 1
    return ...
end

local bounded = { coroutine = {}, string = {}, table = {} }

function bounded.coroutine.resume(thread, ...)
    deeper()
    return leave(resume(thread, ...))
end

function bounded.coroutine.wrap(body)
    local thread = create(body)
    return function(...)
        deeper()
        return settle(resume(thread, ...))
    end
end

function bounded.table.sort(list, before)
    deeper()
    return settle(pcall(sort, list, before))
end

function bounded.string.gsub(text, pattern, by, ...)
    if type(by) == "string" then
        return gsub(text, pattern, by, ...)
    end
    deeper()
    return settle(pcall(gsub, text, pattern, by, ...))
end

function bounded.string.format(template, ...)
    for at = 1, select("#", ...) do
        local kind = type((select(at, ...)))
        if kind == "table" or kind == "userdata" then
            deeper()
            return settle(pcall(format, template, ...))
        end
    end
    return format(template, ...)
end

function bounded.print(...)
    local texts = {}
    for at = 1, select("#", ...) do
        texts[at] = tostring((select(at, ...)))
    end
    host.print(concat(texts, "\t"))
end

-- A run begins, or goes on: it waits in the script itself only, where nothing is nested. The last one may have been ended
-- before it could count back.
function bounded.reset()
    depth = 0
end

return bounded
