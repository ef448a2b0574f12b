-- Returns what the query says.
local said = lighty.c.urldec_query(lighty.env["uri.query"])
lighty.header["X-Seen"] = "yes"
if said.body then
    lighty.content = { said.body }
end
if said["return"] == "true" then
    return true
elseif said["return"] == "table" then
    return {}
elseif said["return"] == "number" then
    return tonumber(said.number)
end
return said["return"]
