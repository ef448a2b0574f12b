-- A page that is shown as long as its file is there.
lfs = require "lfs"
local page = lighty.env["physical.doc-root"] .. "/maintenance.html"
if lfs.attributes(page) ~= nil then
    lighty.content = { { filename = page } }
    lighty.header["Content-Type"] = "text/html"
    return 200
end
