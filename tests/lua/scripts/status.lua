-- Who is being served, and by whom.
local r, server = lighty.r, lighty.server
local lines = {}
for request in server.irequests() do
    local attr, item = request.req_attr, request.req_item
    lines[#lines + 1] = table.concat({
        attr["request.remote-addr"], attr["request.method"], attr["uri.authority"] or "-", attr["request.uri"],
        tostring(item.http_status), tostring(item.req_count), tostring(item.bytes_out), tostring(item.resp_header_len),
        tostring(request.req_header["X-None"]),
    }, " ")
end
table.sort(lines)
server.plugin_stats["status.asked"] = (server.plugin_stats["status.asked"] or 0) + 1
lines[#lines + 1] = "asked: " .. server.plugin_stats["status.asked"]
lines[#lines + 1] = tostring(server.stats.uptime >= 0 and server.stats.clients_open >= 1)
r.resp_header["Content-Type"] = "text/plain"
r.resp_body.set(table.concat(lines, "\n") .. "\n")
return 200
