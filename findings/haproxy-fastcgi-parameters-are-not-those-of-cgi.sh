#!/usr/bin/env bash
# HAProxy leaves QUERY_STRING out, and sends a repeated header field as a repeated parameter.
#
# Software: HAProxy 2.6.12 of Debian 12 (haproxy 2.6.12-1+deb12u4), `proto fcgi`.
#
# A FastCGI responder gets the variables of CGI, RFC 3875. Section 4.1.7: the server must set
# QUERY_STRING, to an empty string if the URI has no query. Section 4.1.18: header fields of the
# same name must be rewritten as one value.
#
# Seen:
#   - GET / comes without QUERY_STRING, and so does GET /?. Programs that take it for granted, as in
#     PHP `$_SERVER['QUERY_STRING']`, warn or fail on their front page, and only behind HAProxy;
#   - `X-Forwarded-For: 192.0.2.1` and a second one with 192.0.2.2 come as two parameters
#     HTTP_X_FORWARDED_FOR. FastCGI says nothing of a name that comes twice, so it depends on the
#     library whether the program finds the first, the last or both.
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

root=$(debian haproxy 2.6.12-1+deb12u4)
export root folder
timeout 60 python3 - <<'PYTHON'
import os, socket, struct, subprocess, sys, threading, time

root, folder = os.environ["root"], os.environ["folder"]
received = []


def record(kind, request, content=b""):
    return struct.pack("!BBHHBB", 1, kind, request, len(content), 0, 0) + content


def decode(stream):
    """The names and values in a FCGI_PARAMS stream."""
    found, at = [], 0
    while at < len(stream):
        lengths = []
        for _ in range(2):
            if stream[at] < 128:
                lengths.append(stream[at])
                at += 1
            else:
                lengths.append(struct.unpack_from("!I", stream, at)[0] & 0x7FFFFFFF)
                at += 4
        name = stream[at:at + lengths[0]].decode()
        at += lengths[0]
        found.append((name, stream[at:at + lengths[1]].decode()))
        at += lengths[1]
    return found


def application(listener):
    while True:
        client, _ = listener.accept()
        stream, parameters = client.makefile("rb"), b""
        while header := stream.read(8):
            _, kind, request, length, padding, _ = struct.unpack("!BBHHBB", header)
            content = stream.read(length + padding)[:length]
            parameters += content if kind == 4 else b""
            if kind == 5 and length == 0:  # the end of FCGI_STDIN
                received.append(decode(parameters))
                client.sendall(
                    record(6, request, b"Content-Type: text/plain\r\n\r\npage")
                    + record(6, request)
                    + record(3, request, bytes(8)))
                break
        stream.close()
        client.close()


with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=application, args=(listener,), daemon=True).start()
with open(f"{folder}/haproxy.cfg", "w") as file:
    file.write(f"""
defaults
    mode http
    timeout connect 5s
    timeout client 5s
    timeout server 5s
fcgi-app application
    docroot /
frontend visitors
    bind 127.0.0.1:{port}
    default_backend fastcgi
backend fastcgi
    use-fcgi-app application
    server one 127.0.0.1:{listener.getsockname()[1]} proto fcgi
""")
haproxy = subprocess.Popen([f"{root}/usr/sbin/haproxy", "-db", "-f", f"{folder}/haproxy.cfg"])
found = {}
try:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    for path in "/?page=2", "/?", "/":
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(
                f"GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 192.0.2.1\r\n"
                "X-Forwarded-For: 192.0.2.2\r\n\r\n".encode())
            client.recv(65536)
        names = "QUERY_STRING", "HTTP_X_FORWARDED_FOR"
        found[path] = sorted(pair for pair in received[-1] if pair[0] in names)
        print(path, *found[path])
finally:
    haproxy.terminate()
    haproxy.wait()
twice = [("HTTP_X_FORWARDED_FOR", "192.0.2.1"), ("HTTP_X_FORWARDED_FOR", "192.0.2.2")]
changed = found != {"/?page=2": [*twice, ("QUERY_STRING", "page=2")], "/?": twice, "/": twice}
sys.exit("this is not what was recorded" if changed else 0)
PYTHON
