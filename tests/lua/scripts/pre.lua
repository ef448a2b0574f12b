-- A text file as a page.
lighty.content = { "<pre>", { filename = lighty.env["physical.path"] }, "</pre>" }
lighty.header["Content-Type"] = "text/html"
return 200
