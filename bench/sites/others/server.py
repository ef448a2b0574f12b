"""The empty endpoint for an ASGI server."""

ANSWER = b'{"errno":0,"errmsg":"success","data":"e"}'
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(ANSWER))]


async def application(scope, receive, send):
    """One request."""
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": ANSWER})
