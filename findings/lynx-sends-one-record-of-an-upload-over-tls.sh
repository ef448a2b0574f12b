#!/usr/bin/env bash
# Lynx announces a whole upload over TLS and sends the first 16 384 bytes of it.
#
# Software: lynx 2.9.0dev.12-1 of Debian 12, which speaks TLS by GnuTLS; openssl's s_server.
#
# `lynx -post_data` reads a body of 100 000 bytes. It is sent once in the clear, to a socket that
# counts, and once over TLS, to openssl s_server, which writes what it gets to a file. Neither
# answers; lynx has eight seconds, in which the bytes have long come.
#
# Seen: in the clear, head and body come whole. Over TLS the head says Content-Length: 100000, and
# head and body together end at 16 384 bytes, the length of one record. (GnuTLS's gnutls_record_send()
# sends one record at most, and returns how much that was.) A server waits for the rest.
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

debian lynx=2.9.0dev.12-1 lynx-common=2.9.0dev.12-1
libraries=$(find "$root" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
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
lynx() {
    head -c 100000 /dev/zero | tr '\0' x | LD_LIBRARY_PATH=$libraries SSL_CERT_FILE=$folder/cert.pem \
        timeout 8 "$root/usr/bin/lynx" -cfg="$root/etc/lynx/lynx.cfg" -source -post_data "$1" >/dev/null 2>&1 || true
}

openssl req -x509 -nodes -newkey rsa:2048 -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -keyout "$folder/key.pem" -out "$folder/cert.pem" 2>/dev/null
cat >"$folder/count.py" <<'PYTHON'
import socket
import sys

listener = socket.socket()
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen(8)
while True:
    client = listener.accept()[0]
    got = b""
    while piece := client.recv(65536):
        got += piece
    if got:
        open(sys.argv[2], "wb").write(got)
PYTHON
port=$(free_port)
timeout 60 python3 "$folder/count.py" "$port" "$folder/clear" &
server=$!
listens "$port"
lynx "http://localhost:$port/"
sleep 0.5
kill "$server"
port=$(free_port)
mkfifo "$folder/silence"
exec 4<>"$folder/silence"
timeout 60 openssl s_server -cert "$folder/cert.pem" -key "$folder/key.pem" -accept "127.0.0.1:$port" \
    -quiet >"$folder/tls" 2>/dev/null <&4 &
server=$!
listens "$port"
lynx "https://localhost:$port/"
for way in clear tls; do
    python3 - "$way" "$folder/$way" <<'PYTHON'
import re
import sys

got = open(sys.argv[2], "rb").read()
head, _, body = got.partition(b"\r\n\r\n")
length = int(re.search(rb"(?i)content-length: *(\d+)", head)[1])
print(f"{sys.argv[1]}: {length} bytes announced, {'all of them' if len(body) == length else f'{len(got)} come, head included'}")
PYTHON
done | tee "$folder/found"
cat >"$folder/expected" <<'TEXT'
clear: 100000 bytes announced, all of them
tls: 100000 bytes announced, 16384 come, head included
TEXT
cmp -s "$folder/found" "$folder/expected" || { echo "this is not what was recorded" >&2; exit 1; }
