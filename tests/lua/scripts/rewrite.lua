-- What is not there yet is made by somebody else.
lfs = require "lfs"
if not lfs.attributes(lighty.env["physical.path"]) then
    lighty.env["uri.path"] = "/dispatch.html"
    lighty.env["physical.rel-path"] = lighty.env["uri.path"]
    lighty.env["physical.path"] = lighty.env["physical.doc-root"] .. lighty.env["physical.rel-path"]
end
