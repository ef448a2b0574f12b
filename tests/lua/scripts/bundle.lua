-- Several style sheets as one: /bundle?a,b
local r = lighty.r
if r.req_attr["uri.path"] ~= "/bundle" then
    return
end
local top = r.req_attr["physical.doc-root"] or r.req_env["DOCUMENT_ROOT"]
local body, newest = {}, 0
for name in (r.req_attr["uri.query"] or ""):gmatch("[^,]+") do
    if not name:match("^[%w-]+$") then
        return 403
    end
    local path = top .. "/" .. name .. ".txt"
    local stat = lighty.c.stat(path)
    if not stat then
        return 404
    end
    newest = math.max(newest, stat.st_mtime)
    body[#body + 1] = { filename = path }
    body[#body + 1] = "\n"
end
local etag = '"' .. newest .. "-" .. #body .. '"'
r.resp_header["ETag"] = etag
if r.req_header["If-None-Match"] == etag then
    return 304
end
r.resp_header["Content-Type"] = "text/css"
r.resp_body.set(body)
return 200
