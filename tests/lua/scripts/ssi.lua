-- A page with parts of other files and variables in it.
local r = lighty.r
local path = r.req_attr["physical.path"]
if not path:find("%.html$") then
    return
end
local file = io.open(path, "rb")
if not file then
    return 404
end
local page = file:read("*a")
file:close()
local folder = path:match("^(.*)/")
local variables = { DOCUMENT_URI = r.req_attr["uri.path"], QUERY_STRING = r.req_attr["uri.query"] or "" }
local body, from = {}, 1
while true do
    local start, stop, command, value = page:find('<!%-%-#(%a+) %a+="([^"]*)" ?%-%->', from)
    body[#body + 1] = page:sub(from, (start or 0) - 1)
    if not start then
        break
    end
    if command == "include" and not value:find("..", 1, true) then
        body[#body + 1] = { filename = folder .. "/" .. value }
    elseif command == "echo" then
        body[#body + 1] = lighty.c.xmlenc(variables[value] or "(none)")
    else
        body[#body + 1] = "[an error occurred]"
    end
    from = stop + 1
end
r.resp_header["Content-Type"] = "text/html"
r.resp_body.set(body)
return 200
