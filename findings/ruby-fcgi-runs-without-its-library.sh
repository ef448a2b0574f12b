#!/usr/bin/env bash
# Debian's FastCGI library for Ruby cannot load its own part in C, and runs a substitute in Ruby,
# which closes each connection that it is asked to keep.
#
# Software: ruby-fcgi 0.9.2.1-3+b2 and ruby3.1 3.1.7+really3.1.2-0+deb12u1 of Debian 12.
#
# `require "fcgi"` loads fcgi.so, and if that fails an implementation in Ruby, in the same file. A
# server answers two requests, each on a connection of its own, with FCGI_KEEP_CONN set (§5.1 of the
# specification: the application then does not close the connection).
#
# Seen: fcgi.so, which the package has for Ruby 3.1, needs the function rb_secure, which Ruby has no
# more. So the substitute runs, says that the gem does not contain the shared library, and closes
# the connection behind each response.
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

debian ruby-fcgi=0.9.2.1-3+b2 ruby3.1=3.1.7+really3.1.2-0+deb12u1 libruby3.1=3.1.7+really3.1.2-0+deb12u1
libraries=$root/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries
export RUBYLIB=$root/usr/lib/ruby/vendor_ruby:$libraries/ruby/vendor_ruby/3.1.0:$root/usr/lib/ruby/3.1.0:$libraries/ruby/3.1.0
ruby=$root/usr/bin/ruby3.1

cat >"$folder/app.rb" <<'RUBY'
require "fcgi"

FCGI.each_request do |request|
  request.out.print "Content-Type: text/plain\r\n\r\nhere"
  request.finish
end
RUBY
cat >"$folder/ask.py" <<'PYTHON'
import socket
import struct
import subprocess
import sys

ruby, app = sys.argv[1:]
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(8)
server = subprocess.Popen([ruby, "--disable-gems", app], stdin=listener, stderr=subprocess.PIPE)


def record(kind, content=b""):
    return struct.pack(">BBHHBx", 1, kind, 1, len(content), 0) + content


try:
    for number in (1, 2):
        client = socket.create_connection(listener.getsockname(), 10)
        client.settimeout(5)
        begin = record(1, struct.pack(">HB5x", 1, 1))  # a responder, FCGI_KEEP_CONN
        client.sendall(begin + record(4, b"\x0e\x03REQUEST_METHODGET") + record(4) + record(5))
        got, kinds, is_closed = b"", [], False
        while 3 not in kinds:
            got += client.recv(4096)
            kinds, rest = [], got
            while len(rest) >= 8:
                length, padding = struct.unpack(">HB", rest[4:7])
                if len(rest) < 8 + length + padding:
                    break
                kinds.append(rest[1])
                rest = rest[8 + length + padding:]
        try:
            is_closed = client.recv(1) == b""
        except TimeoutError:
            pass
        print(f"request {number}: {'answered' if b'here' in got else got}, then", "closed" if is_closed else "kept")
        client.close()
finally:
    server.kill()
    print(server.communicate()[1].decode().splitlines()[0])
PYTHON
{
    "$ruby" --disable-gems -e 'begin; require "fcgi.so"; rescue LoadError => e; puts e.message[/undefined symbol: \w+/]; end'
    timeout 60 python3 "$folder/ask.py" "$ruby" "$folder/app.rb"
} 2>&1 | tee "$folder/found"
cat >"$folder/expected" <<'TEXT'
undefined symbol: rb_secure
request 1: answered, then closed
request 2: answered, then closed
Your FCGI gem does not contain the FCGI shared library, running pure ruby instead
TEXT
cmp -s "$folder/found" "$folder/expected" || { echo "this is not what was recorded" >&2; exit 1; }
