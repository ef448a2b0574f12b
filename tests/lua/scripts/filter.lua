-- An application firewall: patterns for the parts of a request, and what is done about them.
local rules = {
    { part = "uri", pattern = "%.%./", status = 400 },
    { part = "uri", pattern = "<script", status = 403 },
    { part = "agent", pattern = "^BadBot", status = 403 },
    { part = "referer", pattern = "casino", status = 410 },
}
local r = lighty.r
local parts = {
    uri = lighty.c.urldec(r.req_attr["request.uri"]):lower(),
    agent = r.req_header["User-Agent"] or "",
    referer = (r.req_header["Referer"] or ""):lower(),
}
for number, rule in ipairs(rules) do
    if parts[rule.part]:find(rule.pattern) then
        print("rule " .. number .. " denies " .. parts.uri)
        return rule.status
    end
end
