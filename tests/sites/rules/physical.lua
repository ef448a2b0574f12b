-- Serves the file of the query.
local query = lighty.r.req_attr["uri.query"] or ""
local file = query:match("^file=(.*)$")
if file then
  lighty.r.req_attr["physical.path"] = lighty.r.req_attr["physical.doc-root"] .. file
end
