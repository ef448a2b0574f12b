-- Hosts that have used up their traffic.
closed = { ["quota"] = 0 }
if closed[lighty.request["Host"]] then
    return 404
end
