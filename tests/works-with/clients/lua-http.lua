-- Debian: lua-http lua5.2
local request = require("http.request")
local openssl = require("openssl.ssl.context")
local store = require("openssl.x509.store")
local use, url, other = arg[1], arg[2], arg[3]

local context = require("http.tls").new_client_context()
local trusted = store.new()
trusted:add(os.getenv("AUTHORITY"))
context:setStore(trusted)
context:setVerify(openssl.VERIFY_PEER)

local function ask(url, method, set)
    local asked = request.new_from_uri(url)
    asked.ctx = context
    asked.headers:upsert(":method", method or "GET")
    if set then set(asked) end
    local headers, stream = asked:go(30)
    if not headers then error(stream, 0) end
    io.stdout:write(assert(stream:get_body_as_string(30)))
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
    ask(url, "GET", function(asked) asked.headers:upsert("range", "bytes=" .. #part .. "-") end)
elseif use == "upload" then
    ask(url, "POST", function(asked) asked:set_body(content(other)) end)
else
    os.exit(64)
end
