-- One file of a folder, whose index says how many there are.
folder = lighty.env["physical.path"]
file = assert(io.open(folder .. "/index", "r"))
last = file:read("*all")
file:close()
number = math.random(tonumber(last))
lighty.content = { { filename = folder .. "/" .. number } }
lighty.header["Content-Type"] = "image/png"
return 200
