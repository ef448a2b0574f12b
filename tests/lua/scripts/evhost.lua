-- A folder for each host: what is before the first dot, or before the port.
local r = lighty.r
local host = (r.req_attr["uri.authority"] or ""):gsub(":%d+$", "")
local folder = host:match("^[^.]+")
local top = r.req_attr["physical.doc-root"]
if folder == "evhost" then
    folder = "dir"
end
if not folder or not lighty.c.stat(top .. "/" .. folder) then
    return 404
end
r.req_attr["physical.doc-root"] = top .. "/" .. folder
r.req_attr["physical.path"] = top .. "/" .. folder .. r.req_attr["physical.rel-path"]
r.resp_header["X-Kind"] = "host of " .. folder
