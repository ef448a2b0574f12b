-- One call to a service, as nginx runs it: its own client, with kept connections.
local answer = ngx.location.capture("/service")
ngx.header.content_type = "application/json"
ngx.header.content_length = #answer.body
ngx.print(answer.body)
