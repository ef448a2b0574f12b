-- What was sent, once all of it is here.
local body = lighty.r.req_body
if not body.collect then
    return 0
end
lighty.r.resp_body.set({ body.len })
if lighty.env["uri.query"] == "digest" then
    lighty.r.resp_body.set(lighty.c.md("md5", body.get))
end
return 200
