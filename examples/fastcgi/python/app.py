"""A WSGI application over FastCGI, on descriptor 0 or on a socket of its own.

python3 app.py /tmp/app.sock
"""

import itertools
import sys

import fastcgi

count = itertools.count(1)


def application(environ, start_response):
    kind, status = "text/plain", "200 OK"
    match environ["PATH_INFO"]:
        case "/env":
            names = sorted(name for name in environ if name.isupper())
            body = "".join(f"{name}={environ[name]}\n" for name in names).encode("latin-1")
        case "/echo":
            kind, body = "application/octet-stream", environ["wsgi.input"].read()
        case "/count":
            body = b"%d\n" % next(count)
        case "/complain":
            environ["wsgi.errors"].write("something is wrong\n")
            body = b"said\n"
        case _:
            status, body = "404 Not Found", b"nothing here\n"
    start_response(status, [("Content-Type", kind)])
    return [body]


if __name__ == "__main__":
    fastcgi.serve(application, *sys.argv[1:])
