#!/usr/bin/env bash
# Apache answers 200 where a FastCGI application redirects with `Location` alone.
#
# Software: Apache httpd 2.4.71 of Debian 12 (apache2-bin 2.4.71-1~deb12u1), mod_proxy_fcgi.
#
# RFC 3875, section 6.2.3: a script that prints an absolute `Location` and neither `Status` nor a
# body asks for a redirect, and the server has to make it a 302. nginx 1.22.1, lighttpd 1.4.69 and
# HAProxy 2.6.12 do so for the same application; h2o 2.2.5 and Caddy 2.6.2 do as Apache does.
#
# Seen: mod_proxy_fcgi passes the header on and leaves the status at 200:
#     HTTP/1.1 200 OK
#     Location: http://example.test/there
#     Content-Length: 0
# No client follows that, so the visitor is left with an empty page. PHP is not met by it, since it
# prints a `Status` of its own with each `Location`.
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


def record(kind, request, content=b""):
    return struct.pack("!BBHHBB", 1, kind, request, len(content), 0, 0) + content


def application(listener):
    client, _ = listener.accept()
    stream = client.makefile("rb")
    while header := stream.read(8):
        _, kind, request, length, padding, _ = struct.unpack("!BBHHBB", header)
        stream.read(length + padding)
        if kind == 5 and length == 0:  # the end of FCGI_STDIN
            client.sendall(
                record(6, request, b"Location: http://example.test/there\r\n\r\n")
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
        f"ProxyPass / fcgi://127.0.0.1:{listener.getsockname()[1]}/",
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
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    client.request("GET", "/")
    answer = client.getresponse()
    body = answer.read()
    print(answer.status, answer.getheader("Location"), len(body), "bytes")
    changed = (answer.status, answer.getheader("Location"), body) != (
        200, "http://example.test/there", b"")
finally:
    apache.terminate()
    apache.wait()
sys.exit("this is not what was recorded" if changed else 0)
PYTHON
