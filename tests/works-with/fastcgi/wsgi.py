"""The same for the servers that speak WSGI."""


def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    if environ["PATH_INFO"].endswith("/echo"):
        return [environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))]
    names = sorted(name for name in environ if isinstance(environ[name], str))
    return ["".join(f"{name}={environ[name]}\n" for name in names).encode("latin-1")]
