#!/usr/bin/env bash
# HAProxy sends nothing to servers whose SRV records have the weight 0, and calls them UP.
#
# Software: HAProxy 2.6.12 of Debian 12 (haproxy 2.6.12-1+deb12u4), `server-template` with SRV.
#
# RFC 2782: "Domain administrators SHOULD use Weight 0 when there isn't any server selection to do",
# and records of which all have the weight 0 are to be chosen from at random. It is what dnsmasq
# writes for `srv-host=NAME,TARGET,PORT`.
#
# Seen: HAProxy takes the weight of a record for the weight of the server. With 0 the server is
# resolved, checked and `UP` in all statistics, and every client gets
#     HTTP/1.1 503 Service Unavailable
# With 1 the same server answers. `weight` in `default-server` does not change that.
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
import csv, http.client, http.server, os, socket, struct, subprocess, sys, threading, time

root, folder = os.environ["root"], os.environ["folder"]


class Application(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def names(server, port):
    """A name server whose only SRV records lead to the application: _wN._tcp has the weight N."""
    while True:
        question, client = server.recvfrom(4096)
        end = question.index(b"\0", 12) + 5
        name, kind = question[12:end], struct.unpack("!H", question[end - 4:end - 2])[0]
        answer = b""
        if kind == 33 and name.startswith(b"\3_w"):
            target = b"\3app\7example\0"
            data = struct.pack("!HHH", 0, int(name[3:4]), port) + target
            answer = b"\xc0\x0c" + struct.pack("!HHIH", 33, 1, 1, len(data)) + data
        elif kind == 1:
            answer = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 1, 4) + bytes((127, 0, 0, 1))
        head = question[:2] + struct.pack("!HHHHH", 0x8580, 1, 1 if answer else 0, 0, 0)
        server.sendto(head + name + answer, client)


application = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Application)
threading.Thread(target=application.serve_forever, daemon=True).start()
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 0))
threading.Thread(target=names, args=(server, application.server_port), daemon=True).start()
ports = {}
for weight in (0, 1):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        ports[weight] = free.getsockname()[1]
with open(f"{folder}/haproxy.cfg", "w") as file:
    file.write(f"""global
    stats socket {folder}/socket
defaults
    mode http
    timeout connect 1s
    timeout client 5s
    timeout server 5s
    default-server check inter 200ms rise 1 weight 10
resolvers dns
    nameserver one 127.0.0.1:{server.getsockname()[1]}
    accepted_payload_size 4096
""")
    for weight, port in ports.items():
        file.write(f"listen weight-{weight}\n    bind 127.0.0.1:{port}\n"
                   f"    server-template s 1 _w{weight}._tcp.example resolvers dns init-addr none\n")
haproxy = subprocess.Popen(
    [f"{root}/usr/sbin/haproxy", "-db", "-f", f"{folder}/haproxy.cfg"],
    stdout=subprocess.DEVNULL, stderr=open(f"{folder}/haproxy.log", "w"))


def status(weight):
    """Of the server, as HAProxy shows it."""
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"{folder}/socket")
            client.sendall(b"show stat\n")
            text = b"".join(iter(lambda: client.recv(65536), b"")).decode()
    except OSError:
        return None
    rows = csv.DictReader(text.lstrip("# ").splitlines())
    return next((row["status"] for row in rows
                 if row["pxname"] == f"weight-{weight}" and row["svname"] == "s1"), None)


seen = {}
try:
    for weight, port in ports.items():
        until = time.monotonic() + 20
        while status(weight) != "UP" and time.monotonic() < until:
            time.sleep(0.1)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/")
        seen[weight] = status(weight), connection.getresponse().status
        print(f"weight {weight}: the server is {seen[weight][0]}, the answer {seen[weight][1]}")
finally:
    haproxy.terminate()
    haproxy.wait()
sys.exit(0 if seen == {0: ("UP", 503), 1: ("UP", 200)} else "this is not what was recorded")
PYTHON
