-- A password for a folder.
local c, r = lighty.c, lighty.r
local users = { ada = c.md("sha256", "ada:lovelace") }
local method, credentials = string.match(r.req_header["Authorization"] or "", "^(%w+)%s+(.+)$")
if method and method:lower() == "basic" then
    local name, password = string.match(c.b64dec(credentials) or "", "^([^:]+):(.*)$")
    if name and users[name] and c.digest_eq(users[name], c.md("sha256", name .. ":" .. password)) then
        r.resp_body.set("in")
        return 200
    end
end
r.resp_header["WWW-Authenticate"] = 'Basic realm="folder", charset="UTF-8"'
return 401
