-- To the encrypted address.
if lighty.env["uri.scheme"] == "http" then
    lighty.header["Location"] = "https://" .. lighty.env["uri.authority"] .. lighty.env["request.uri"]
    return 302
end
