-- The names in a folder.
local names = {}
for name in lighty.c.readdir(lighty.env["physical.path"]) do
    local stat = lighty.c.stat(lighty.env["physical.path"] .. "/" .. name)
    names[#names + 1] = lighty.c.xmlenc(name) .. " " .. stat.st_size .. " " .. tostring(stat.is_file)
end
table.sort(names)
lighty.r.resp_body.set(table.concat(names, "\n"))
lighty.r.resp_header["Content-Type"] = "text/plain"
return 200
