-- Debian: lua-sec lua-socket lua5.2
local https = require("ssl.https")
local ltn12 = require("ltn12")
local use, url, other = arg[1], arg[2], arg[3]

local function ask(url, method, headers, source)
    local ok, code = https.request({
        url = url, method = method, headers = headers, source = source,
        protocol = "any", options = { "all", "no_sslv2", "no_sslv3" },
        verify = "peer", cafile = os.getenv("AUTHORITY"),
        sink = function(chunk) return io.stdout:write(chunk or "") and 1 end,
    })
    if not ok then error(code, 0) end
end

local function content(name)
    local file = assert(io.open(name, "rb"))
    return file:read("*a")
end

if use == "page" then
    ask(url)
elseif use == "kept" then
    ask(url)
    ask(other)
elseif use == "range" then
    local part = content(other)
    io.stdout:write(part)
    ask(url, "GET", { Range = "bytes=" .. #part .. "-" })
elseif use == "upload" then
    local body = content(other)
    local headers = { ["Content-Length"] = #body, ["Content-Type"] = "text/plain" }
    ask(url, "POST", headers, ltn12.source.string(body))
else
    os.exit(64)
end
