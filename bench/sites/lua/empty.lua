-- The empty endpoint, as lighttpd and Tokamak run it.
lighty.r.resp_header["Content-Type"] = "application/json"
lighty.r.resp_body.set('{"errno":0,"errmsg":"success","data":"e"}')
return 200
