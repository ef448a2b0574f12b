-- One read from Redis, as Tokamak runs it.
local answer = tokamak.redis("unix:$redis"):get("answer")
lighty.r.resp_header["Content-Type"] = "application/json"
lighty.r.resp_body.set(answer)
return 200
