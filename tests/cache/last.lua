-- Sees every response.
_G.seen = (_G.seen or 0) + 1
lighty.header["X-Seen"] = tostring(_G.seen)
