-- Header fields and variables, added, changed and taken away.
local r = lighty.r
r.req_header["X-Added"] = "by the server"
r.req_header["User-Agent"] = nil
r.req_env["STAGE"] = "test"
r.resp_header["X-Seen"] = r.req_header["X-Added"] .. ", " .. r.req_env["STAGE"] .. ", "
    .. tostring(r.req_header["User-Agent"])
r.resp_header["Set-Cookie"] = "a=1"
