-- Each thread is a client with users of its own, of whom each asks ten times before the next one's
-- turn. Arguments: how many users there are, how many of them earlier runs have used up, and how
-- many clients take turns in choosing from the others.
local PER_USER = 10
local PAGES = { "/welcome", "/account", "/news" }
local DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

local clients = 0

function setup(thread)
    thread:set("client", clients)
    clients = clients + 1
end

local function base64(text)
    local out = {}
    for at = 1, #text, 3 do
        local a, b, c = text:byte(at, at + 2)
        local bits = a * 65536 + (b or 0) * 256 + (c or 0)
        for place = 3, 0, -1 do
            local digit = math.floor(bits / 64 ^ place) % 64 + 1
            out[#out + 1] = DIGITS:sub(digit, digit)
        end
        if not b then out[#out - 1] = "=" end
        if not c then out[#out] = "=" end
    end
    return table.concat(out)
end

local users, used, all, count, prepared

function init(arguments)
    users, used, all, count = tonumber(arguments[1]), tonumber(arguments[2]), tonumber(arguments[3]), 0
end

function request()
    if count % PER_USER == 0 then
        local number = (used + count / PER_USER * all + client) % users + 1
        local headers = { Authorization = "Basic " .. base64("user" .. number .. ":secret" .. number) }
        prepared = {}
        for place, page in ipairs(PAGES) do
            prepared[place] = wrk.format("GET", page, headers)
        end
    end
    count = count + 1
    return prepared[count % #PAGES + 1]
end

-- What is printed at the end.
dofile((debug.getinfo(1, "S").source:gsub("^@", ""):gsub("users%.lua$", "report.lua")))
