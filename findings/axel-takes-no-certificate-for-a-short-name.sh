#!/usr/bin/env bash
# axel takes no certificate for a host name without a dot, whoever has signed it.
#
# Software: axel 2.17.11-3 of Debian 12; openssl's s_server.
#
# A certificate for `localhost`, trusted by SSL_CERT_FILE, with the name in subjectAltName, as
# machines of an intranet have them for their short names. axel and Python fetch a page.
#
# Seen: Python takes it. axel says "Hostname verification failed", and fetches the page only with
# `--insecure`. Of a name with dots, which a machine has to be told of first, it takes one.
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

debian axel=2.17.11-3
libraries=$(find "$root" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
cat >"$folder/fetch.py" <<'PYTHON'
import socket
import ssl
import sys

name, port, authority = sys.argv[1:]
context = ssl.create_default_context(cafile=authority)
try:
    context.wrap_socket(socket.create_connection(("127.0.0.1", int(port)), 10), server_hostname=name).close()
    print("takes it")
except ssl.SSLCertVerificationError as error:
    print(error.verify_message)
PYTHON
certificate localhost
port=$(free_port)
timeout 60 openssl s_server -cert "$folder/localhost.pem" -key "$folder/localhost.key" -accept "127.0.0.1:$port" \
    -www >/dev/null 2>&1 &
server=$!
listens "$port"
axel() {
    local said
    said=$(cd "$folder" && LD_LIBRARY_PATH=$libraries SSL_CERT_FILE=$folder/localhost.pem \
        timeout 20 "$root/usr/bin/axel" -n 1 -o page "$@" "https://localhost:$port/" 2>&1) || true
    if [ -s "$folder/page" ]; then echo 'fetches it'; else grep -o 'Hostname verification failed' <<<"$said"; fi
}
{
    echo "axel: $(axel)"
    echo "axel --insecure: $(axel --insecure)"
    echo "Python: $(timeout 20 python3 "$folder/fetch.py" localhost "$port" "$folder/localhost.pem")"
} | tee "$folder/found"
cat >"$folder/expected" <<'TEXT'
axel: Hostname verification failed
axel --insecure: fetches it
Python: takes it
TEXT
cmp -s "$folder/found" "$folder/expected" || { echo "this is not what was recorded" >&2; exit 1; }
