#!/usr/bin/env bash
# Apache answers 502 because of a connection on which its HTTP/2 server has said goodbye.
#
# Software: Apache httpd 2.4.71 of Debian 12 (apache2-bin 2.4.71-1~deb12u1), mod_proxy_http2.
#
# RFC 9113, section 6.8: a server that is to end a connection may first send a GOAWAY with the
# highest number of streams, and a PING, whose answer tells it that no request is on its way any
# more. Who has received a GOAWAY opens no more streams on the connection, but a new one.
#
# Seen: a server answers a request, and sends PING and GOAWAY (NO_ERROR, 2^31-1) right behind the
# answer. Where mod_proxy_http2 reads all of it at once, the answer to the PING is still to be
# written when the request is done, and the connection is put back among those for later requests.
# The next request takes it; libnghttp2 refuses to open a stream there (REFUSED_STREAM), and Apache
# answers 502 without a new connection, though nothing of the request was sent. The request after
# that has a new connection, and is answered. Without the PING every request is answered. How many
# fail depends on what is read together: 1 to 5 of twenty, so it is asked until one has failed.
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

root=$(debian apache2-bin 2.4.71-1~deb12u1)
export root folder
timeout 60 python3 - <<'PYTHON'
import http.client, os, socket, struct, subprocess, sys, threading, time

root, folder = os.environ["root"], os.environ["folder"]
DATA, HEADERS, SETTINGS, PING, GOAWAY = 0, 1, 4, 6, 7
connections = []


def frame(kind, flags, stream, content=b""):
    return struct.pack("!I", len(content))[1:] + struct.pack("!BBI", kind, flags, stream) + content


def serve(client, seen):
    stream = client.makefile("rb")
    stream.read(24)  # the preface
    client.sendall(frame(SETTINGS, 0, 0))
    while header := stream.read(9):
        length = int.from_bytes(header[:3], "big")
        kind, flags, number = struct.unpack("!BBI", header[3:])
        content = stream.read(length)
        if kind == SETTINGS and not flags & 1:
            client.sendall(frame(SETTINGS, 1, 0))
        elif kind == PING and not flags & 1:
            client.sendall(frame(PING, 1, 0, content))
        elif kind == HEADERS:
            seen.append(number)
            # 0x88 is `:status: 200`. The first GOAWAY of two names no stream that was the last.
            client.sendall(
                frame(HEADERS, 4, number, b"\x88")
                + frame(DATA, 1, number, b"page")
                + frame(PING, 0, 0, bytes(8))
                + frame(GOAWAY, 0, 0, struct.pack("!II", 2**31 - 1, 0)))
    stream.close()
    client.close()


def accept(listener):
    while True:
        client, _ = listener.accept()
        connections.append([])
        threading.Thread(target=serve, args=(client, connections[-1]), daemon=True).start()


with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=accept, args=(listener,), daemon=True).start()

modules = f"{root}/usr/lib/apache2/modules"
with open(f"{folder}/apache.conf", "w") as file:
    file.write("\n".join([
        f"ServerRoot {folder}",
        f"PidFile {folder}/pid",
        f"ErrorLog {folder}/errors",
        "ServerName localhost",
        f"Listen 127.0.0.1:{port}",
        f"LoadModule mpm_event_module {modules}/mod_mpm_event.so",
        "StartServers 1",
        "ServerLimit 1",
        "ThreadsPerChild 4",
        "MaxRequestWorkers 4",
        f"LoadModule authz_core_module {modules}/mod_authz_core.so",
        f"LoadModule proxy_module {modules}/mod_proxy.so",
        f"LoadModule proxy_http2_module {modules}/mod_proxy_http2.so",
        f"ProxyPass / h2c://127.0.0.1:{listener.getsockname()[1]}/",
        "",
    ]))

apache = subprocess.Popen(
    [f"{root}/usr/sbin/apache2", "-f", f"{folder}/apache.conf", "-D", "FOREGROUND"])
try:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    answers = []
    while len(answers) < 100 and (len(answers) < 2 or answers[-2][0] == 200):
        number = len(answers)
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        client.request("GET", f"/{number}")
        answer = client.getresponse()
        answers.append((answer.status, answer.read()[:4]))
        client.close()
        time.sleep(0.1)
    statuses = [status for status, _ in answers]
    print(statuses, "on", len(connections), "connections, of which each had", connections[0])
    changed = set(statuses) != {200, 502} or any(seen != [1] for seen in connections)
finally:
    apache.terminate()
    apache.wait()
sys.exit("this is not what was recorded" if changed else 0)
PYTHON
