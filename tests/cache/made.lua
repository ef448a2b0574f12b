-- A page made in the server, which counts how often it is made.
if lighty.r.req_attr["uri.path"] ~= "/made" then return end
_G.count = (_G.count or 0) + 1
lighty.header["Cache-Control"] = "max-age=60"
lighty.header["Content-Type"] = "text/plain"
lighty.r.resp_body.set("made " .. _G.count)
return 200
