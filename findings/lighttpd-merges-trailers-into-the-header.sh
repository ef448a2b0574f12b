#!/usr/bin/env bash
# lighttpd writes the trailers of a backend's response into the header, as if they had come first.
#
# Software: lighttpd 1.4.69 of Debian 12 (lighttpd 1.4.69-1), mod_proxy with its usual settings.
#
# RFC 9110, section 6.5.1: fields after the content (trailers) must not be put among the header
# fields, unless their definition says that this is safe. They may be dropped.
#
# Seen: lighttpd waits for the end of a chunked response, and sends it with a length and one header
# that holds both. A backend that sends `X-Sum: first` and, after the content, `X-Sum: last` and
# `Warning: 199 - "broken off"` becomes
#     HTTP/1.1 200 OK
#     X-Sum: first
#     X-Sum: last
#     Warning: 199 - "broken off"
#     Content-Length: 4
# The two trailers end with CR CR LF there, which strict clients refuse. Others cannot tell which
# field was which, and find nothing among the trailers where it was sent.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Prints where the files of a Debian package of this version lie: nothing if it is installed, else
# a folder it was unpacked into.
debian() {
    if [ "$(dpkg-query -W -f '${Version}' "$1" 2>/dev/null)" != "$2" ]; then
        (cd "$folder" && apt-get download "$1=$2" >log 2>&1) ||
            { echo "there is no $1 of version $2 to be had" >&2; exit 2; }
        dpkg -x "$folder/$1"_*.deb "$folder/$1"
        echo "$folder/$1"
    fi
}

root=$(debian lighttpd 1.4.69-1)
export root folder
timeout 60 python3 - <<'PYTHON'
import os, socket, subprocess, sys, threading, time

root, folder = os.environ["root"], os.environ["folder"]


def backend(listener):
    while True:
        client, _ = listener.accept()
        head = b""
        while b"\r\n\r\n" not in head and (more := client.recv(65536)):
            head += more
        if head:
            client.sendall(
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, Warning\r\n"
                b"X-Sum: first\r\n\r\n4\r\npage\r\n0\r\n"
                b'X-Sum: last\r\nWarning: 199 - "broken off"\r\n\r\n')
        client.shutdown(socket.SHUT_WR)
        client.close()


with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=backend, args=(listener,), daemon=True).start()
with open(f"{folder}/lighttpd.conf", "w") as file:
    file.write(f"""
server.document-root = "{folder}"
server.errorlog = "{folder}/errors"
server.bind = "127.0.0.1"
server.port = {port}
server.modules = ("mod_proxy")
proxy.server = ("" => (("host" => "127.0.0.1", "port" => {listener.getsockname()[1]})))
""")
lighttpd = subprocess.Popen(
    [f"{root}/usr/sbin/lighttpd", "-D", "-f", f"{folder}/lighttpd.conf",
     "-m", f"{root}/usr/lib/lighttpd"])
try:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    with socket.create_connection(("127.0.0.1", port), timeout=15) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = b""
        while more := client.recv(65536):
            answer += more
finally:
    lighttpd.terminate()
    lighttpd.wait()
print(answer.decode().replace("\r\r", "(CR)\r"))
head, _, body = answer.decode().partition("\r\n\r\n")
fields = sorted(
    line for line in head.split("\r\n")[1:] if not line.startswith(("Date:", "Server:")))
changed = body != "page" or fields != [
    "Accept-Ranges: bytes", "Connection: close", "Content-Length: 4",
    'Warning: 199 - "broken off"\r', "X-Sum: first", "X-Sum: last\r"]
sys.exit("this is not what was recorded" if changed else 0)
PYTHON
