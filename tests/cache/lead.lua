-- Sees every request, and leads some elsewhere.
lighty.header["X-Lead"] = "yes"
local group = lighty.request["X-Group"]
if group then
    lighty.env["uri.path"] = "/page.php/" .. group
end
