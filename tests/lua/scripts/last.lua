-- The response's head just before it is sent.
lighty.r.resp_header["X-Was"] = tostring(lighty.r.req_item.http_status)
lighty.r.resp_header["ETag"] = nil
