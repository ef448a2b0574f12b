"""An authority (ACME) that refuses newAccount or newOrder: PORT FOLDER STATUS RETRY-AFTER WHAT."""

import http.server
import json
import ssl
import sys

port, folder, status, retry_after, refused = sys.argv[1:]
here = f"https://127.0.0.1:{port}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, code, document, **fields):
        body = json.dumps(document).encode()
        self.send_response(code)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Replay-Nonce", "nonce")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        names = ["newNonce", "newAccount", "newOrder", "revokeCert", "keyChange"]
        self.answer(200, {name: f"{here}/{name}" for name in names})

    do_HEAD = do_GET

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if not self.path.endswith(refused):
            self.answer(201, {"status": "valid"}, Location=f"{here}/account/1")
            return
        kind = "rateLimited" if status == "429" else "rejectedIdentifier"
        problem = {"type": f"urn:ietf:params:acme:error:{kind}", "detail": "too\nmany " + "x" * 5000}
        self.answer(int(status), problem, Retry_After=retry_after)


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(f"{folder}/localhost.pem", f"{folder}/localhost.key")
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
