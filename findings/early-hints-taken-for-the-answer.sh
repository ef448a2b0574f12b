#!/usr/bin/env bash
# Three clients of Debian 12 take a 103 for the answer, and report an empty page with status 103.
#
# Software: LWP of Perl (libwww-perl 6.68-1 with libnet-http-perl 6.22-1), LuaSocket (lua-socket
# 3.1.0-1+b1, lua5.1 5.1.5-9) and the http package 2.9.8 of Tcl (tcl8.6 and libtcl8.6
# 8.6.13+dfsg-2).
#
# RFC 9110, section 15.2: a client must be able to parse interim responses before the final one, and
# may ignore them. All three skip a 100, and they speak HTTP/1.1, so any 1xx may come.
#
# Seen: sent `103 Early Hints` and then a 200, they stop at the first:
#   - LWP: "103 Early Hints", which is neither a success nor an error for its two questions;
#   - LuaSocket: code 103 and an empty body, and no error either;
#   - Tcl: status "ok", code "HTTP/1.1 103 Early Hints" and no data.
# A server may send early hints only to clients that are known to understand them: HTTP/1.1 alone is
# not enough.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

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

debian libwww-perl=6.68-1 libnet-http-perl=6.22-1 lua-socket=3.1.0-1+b1 lua5.1=5.1.5-9 \
    tcl8.6=8.6.13+dfsg-2 libtcl8.6=8.6.13+dfsg-2
library=$root/usr/lib/x86_64-linux-gnu
export PERL5LIB=$root/usr/share/perl5:$library/perl5/5.36
PERL5LIB=$PERL5LIB:$root/usr/share/perl/5.36:$library/perl/5.36
export LUA_PATH="$root/usr/share/lua/5.1/?.lua" LUA_CPATH="$library/lua/5.1/?.so"
export TCL_LIBRARY=$root/usr/share/tcltk/tcl8.6 TCL8_6_TM_PATH=$root/usr/share/tcltk/tcl8.6/tcl8
export LD_LIBRARY_PATH=$library
export root folder
cat >"$folder/get.tcl" <<'TCL'
package require http 2.9.8
set token [http::geturl [lindex $argv 0] -timeout 5000]
puts "[http::status $token], [http::code $token], '[http::data $token]'"
TCL
cat >"$folder/get.lua" <<'LUA'
local body, code = require("socket.http").request(arg[1])
print(code .. ", '" .. body .. "'")
LUA
cat >"$folder/get.pl" <<'PERL'
use LWP::UserAgent;
my $answer = LWP::UserAgent->new(timeout => 5)->get($ARGV[0]);
print join(", ", $answer->status_line, $answer->is_success ? "success" : "no success",
    $answer->is_error ? "error" : "no error", "'" . $answer->content . "'"), "\n";
PERL
timeout 120 python3 - <<'PYTHON'
import os, socket, subprocess, sys, threading

root, folder = os.environ["root"], os.environ["folder"]
PAGE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n"
    b"Connection: close\r\n\r\npage")
INTERIM = {
    "/100": b"HTTP/1.1 100 Continue\r\n\r\n",
    "/103": b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n",
}


def serve(listener):
    while True:
        client, _ = listener.accept()
        head = b""
        while b"\r\n\r\n" not in head and (more := client.recv(65536)):
            head += more
        if head:
            client.sendall(INTERIM[head.split()[1].decode()] + PAGE)
        client.close()


listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=serve, args=(listener,), daemon=True).start()
CLIENTS = {
    "LWP": ["perl", f"{folder}/get.pl"],
    "LuaSocket": [f"{root}/usr/bin/lua5.1", f"{folder}/get.lua"],
    "Tcl": [f"{root}/usr/bin/tclsh8.6", f"{folder}/get.tcl"],
}
EXPECTED = {
    "LWP": ("200 OK, success, no error, 'page'", "103 Early Hints, no success, no error, ''"),
    "LuaSocket": ("200, 'page'", "103, ''"),
    "Tcl": ("ok, HTTP/1.1 200 OK, 'page'", "ok, HTTP/1.1 103 Early Hints, ''"),
}
changed = False
for name, command in CLIENTS.items():
    for path, expected in zip(INTERIM, EXPECTED[name]):
        url = f"http://127.0.0.1:{listener.getsockname()[1]}{path}"
        run = subprocess.run([*command, url], capture_output=True, text=True, timeout=30)
        found = run.stdout.strip()
        print(f"{name} {path}: {found}")
        changed |= found != expected
sys.exit("this is not what was recorded" if changed else 0)
PYTHON
