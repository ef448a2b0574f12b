-- Links that are signed: /CODE/path.
local c, r = lighty.c, lighty.r
if r.req_attr["request.uri"] == "/page.html" then
    return
end
local code, path = r.req_attr["uri.path"]:match("^/(%x+)(/.+)$")
if not code or not c.digest_eq(code, c.md("md5", "verysecret" .. path)) then
    return 403
end
r.req_attr["request.uri"] = path
return lighty.RESTART_REQUEST
