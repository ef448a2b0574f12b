#!/usr/bin/env bash
# HAProxy gives a 304 from a FastCGI application `Content-Length: 0`.
#
# Software: HAProxy 2.6.12 of Debian 12 (haproxy 2.6.12-1+deb12u4), `proto fcgi`.
#
# RFC 9110, section 8.6: the `Content-Length` of a 304 is the length that the 200 to the same
# request would have had, and a server must not send another one. RFC 9111, section 4.3.4: a cache
# that revalidates takes headers of the 304 over into what it has stored.
#
# Seen: FastCGI has no length of its own, and HAProxy writes down what it counted:
#     HTTP/1.1 304 Not Modified
#     etag: "a"
#     content-length: 0
# It does not do so for a 204, nor for a 304 from an HTTP server without length. A cache or test in
# front of HAProxy that compares the two lengths finds that a page of 2 bytes has 0.
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
ANSWERS = {
    b"/page": b'Content-Type: text/plain\r\nETag: "a"\r\n\r\nok',
    b"/304": b'Status: 304 Not Modified\r\nETag: "a"\r\n\r\n',
    b"/204": b"Status: 204 No Content\r\n\r\n",
}


def record(kind, request, content=b""):
    return struct.pack("!BBHHBB", 1, kind, request, len(content), 0, 0) + content


def fastcgi(listener):
    while True:
        client, _ = listener.accept()
        stream, parameters = client.makefile("rb"), b""
        while header := stream.read(8):
            _, kind, request, length, padding, _ = struct.unpack("!BBHHBB", header)
            content = stream.read(length + padding)[:length]
            parameters += content if kind == 4 else b""
            if kind == 5 and length == 0:  # the end of FCGI_STDIN
                path = next(path for path in ANSWERS if path in parameters)
                client.sendall(
                    record(6, request, ANSWERS[path])
                    + record(6, request)
                    + record(3, request, bytes(8)))
                break
        stream.close()
        client.close()


def http(listener):
    while True:
        client, _ = listener.accept()
        client.recv(65536)
        client.sendall(b'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\n\r\n')
        client.close()


with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
ports = []
for serve in fastcgi, http:
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    ports.append(listener.getsockname()[1])

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
    use_backend http if {{ path /http }}
    default_backend fastcgi
backend fastcgi
    use-fcgi-app application
    server one 127.0.0.1:{ports[0]} proto fcgi
backend http
    server one 127.0.0.1:{ports[1]}
""")

haproxy = subprocess.Popen([f"{root}/usr/sbin/haproxy", "-db", "-f", f"{folder}/haproxy.cfg"])
lengths = {}
try:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    for path in "/page", "/304", "/204", "/http":
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(65536)
        lines = head.decode().split("\r\n")
        length = [line[16:] for line in lines if line.lower().startswith("content-length: ")]
        lengths[path] = lines[0].split()[1], length
        print(path, *lengths[path])
finally:
    haproxy.terminate()
    haproxy.wait()
changed = lengths != {
    "/page": ("200", ["2"]), "/304": ("304", ["0"]), "/204": ("204", []), "/http": ("304", [])}
sys.exit("this is not what was recorded" if changed else 0)
PYTHON
