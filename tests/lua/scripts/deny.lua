-- What looks like an injection is refused.
if string.find(lighty.env["request.uri"], "UNION%%20") or string.find(lighty.env["request.uri"], "UNION+", 1, true) then
    return 400
end
