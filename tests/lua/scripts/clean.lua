-- Clean addresses of a content management system: files and folders are sent, all else has one script.
local attr = lighty.stat(lighty.env["physical.path"])
if attr and attr["is_file"] then
    lighty.header["X-Kind"] = "file"
    return
end
if attr and attr["is_dir"] then
    return 403
end
local query = "q=" .. string.sub(lighty.env["uri.path"], 2)
if lighty.env["uri.query"] then
    query = lighty.env["uri.query"] .. "&" .. query
end
lighty.env["uri.query"] = query
lighty.header["X-Query"] = lighty.env["uri.query"]
lighty.env["uri.path"] = "/dispatch.html"
lighty.env["physical.rel-path"] = lighty.env["uri.path"]
lighty.env["physical.path"] = lighty.env["physical.doc-root"] .. lighty.env["physical.rel-path"]
