-- The empty endpoint, as nginx runs it.
local answer = '{"errno":0,"errmsg":"success","data":"e"}'
ngx.header.content_type = "application/json"
-- Without it the answer is sent in chunks, which costs more.
ngx.header.content_length = #answer
ngx.print(answer)
