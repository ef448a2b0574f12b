local c, text = lighty.c, lighty.r.req_body.get

-- What one function writes, another reads.
for _, pair in ipairs {
    { c.b64enc, c.b64dec }, { c.b64urlenc, c.b64urldec }, { c.hexenc, c.hexdec }, { c.quotedenc, c.quoteddec },
    { c.bsenc, c.bsdec }, { c.bsenc_json, c.bsdec },
} do
    assert(pair[2](pair[1](text)) == text, "it is not what it was")
end
-- Control characters are none in a URL.
local tame = text:gsub("[%z\1-\31\127]", "_")
assert(c.urldec_query(c.urlenc_query { name = text }).name == tame, "another query")
assert(c.urldec(c.urlenc(text)) == tame, "another path")

-- Once is enough.
for _, name in ipairs { "fspath_simplify", "urlenc_normalize" } do
    local once = c[name](text)
    assert(c[name](once) == once, name)
end

-- Whatever comes is read.
for _, name in ipairs {
    "b64dec", "b64urldec", "hexdec", "quoteddec", "bsdec", "urldec", "urldec_query", "cookie_tokens", "header_tokens",
} do
    c[name](text)
end
assert(not c.xmlenc(text):find("[<>\"]"))
assert(#c.md("sha256", text) == 64 and #c.hmac("sha1", text, text) == 40)
assert(c.digest_eq(c.md("md5", text), c.md("md5", text)) and c.secret_eq(text, text))

-- Both matchers of patterns find the same: one that begins with many optional characters that are
-- nowhere is matched by the one that looks at the time.
local pattern, subject = text:gsub("[%z\1]", "\2"):match("^(.?.?.?.?.?.?.?.?)(.*)$")
local slowly = ("\1?"):rep(20)
slowly = pattern:sub(1, 1) == "^" and "^" .. slowly .. pattern:sub(2) or slowly .. pattern
local function found(pattern)
    local results = { pcall(string.match, subject, pattern) }
    if not results[1] then
        return "an error"
    end
    for at = 1, #results do
        results[at] = tostring(results[at])
    end
    return table.concat(results, "|")
end
local one, other = found(pattern), found(slowly)
assert(one == other, ("%q in %q: %s, and slowly %s"):format(pattern, subject, one, other))
return 204
