-- One call to a service, as Tokamak runs it.
local answer = tokamak.http.get("http://$service/")
lighty.r.resp_header["Content-Type"] = "application/json"
lighty.r.resp_body.set(answer.body)
return answer.status
