#!/usr/bin/env bash
# Varnish fails on valid HTTP/1.1 of a backend: interim responses, chunk extensions and trailers.
#
# Software: Varnish 7.1.1 of Debian 12 (varnish 7.1.1-2+deb12u1).
#
# RFC 9110, section 15.2: a client must be able to parse 1xx responses before the final one, and a
# proxy forwards them. RFC 9112, section 7.1.1: extensions of chunks that are not known are ignored.
# Section 7.1.2: fields may follow the last chunk (trailers), and may be dropped.
#
# Seen, with a backend that answers so:
#   - `103 Early Hints` or `100 Continue` before the 200: "503 Backend fetch failed";
#   - `4;sum=1` in front of a chunk, or `X-Sum: 1` after the last chunk: "503 Service Unavailable",
#     or a 200 that is broken off in front of the last chunk, with the content or without it. Which
#     one depends on how far Varnish's thread for the visitor is.
# The same responses without these are served. Varnish's requests say HTTP/1.1, so a backend cannot
# know that it must do without; its `X-Varnish` field gives it away.
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

debian varnish=7.1.1-2+deb12u1
export root folder
export LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu
timeout 100 python3 - <<'PYTHON'
import os, socket, subprocess, sys, threading, time

root, folder = os.environ["root"], os.environ["folder"]
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ANSWERS = {
    "/plain": PLAIN,
    "/100": b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN,
    "/103": b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n" + PLAIN,
    "/chunk": CHUNKED + b"4\r\npage\r\n0\r\n\r\n",
    "/extension": CHUNKED + b"4;sum=1\r\npage\r\n0\r\n\r\n",
    "/trailer": CHUNKED + b"4\r\npage\r\n0\r\nX-Sum: 1\r\n\r\n",
}
EXPECTED = {
    "/plain": ["whole"],
    "/100": ["503 Backend fetch failed"],
    "/103": ["503 Backend fetch failed"],
    "/chunk": ["whole"],
    "/extension": ["503 Service Unavailable", "broken off after 0 bytes"],
    "/trailer": [
        "503 Service Unavailable", "broken off after 0 bytes", "broken off after 4 bytes"],
}


def backend(listener):
    while True:
        client, _ = listener.accept()
        head = b""
        while b"\r\n\r\n" not in head and (more := client.recv(65536)):
            head += more
        if head:
            client.sendall(ANSWERS[head.split()[1].decode()])
        client.shutdown(socket.SHUT_WR)
        client.close()


def get(port, path):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while more := client.recv(65536):
            answer += more
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b"\r\n")[0].decode().removeprefix("HTTP/1.1 ")
    if status != "200 OK":
        return status
    chunked = b"transfer-encoding: chunked" in head.lower()
    if chunked and body.endswith(b"0\r\n\r\n") or not chunked and body == b"page":
        return "whole"
    return f"broken off after {len(body.partition(b'page')[1])} bytes"


with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=backend, args=(listener,), daemon=True).start()
os.mkdir(f"{folder}/varnish")
varnish = subprocess.Popen(
    [f"{root}/usr/sbin/varnishd", "-F", "-j", "none", "-n", f"{folder}/varnish",
     "-s", "malloc,10m", "-a", f"127.0.0.1:{port}",
     "-b", f"127.0.0.1:{listener.getsockname()[1]}"],
    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
changed = False
try:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    for path, expected in EXPECTED.items():
        found = get(port, path)
        print(f"{path}: {found}")
        changed |= found not in expected
finally:
    varnish.terminate()
    varnish.wait()
sys.exit("this is not what was recorded" if changed else 0)
PYTHON
