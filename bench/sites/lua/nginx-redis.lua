-- One read from Redis, as nginx runs it: what lua-resty-redis does, which Debian does not have.
local redis = ngx.socket.tcp()
redis:settimeout(1000)
assert(redis:connect("unix:$redis"))
assert(redis:send("*2\r\n$$3\r\nget\r\n$$6\r\nanswer\r\n"))
local answer = assert(redis:receive(tonumber(string.sub(assert(redis:receive()), 2))))
assert(redis:receive(2))
redis:setkeepalive(60000, 64)
ngx.header.content_type = "application/json"
ngx.header.content_length = #answer
ngx.print(answer)
