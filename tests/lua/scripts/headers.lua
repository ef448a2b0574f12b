-- Header fields: read, changed, of several values; in the response only.
local r = lighty.r
r.resp_header["X-Method"] = r.req_attr["request.method"]
r.resp_header["X-Accept"] = r.req_header["accept"]
r.resp_header["X-None"] = r.req_header["X-None"] or "nil"
r.resp_header["Set-Cookie"] = "a=1\r\nSet-Cookie: b=2"
r.resp_header["Content-Length"] = "999"
r.resp_header["X-Gone"] = "1"
r.resp_header["X-Gone"] = nil
r.resp_header["Cache-Control"] = "max-age=60"
