-- Answers requests with this query.
if lighty.r.req_attr["uri.query"] == "content" then
  lighty.r.resp_body.set("content")
  return 200
end
