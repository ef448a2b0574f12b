-- Serves the path of the query.
local query = lighty.r.req_attr["uri.query"] or ""
local path = query:match("^path=(.*)$")
if path then lighty.r.req_attr["uri.path"] = path end
