#!/usr/bin/env bash
# node-fastcgi offers several requests a connection, and closes it after the first response.
#
# Software: node-fastcgi 2.0.0 of npm, for Node.js.
#
# A server asks with FCGI_GET_VALUES whether an application takes several requests at once over one
# connection; FCGI_MPXS_CONNS is 1 then. With FCGI_KEEP_CONN in each request it also asks to leave
# the connection open afterwards.
#
# Seen: node-fastcgi says FCGI_MPXS_CONNS=1. When one response has gone out it closes the
# connection, in spite of FCGI_KEEP_CONN. Whatever else was under way there gets neither STDOUT nor
# FCGI_END_REQUEST. A server that believes the answer gives errors to visitors as soon as two
# requests share a connection, and cannot know whether the one that was cut off took effect. With
# node-fastcgi it has to use each connection for one request.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export folder
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts node-fastcgi@2.0.0 >log 2>&1 ||
    { echo "node-fastcgi 2.0.0 could not be installed" >&2; exit 2; }
cat >application.js <<'JAVASCRIPT'
// Answers /slow a second after /quick.
const server = require('node-fastcgi').createServer((request, response) => {
    const answer = () => {
        response.writeHead(200, { 'Content-Type': 'text/plain' });
        response.end(request.url);
    };
    setTimeout(answer, request.url === '/slow' ? 1100 : 100);
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
JAVASCRIPT
timeout 60 python3 - <<'PYTHON'
import socket, struct, subprocess, sys

NAMES = {3: "END_REQUEST", 6: "STDOUT", 7: "STDERR", 10: "GET_VALUES_RESULT", 11: "UNKNOWN_TYPE"}


def record(kind, request, content=b""):
    return struct.pack("!BBHHBB", 1, kind, request, len(content), 0, 0) + content


def pairs(**values):
    """Names and values of less than 128 bytes, as FastCGI writes them."""
    return b"".join(
        bytes([len(name), len(value)]) + name.encode() + value.encode()
        for name, value in values.items())


def records(client, seconds=5):
    """The records that arrive until the peer closes or is silent for so long."""
    client.settimeout(seconds)
    stream, found = client.makefile("rb"), []
    try:
        while header := stream.read(8):
            _, kind, request, length, padding, _ = struct.unpack("!BBHHBB", header)
            found.append((NAMES.get(kind, kind), request, stream.read(length)))
            stream.read(padding)
        found.append("closed")
    except TimeoutError:
        found.append("silence")
    return found


def request(number, path):
    parameters = pairs(
        REQUEST_METHOD="GET", REQUEST_URI=path, SCRIPT_NAME=path, QUERY_STRING="",
        SERVER_PROTOCOL="HTTP/1.1", SERVER_NAME="localhost", SERVER_PORT="80")
    return (
        record(1, number, b"\0\1\1\0\0\0\0\0")
        + record(4, number, parameters) + record(4, number) + record(5, number))


node = subprocess.Popen(["node", "application.js"], stdout=subprocess.PIPE)
try:
    port = int(node.stdout.readline())
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(
            record(9, 0, pairs(FCGI_MPXS_CONNS="")) + request(1, "/slow") + request(2, "/quick"))
        found = records(client)
finally:
    node.kill()
    node.wait()
print(*found, sep="\n")
page = found[1][2] if len(found) > 1 else b""
changed = (
    found[:1] != [("GET_VALUES_RESULT", 0, pairs(FCGI_MPXS_CONNS="1"))]
    or not page.startswith(b"Status: 200 OK\r\n") or not page.endswith(b"\r\n\r\n/quick")
    or found[2:] != [("STDOUT", 2, b""), ("END_REQUEST", 2, bytes(8)), "closed"])
sys.exit("this is not what was recorded" if changed else 0)
PYTHON
