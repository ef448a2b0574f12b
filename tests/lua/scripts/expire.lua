-- How long files may be kept, by their extension; set for a response that succeeded.
local seconds = { html = 60, txt = 3600 }
local r = lighty.r
if r.req_item.http_status == 200 then
    local age = seconds[r.req_attr["uri.path"]:match("%.(%w+)$")]
    r.resp_header["Cache-Control"] = age and "max-age=" .. age or "no-cache"
end
