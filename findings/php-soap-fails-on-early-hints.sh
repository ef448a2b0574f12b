#!/usr/bin/env bash
# PHP's SoapClient takes an interim response for the answer, and reports a broken HTTP body.
#
# Software: PHP 8.2.36 of Debian 12 (php8.2-cli and php8.2-soap 8.2.36-1~deb12u1).
#
# RFC 9110, section 15.2: a client must be able to parse interim responses before the final one.
# PHP's own `http://` streams do, and SoapClient skips a 100.
#
# Seen: SoapClient has an HTTP client of its own. Sent `103 Early Hints` or `102 Processing` before
# a good answer, it throws a SoapFault,
#     Error Fetching http body, No Content-Length, connection closed or chunked data
# though the body came with its Content-Length. The call has been carried out by then, so a program
# that tries again does it twice. A server must not send early hints to a SoapClient, which can be
# known by its `SOAPAction` header or its `User-Agent: PHP-SOAP/8.2.36`.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

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

debian php8.2-cli=8.2.36-1~deb12u1 php8.2-soap=8.2.36-1~deb12u1
export root folder
export LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu
cat >"$folder/call.php" <<'PHP'
<?php
ini_set('default_socket_timeout', 5);
try {
    $client = new SoapClient(null, ['location' => $argv[1], 'uri' => 'urn:shop']);
    $answer = $client->buy();
    echo "answer $answer";
} catch (SoapFault $fault) {
    echo $fault->getMessage();
}
PHP
cat >"$folder/get.php" <<'PHP'
<?php
ini_set('default_socket_timeout', 5);
echo str_contains(file_get_contents($argv[1]), '<answer>7</answer>') ? 'answer 7' : 'no answer';
PHP
timeout 60 python3 - <<'PYTHON'
import os, socket, subprocess, sys, threading

root, folder = os.environ["root"], os.environ["folder"]
BODY = (
    b'<?xml version="1.0"?><s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/">'
    b'<s:Body><n:buyResponse xmlns:n="urn:shop"><answer>7</answer></n:buyResponse></s:Body>'
    b"</s:Envelope>")
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(BODY), BODY))
INTERIM = {
    "/none": b"",
    "/100": b"HTTP/1.1 100 Continue\r\n\r\n",
    "/102": b"HTTP/1.1 102 Processing\r\n\r\n",
    "/103": b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n",
}
FAULT = "Error Fetching http body, No Content-Length, connection closed or chunked data"


def serve(listener):
    while True:
        client, _ = listener.accept()
        stream, length = client.makefile("rb"), 0
        path = stream.readline().split()[1].decode()
        while (line := stream.readline().lower()) not in (b"\r\n", b""):
            if line.startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        stream.read(length)
        client.sendall(INTERIM[path] + ANSWER)
        stream.close()
        client.close()


listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=serve, args=(listener,), daemon=True).start()
changed = False
for path in INTERIM:
    for script in "get", "call":
        url = f"http://127.0.0.1:{listener.getsockname()[1]}{path}"
        soap = f"extension={root}/usr/lib/php/20220829/soap.so"
        options = ["-n", "-d", soap] if script == "call" else ["-n"]
        found = subprocess.run(
            [f"{root}/usr/bin/php8.2", *options, f"{folder}/{script}.php", url],
            capture_output=True, text=True, timeout=20).stdout
        print(f"{script} {path}: {found}")
        broken = script == "call" and path in ("/102", "/103")
        changed |= found != (FAULT if broken else "answer 7")
sys.exit("this is not what was recorded" if changed else 0)
PYTHON
