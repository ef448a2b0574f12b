-- A film from the place that the player asks for.
if lighty.env["uri.query"] then
    get = {}
    for name, value in string.gmatch(lighty.env["uri.query"], "(%w+)=(%w+)") do
        get[name] = value
    end
    if get["start"] then
        lighty.content = { "HEAD", { filename = lighty.env["physical.path"], offset = get["start"] } }
        lighty.header["Content-Type"] = "video/x-flv"
        return 200
    end
end
