#!/usr/bin/env bash
# The IMAP server of GNU Mailutils ends one of its lines with a line feed alone: the answer to
# AUTHENTICATE that says that the client is logged in.
#
# Software: mailutils-imap4d 1:3.15-4 of Debian 12.
#
# RFC 3501 (2.2) has every line end with CR LF. A client logs in twice, by LOGIN and by AUTHENTICATE
# PLAIN (RFC 4616), with the right password and with a wrong one.
#
# Seen: the answers to LOGIN, and the refusals of AUTHENTICATE, end with CR LF; the one that says
# that AUTHENTICATE has succeeded ends with LF. A client that waits for CR LF waits there, but with a
# wrong password it does not: PHP's imap_open(), with c-client 2007f, is one.
set -euo pipefail

folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$folder"' EXIT

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

debian mailutils-imap4d=1:3.15-4
libraries=$(find "$root" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
mkdir "$folder/passwords" "$folder/home"
echo "reader:$(openssl passwd -1 secret):$(id -u):$(id -g):reader:$folder/home:/bin/sh" >"$folder/passwords/example"
cat >"$folder/conf" <<CONF
auth {
  authorization virtdomain;
  authentication generic;
}
virtdomain {
  passwd-dir $folder/passwords;
}
mode daemon;
foreground yes;
logging { syslog no; }
tcp-wrappers { enable no; }
server 127.0.0.1:$port { }
CONF
LD_LIBRARY_PATH=$libraries timeout 60 "$root/usr/sbin/imap4d" --config-file="$folder/conf" >"$folder/imap4d.log" 2>&1 &
server=$!

cat >"$folder/client.py" <<'PYTHON'
import base64
import re
import socket
import sys
import time

port = int(sys.argv[1])


def connect():
    for _ in range(100):
        try:
            return socket.create_connection(("127.0.0.1", port), 10)
        except OSError:
            time.sleep(0.1)
    sys.exit("imap4d does not start")


def read_until(client, pattern):
    """Bytes until a line of this kind has come with its end, whichever that is."""
    got = b""
    while not re.search(pattern, got, re.MULTILINE):
        got += client.recv(4096)
    return got


def last_line_end(got):
    return "CR LF" if got.endswith(b"\r\n") else "LF" if got.endswith(b"\n") else "nothing"


for password in (b"secret", b"wrong"):
    for way in ("LOGIN", "AUTHENTICATE PLAIN"):
        client = connect()
        read_until(client, rb"^\* OK.*\n")
        if way == "LOGIN":
            client.sendall(b"a LOGIN reader@example " + password + b"\r\n")
        else:
            client.sendall(b"a AUTHENTICATE PLAIN\r\n")
            read_until(client, rb"^\+.*\n")
            client.sendall(base64.b64encode(b"\0reader@example\0" + password) + b"\r\n")
        got = read_until(client, rb"^a (OK|NO|BAD).*\n")
        word = re.search(rb"^a (OK|NO|BAD)", got, re.MULTILINE)[1].decode()
        print(f"{way}, {password.decode()} password: {word}, ends with {last_line_end(got)}")
        client.close()
PYTHON
timeout 60 python3 "$folder/client.py" "$port" | tee "$folder/found"
cat >"$folder/expected" <<'TEXT'
LOGIN, secret password: OK, ends with CR LF
AUTHENTICATE PLAIN, secret password: OK, ends with LF
LOGIN, wrong password: NO, ends with CR LF
AUTHENTICATE PLAIN, wrong password: NO, ends with CR LF
TEXT
cmp -s "$folder/found" "$folder/expected" || { echo "this is not what was recorded" >&2; cat "$folder/imap4d.log" >&2; exit 1; }
