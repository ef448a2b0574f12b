#!/usr/bin/env bash
# Caddy tells a FastCGI application that a chunked request has a content of -1 bytes.
#
# Software: Caddy 2.6.2 of Debian 12 (caddy 2.6.2-5), `reverse_proxy` with `transport fastcgi`.
#
# RFC 3875, section 4.1.2: CONTENT_LENGTH is a number of decimal digits, and the server must set it
# if and only if the request has content. A server that gets a chunked request reads it to its end
# and counts, as nginx 1.22.1, Apache 2.4.71, lighttpd 1.4.69, HAProxy 2.6.12 and h2o 2.2.5 do for
# short ones, or refuses it.
#
# Seen: Caddy sends CONTENT_LENGTH=-1, and the whole content in FCGI_STDIN. A program that reads as
# much as it was promised reads nothing, and one that takes the value for a number without sign
# expects more than 18 quintillion bytes. With a `Content-Length` in the request the value is right.
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

root=$(debian caddy 2.6.2-5)
export root folder
export HOME=$folder XDG_CONFIG_HOME=$folder XDG_DATA_HOME=$folder
timeout 60 python3 - <<'PYTHON'
import os, re, socket, struct, subprocess, sys, threading, time

root, folder = os.environ["root"], os.environ["folder"]
received = []


def record(kind, request, content=b""):
    return struct.pack("!BBHHBB", 1, kind, request, len(content), 0, 0) + content


def application(listener):
    while True:
        client, _ = listener.accept()
        stream, parameters, body = client.makefile("rb"), b"", b""
        while header := stream.read(8):
            _, kind, request, length, padding, _ = struct.unpack("!BBHHBB", header)
            content = stream.read(length + padding)[:length]
            parameters += content if kind == 4 else b""
            body += content if kind == 5 else b""
            if kind == 5 and length == 0:  # the end of FCGI_STDIN
                # The lengths of name and value, a byte each, stand in front of them.
                found = re.search(b"\x0e(.)CONTENT_LENGTH", parameters, re.DOTALL)
                value = parameters[found.end():found.end() + found[1][0]]
                received.append((value.decode(), body))
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
with open(f"{folder}/Caddyfile", "w") as file:
    file.write(f"""
{{
    admin off
    auto_https off
}}
http://127.0.0.1:{port} {{
    bind 127.0.0.1
    reverse_proxy 127.0.0.1:{listener.getsockname()[1]} {{
        transport fastcgi
    }}
}}
""")
caddy = subprocess.Popen(
    [f"{root}/usr/bin/caddy", "run", "--adapter", "caddyfile", "--config", f"{folder}/Caddyfile"],
    stderr=subprocess.DEVNULL)
try:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    for framing in "Content-Length: 5\r\n\r\nhello", (
            "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{framing}".encode())
            assert client.recv(65536).startswith(b"HTTP/1.1 200 "), "no page"
        length, body = received[-1]
        print(f"{framing.split()[0]} CONTENT_LENGTH={length}, FCGI_STDIN {body}")
finally:
    caddy.terminate()
    caddy.wait()
changed = received != [("5", b"hello"), ("-1", b"hello")]
sys.exit("this is not what was recorded" if changed else 0)
PYTHON
