-- A cookie that was signed elsewhere lets its bearer in.
local c, r = lighty.c, lighty.r
local secret = "wenn der Regen niederbraust"
local tokens = c.cookie_tokens(r.req_header["Cookie"])
local user, code = tokens["user"], tokens["code"]
if user and code and c.digest_eq(code, c.hmac("sha256", secret, user)) then
    r.req_env["REMOTE_USER"] = user
    r.resp_body.set({ "hello ", c.xmlenc(user) })
    r.resp_header["Content-Type"] = "text/html"
    return 200
end
r.resp_header["Location"] = "/login?to=" .. c.urlenc_query({ page = r.req_attr["uri.path"] })
return 302
