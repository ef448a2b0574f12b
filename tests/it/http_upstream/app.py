"""An application of HTTP that accepts from descriptor 0 and answers with its target."""

import http.server
import socket


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Its client has no address."""


server = http.server.ThreadingHTTPServer(("", 0), Answer, bind_and_activate=False)
server.socket = socket.socket(fileno=0)
server.serve_forever()
