-- Hosts from a table that outlives the request, which is filled by the first one.
if not _G.hosts then
    _G.hosts = { vhostdb = "/dir" }
end
local r = lighty.r
local host = (r.req_header["Host"] or ""):lower():gsub(":%d+$", "")
local folder = _G.hosts[host]
if not folder then
    return 403
end
r.req_attr["physical.path"] = r.req_attr["physical.doc-root"]:gsub("/$", "") .. folder .. r.req_attr["uri.path"]
