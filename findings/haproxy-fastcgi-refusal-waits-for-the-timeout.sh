#!/usr/bin/env bash
# HAProxy lets a visitor wait for `timeout server` though a FastCGI application refused at once.
#
# Software: HAProxy 2.6.12 of Debian 12 (haproxy 2.6.12-1+deb12u4), `proto fcgi`.
#
# An application that cannot take a request answers with one record: FCGI_END_REQUEST, whose
# protocolStatus says FCGI_OVERLOADED (2), for example. The request is over then. HAProxy asks for
# FCGI_KEEP_CONN, so the application leaves the connection open, as the protocol wants.
#
# Seen: HAProxy answers only when `timeout server` has passed, and then with
#     HTTP/1.1 504 Gateway Time-out
# as if the application had been slow. `retry-on empty-response` and a second server do not help:
# nothing is sent there. With the usual timeout of 30 seconds and more, an application that sheds
# load makes its visitors wait as long as one that does not answer at all. If the application
# closes the connection after the record, in spite of FCGI_KEEP_CONN, HAProxy retries at once.
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
refused, seconds = [], 3


def application(listener):
    while True:
        client, _ = listener.accept()
        stream = client.makefile("rb")
        while header := stream.read(8):
            _, kind, request, length, padding, _ = struct.unpack("!BBHHBB", header)
            stream.read(length + padding)
            if kind == 5 and length == 0:  # the end of FCGI_STDIN
                client.sendall(
                    struct.pack("!BBHHBB", 1, 3, request, 8, 0, 0)
                    + struct.pack("!IB3x", 0, 2))
                refused.append(time.monotonic())
        stream.close()
        client.close()


with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
servers = []
for number in range(2):
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=application, args=(listener,), daemon=True).start()
    servers.append(f"server s{number} 127.0.0.1:{listener.getsockname()[1]} proto fcgi")

with open(f"{folder}/haproxy.cfg", "w") as file:
    file.write(f"""
defaults
    mode http
    timeout connect 5s
    timeout client 20s
    timeout server {seconds}s
    retries 1
    retry-on empty-response conn-failure
    option redispatch 1
fcgi-app application
    docroot /
frontend visitors
    bind 127.0.0.1:{port}
    default_backend fastcgi
backend fastcgi
    use-fcgi-app application
    {servers[0]}
    {servers[1]}
""")

haproxy = subprocess.Popen([f"{root}/usr/sbin/haproxy", "-db", "-f", f"{folder}/haproxy.cfg"])
try:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        status = client.recv(65536).split(b"\r\n")[0].decode()
        answered = time.monotonic()
finally:
    haproxy.terminate()
    haproxy.wait()
waited = answered - refused[0]
print(f"{status} {waited:.1f} s after the first of {len(refused)} refusals")
changed = (
    len(refused) != 1 or waited < seconds - 0.5 or not status.startswith("HTTP/1.1 504"))
sys.exit("this is not what was recorded" if changed else 0)
PYTHON
