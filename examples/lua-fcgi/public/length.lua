local length = 0
repeat
    local piece = io.read(65536)
    length = length + #(piece or "")
until not piece

if os.getenv("REQUEST_METHOD") ~= "POST" then
    print("Status: 405 Method Not Allowed\r\nAllow: POST\r\nContent-Type: text/plain\r\n\r\nPOST something\n")
else
    print("Content-Type: text/plain\r\n\r\n", length, " bytes\n")
end
