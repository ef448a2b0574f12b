"""The operator's program, which says for which names certificates may be ordered: PORT ALLOWED LOG.

ALLOWED is a file with a name in each line; each name that is asked for becomes a line of LOG."""

import http.server
import sys
import urllib.parse

port, allowed, log = sys.argv[1:]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        query = urllib.parse.urlsplit(self.path).query
        [name] = urllib.parse.parse_qs(query)["domain"]
        with open(log, "a") as file:
            file.write(name + "\n")
        with open(allowed) as file:
            is_allowed = name in file.read().splitlines()
        self.send_response(200 if is_allowed else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()


http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()
