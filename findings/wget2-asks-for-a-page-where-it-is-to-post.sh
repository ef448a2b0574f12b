#!/usr/bin/env bash
# wget2 makes a GET without a body of a POST that it is told to make, if the server speaks HTTP/2.
#
# Software: wget2 1.99.1-2.2, and nghttpd of nghttp2-server 1.52.0-1+deb12u3, of Debian 12.
#
# `wget2 --post-file=FILE https://…` is run once as it comes, which negotiates HTTP/2, and once with
# `--http2=off`, against a server that writes the method and the length that it is told.
#
# Seen: over HTTP/2 the server is asked by GET, without a length. wget2 writes the page of the GET
# and ends with status 0, so a script that posts notices nothing. Over HTTP/1.1 it is a POST.
set -euo pipefail

folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$folder"' EXIT

# Unpacks Debian packages of these versions, and what they need that is not installed, in $root.
root=$folder/root
debian() {
    mkdir -p "$folder/archives/partial"
    timeout 300 apt-get install --download-only --reinstall --yes --no-install-recommends \
        --allow-downgrades -o Debug::NoLocking=1 -o "Dir::Cache::archives=$folder/archives" \
        "$@" >"$folder/log" 2>&1 ||
        { echo "these packages cannot be had: $*" >&2; exit 2; }
    for package in "$folder"/archives/*.deb; do dpkg -x "$package" "$root"; done
}
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
listens() {
    for _ in $(seq 100); do
        (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return
        sleep 0.1
    done
    echo "the server does not start" >&2
    exit 2
}
certificate() {
    openssl req -x509 -nodes -newkey rsa:2048 -days 2 -subj "/CN=$1" -addext "subjectAltName=DNS:$1" \
        -keyout "$folder/$1.key" -out "$folder/$1.pem" 2>/dev/null
}

debian wget2=1.99.1-2.2 nghttp2-server=1.52.0-1+deb12u3
libraries=$(find "$root" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
certificate localhost
echo 'the page' >"$folder/page"
printf 'a body' >"$folder/body"
post() {
    LD_LIBRARY_PATH=$libraries timeout 20 "$root/usr/bin/wget2" --quiet --tries=1 --no-hsts -O - "$@" \
        --ca-certificate="$folder/localhost.pem" --post-file="$folder/body" "https://localhost:$port/page"
}

port=$(free_port)
LD_LIBRARY_PATH=$libraries timeout 60 "$root/usr/sbin/nghttpd" --address=127.0.0.1 --verbose --htdocs="$folder" \
    "$port" "$folder/localhost.key" "$folder/localhost.pem" >"$folder/asked" 2>&1 &
server=$!
listens "$port"
{
    echo "over HTTP/2, the answer is: $(post), status $?"
    sleep 0.5
    kill "$server"
    echo "and the server was asked by: $(sed -n 's/.*:method: //p' "$folder/asked" | sort -u)," \
        "length: $(sed -n 's/.*recv (stream_id=[0-9]*) content-length: //p' "$folder/asked" | grep . || echo none)"
} >"$folder/found" 2>&1

cat >"$folder/http1.py" <<'PYTHON'
import http.server
import ssl
import sys


class Asked(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{self.command} with {len(body)} bytes".encode())

    def log_message(self, *_):
        pass


port, certificate, key = sys.argv[1:]
server = http.server.HTTPServer(("127.0.0.1", int(port)), Asked)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
PYTHON
port=$(free_port)
timeout 60 python3 "$folder/http1.py" "$port" "$folder/localhost.pem" "$folder/localhost.key" 2>/dev/null &
server=$!
listens "$port"
echo "over HTTP/1.1: $(post --http2=off)" >>"$folder/found"
cat "$folder/found"
cat >"$folder/expected" <<'TEXT'
over HTTP/2, the answer is: the page, status 0
and the server was asked by: GET, length: none
over HTTP/1.1: POST with 6 bytes
TEXT
cmp -s "$folder/found" "$folder/expected" || { echo "this is not what was recorded" >&2; exit 1; }
