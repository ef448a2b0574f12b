#!/usr/bin/env bash
# Apache turns the refusal of a FastCGI application into an empty page with status 200.
#
# Software: Apache httpd 2.4.71 of Debian 12 (apache2-bin 2.4.71-1~deb12u1), mod_proxy_fcgi.
#
# An application that cannot take a request answers with one record: FCGI_END_REQUEST, whose
# protocolStatus says FCGI_CANT_MPX_CONN (1), FCGI_OVERLOADED (2) or FCGI_UNKNOWN_ROLE (3). The
# request was not run, and may be sent again elsewhere. A proxy is expected to tell the visitor so
# with a 502 or 503.
#
# Seen: mod_proxy_fcgi takes the record for the end of a good answer. It never looks at the
# protocolStatus, and it does not miss the header either. Visitors, caches and monitors get
#     HTTP/1.1 200 OK
#     Content-Length: 0
# for each of the three, and a balancer in front of several applications does not try another.
# An application behind Apache that wants to be seen as overloaded has to print `Status: 503`.
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


def application(listener, status):
    """Reads a request to its end and refuses it with the status."""
    while True:
        client, _ = listener.accept()
        stream = client.makefile("rb")
        while header := stream.read(8):
            _, kind, request, length, padding, _ = struct.unpack("!BBHHBB", header)
            stream.read(length + padding)
            if kind == 5 and length == 0:  # the end of FCGI_STDIN
                end = struct.pack("!BBHHBB", 1, 3, request, 8, 0, 0)
                client.sendall(end + struct.pack("!IB3x", 0, status))
                break
        stream.close()
        client.close()


with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]

names = {1: "cant-mpx-conn", 2: "overloaded", 3: "unknown-role"}
passes = []
for status, name in names.items():
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=application, args=(listener, status), daemon=True).start()
    passes.append(f"ProxyPass /{name} fcgi://127.0.0.1:{listener.getsockname()[1]}/")

modules = f"{root}/usr/lib/apache2/modules"
with open(f"{folder}/apache.conf", "w") as file:
    file.write("\n".join([
        f"ServerRoot {folder}",
        f"PidFile {folder}/pid",
        f"ErrorLog {folder}/errors",
        "ServerName localhost",
        f"Listen 127.0.0.1:{port}",
        f"LoadModule mpm_event_module {modules}/mod_mpm_event.so",
        f"LoadModule authz_core_module {modules}/mod_authz_core.so",
        f"LoadModule proxy_module {modules}/mod_proxy.so",
        f"LoadModule proxy_fcgi_module {modules}/mod_proxy_fcgi.so",
        *passes,
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
    changed = False
    for name in names.values():
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        client.request("GET", f"/{name}")
        answer = client.getresponse()
        body = answer.read()
        print(f"{name}: {answer.status} with {len(body)} bytes")
        changed |= (answer.status, body) != (200, b"")
finally:
    apache.terminate()
    apache.wait()
sys.exit("this is not what was recorded" if changed else 0)
PYTHON
