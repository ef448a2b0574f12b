-- As mod_cml: the files that make the page, or a miss.
local root = "/" .. lighty.env["request.uri"]:match("^/(%w*)")
if root == "/hit" then
    lighty.content = { "<", "cached", ">" }
    return 200
elseif root == "/miss" then
    lighty.env["request.uri"] = "/page.html"
    return lighty.RESTART_REQUEST
end
