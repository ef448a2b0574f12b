-- What outlives a run stands in _G.
if nil == _G["users"] then
    _G["users"] = {}
end
local who = lighty.request["Cookie"] or "nobody"
_G["users"][who] = (_G["users"][who] or 0) + 1
print(who .. " was here")
lighty.content = { who, ": ", _G["users"][who] }
lighty.header["Content-Type"] = "text/plain"
return 200
