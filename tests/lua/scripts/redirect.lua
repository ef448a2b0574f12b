-- A map of addresses that have moved.
local moved = { ["/old"] = "/new", ["/older"] = "/new?from=older" }
local to = moved[lighty.r.req_attr["uri.path"]]
if to then
    lighty.r.resp_header["Location"] = to
    return 301
end
