-- WSAPI over FastCGI, on descriptor 0.
local fastcgi = require "wsapi.fastcgi"

fastcgi.run(function(environment)
    local body
    if environment.PATH_INFO == "/echo" then
        body = environment.input:read(tonumber(environment.CONTENT_LENGTH) or 0) or ""
    else
        body = ""
        for _, name in ipairs { "PATH_INFO", "QUERY_STRING", "HTTP_X_LONG" } do
            body = body .. name .. "=" .. tostring(environment[name]) .. "\n"
        end
    end
    return 200, { ["Content-Type"] = "text/plain" }, coroutine.wrap(function() coroutine.yield(body) end)
end)
