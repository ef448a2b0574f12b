-- Functions of the standard library that could take more than a script may.
--
-- Some call a script back from C, or resume a coroutine: each such call takes a piece of the
-- thread's own stack, of which nothing else tells when it ends. So their nesting is bounded, as it
-- is in Lua itself, though not in LuaJIT.
--
-- Others match patterns, in C, where nothing ends them. Where that could take long, Rust matches,
-- which looks at the time.
local host = ...

local error, floor, select, tonumber, tostring, type = error, math.floor, select, tonumber, tostring, type
local byte, find, gmatch, match, sub = string.byte, string.find, string.gmatch, string.match, string.sub
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

-- Steps that LuaJIT may take for a pattern: some ten milliseconds.
local STEPS = 1e6
-- Patterns that are remembered with the length up to which they are harmless. Chosen arbitrarily.
local MOST_PATTERNS = 1000

local harmless, patterns = {}, 0

-- The length of a text up to which a pattern is certainly matched within STEPS: each repetition,
-- and each place where a match may begin, multiplies the steps by the length at most.
local function judge(pattern)
    local power = byte(pattern, 1) == 94 and 0 or 1
    local at = 1
    while at <= #pattern do
        local code = byte(pattern, at)
        if code == 37 then -- what follows a % is no repetition
            at = at + 1
        elseif code == 42 or code == 43 or code == 45 or code == 63 then -- * + - ?
            power = power + 1
        end
        at = at + 1
    end
    local length = power > 1 and floor(STEPS ^ (1 / power)) or 1 / 0
    if patterns >= MOST_PATTERNS then
        harmless, patterns = {}, 0
    end
    harmless[pattern] = length
    patterns = patterns + 1
    return length
end

local function takes_long(text, pattern)
    return type(text) == "string" and type(pattern) == "string" and #text > (harmless[pattern] or judge(pattern))
end

-- Where a search begins, as the standard library understands it.
local function place(text, from)
    from = from == nil and 1 or tonumber(from)
    if not from then
        error("bad argument #3 (number expected)", 3)
    elseif from < 0 then
        from = #text + from + 1
    end
    return from < 1 and 1 or floor(from)
end

local function captured(text, first, last, ...)
    if not first then
        return nil
    elseif select("#", ...) == 0 then
        return sub(text, first, last)
    end
    return ...
end

local function or_nil(first, ...)
    if first then
        return first, ...
    end
    return nil
end

function bounded.string.find(text, pattern, from, plain)
    if plain or not takes_long(text, pattern) then
        return find(text, pattern, from, plain)
    end
    return or_nil(host.search(text, pattern, place(text, from), true))
end

function bounded.string.match(text, pattern, from)
    if not takes_long(text, pattern) then
        return match(text, pattern, from)
    end
    return captured(text, host.search(text, pattern, place(text, from), true))
end

function bounded.string.gmatch(text, pattern)
    if not takes_long(text, pattern) then
        return gmatch(text, pattern)
    end
    local at = 1
    local function advance(first, last, ...)
        if first then
            at = last < first and first + 1 or last + 1
        end
        return captured(text, first, last, ...)
    end
    return function()
        return advance(host.search(text, pattern, at, false))
    end
end

-- What takes the place of a match; `first` and `last` are its ends.
local function replacement(by, text, first, last, ...)
    local whole = sub(text, first, last)
    local kind, value = type(by), nil
    if kind == "function" then
        value = by(captured(text, first, last, ...))
    elseif kind == "table" then
        value = by[captured(text, first, last, ...)]
    else
        local count, captures = select("#", ...), { ... }
        return (gsub(tostring(by), "%%(.?)", function(code)
            if code == "0" or code == "1" and count == 0 then
                return whole
            elseif find(code, "^%d") then
                local capture = captures[tonumber(code)]
                if capture == nil then
                    error("invalid capture index", 0)
                end
                return tostring(capture)
            end
            return code
        end))
    end
    if not value then
        return whole
    elseif type(value) ~= "string" and type(value) ~= "number" then
        error("invalid replacement value (a " .. type(value) .. ")", 0)
    end
    return tostring(value)
end

local function gsub_slowly(text, pattern, by, most)
    local pieces, at, count = {}, 1, 0
    local anchored = byte(pattern, 1) == 94
    local function add(first, last, ...)
        if not first then
            return false
        end
        count = count + 1
        pieces[#pieces + 1] = sub(text, at, first - 1)
        pieces[#pieces + 1] = replacement(by, text, first, last, ...)
        at = last + 1
        if last < first then
            -- Nothing was matched: what is there stays.
            pieces[#pieces + 1] = sub(text, first, first)
            at = first + 1
        end
        return not anchored and at <= #text + 1
    end
    while count < most and add(host.search(text, pattern, at, true)) do end
    pieces[#pieces + 1] = sub(text, at)
    return concat(pieces), count
end

function bounded.string.gsub(text, pattern, by, most)
    local slowly = takes_long(text, pattern)
    if type(by) == "string" and not slowly then
        return gsub(text, pattern, by, most)
    end
    deeper()
    if slowly then
        return settle(pcall(gsub_slowly, text, pattern, by, most or 1 / 0))
    end
    return settle(pcall(gsub, text, pattern, by, most))
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

-- A run begins, or goes on: it waits in the script itself only, where nothing is nested. The last
-- one may have been ended before it could count back.
function bounded.reset()
    depth = 0
end

return bounded
