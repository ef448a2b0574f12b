-- A folder under another address, and names that nobody may read.
local r = lighty.r
local path = r.req_attr["uri.path"]
if path:find("~$") or path:find("%.inc$") then
    return 403
end
local rest = path:match("^/docs/(.*)$")
if rest then
    r.req_attr["physical.basedir"] = r.req_attr["physical.doc-root"] .. "/dir/"
    r.req_attr["physical.path"] = r.req_attr["physical.basedir"] .. rest
end
