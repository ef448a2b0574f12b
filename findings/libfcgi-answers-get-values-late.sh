#!/usr/bin/env bash
# libfcgi keeps the answer to FCGI_GET_VALUES until another record arrives.
#
# Software: libfcgi 2.4.2 of Debian 12 (libfcgi0ldbl and libfcgi-dev 2.4.2-2+deb12u1), the C library
# that the FastCGI modules of Perl and Ruby and many programs in C use.
#
# FCGI_GET_VALUES lets a server ask, before it sends requests, whether an application takes several
# at once over a connection. An application answers with FCGI_GET_VALUES_RESULT.
#
# Seen: a server that asks and waits for the answer waits in vain; here it gives up after 3 seconds.
# An empty record of the same type ends the wait, and so does a request: the answer to the question
# goes out in front of what the next record brings about. FCGI_UNKNOWN_TYPE, the answer to another
# unknown management record, goes out at once. So only a server that asks and sends its first
# request together learns anything from libfcgi, and no server can ask in advance.
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

debian libfcgi0ldbl=2.4.2-2+deb12u1 libfcgi-dev=2.4.2-2+deb12u1
library=$root/usr/lib/x86_64-linux-gnu
export folder
cat >"$folder/hello.c" <<'C'
#include <fcgi_stdio.h>
int main(void)
{
    while (FCGI_Accept() >= 0)
        printf("Content-Type: text/plain\r\n\r\nhello");
    return 0;
}
C
cc -o "$folder/hello" -I "$root/usr/include" "$folder/hello.c" \
    -L "$library" -Wl,-rpath,"$library" -lfcgi
timeout 60 python3 - <<'PYTHON'
import os, socket, struct, subprocess, sys

folder = os.environ["folder"]
NAMES = {3: "END_REQUEST", 6: "STDOUT", 7: "STDERR", 10: "GET_VALUES_RESULT", 11: "UNKNOWN_TYPE"}


def record(kind, request, content=b""):
    return struct.pack("!BBHHBB", 1, kind, request, len(content), 0, 0) + content


def pairs(**values):
    """Names and values of less than 128 bytes, as FastCGI writes them."""
    return b"".join(
        bytes([len(name), len(value)]) + name.encode() + value.encode()
        for name, value in values.items())


def records(client, seconds=5):
    """The records that arrive until the peer closes or is silent for so long."""
    client.settimeout(seconds)
    stream, found = client.makefile("rb"), []
    try:
        while header := stream.read(8):
            _, kind, request, length, padding, _ = struct.unpack("!BBHHBB", header)
            found.append((NAMES.get(kind, kind), request, stream.read(length)))
            stream.read(padding)
        found.append("closed")
    except TimeoutError:
        found.append("silence")
    return found


listener = socket.create_server(("127.0.0.1", 0))
application = subprocess.Popen([f"{folder}/hello"], stdin=listener)


def exchange(*sent):
    with socket.create_connection(listener.getsockname(), timeout=10) as client:
        client.sendall(b"".join(sent))
        found = records(client, seconds=3)
    print(*found, sep="\n    ")
    return found


question = record(9, 0, pairs(FCGI_MPXS_CONNS=""))
request = (
    record(1, 1, b"\0\1\0\0\0\0\0\0")
    + record(4, 1, pairs(REQUEST_METHOD="GET")) + record(4, 1) + record(5, 1))
answer = ("GET_VALUES_RESULT", 0, pairs(FCGI_MPXS_CONNS="0"))
page = [
    ("STDOUT", 1, b"Content-Type: text/plain\r\n\r\nhello"), ("STDOUT", 1, b""),
    ("END_REQUEST", 1, bytes(8)), "closed"]
try:
    changed = (
        exchange(question) != ["silence"]
        or exchange(question, record(9, 0)) != [answer, "silence"]
        or exchange(question, request) != [answer, *page]
        or exchange(record(99, 0)) != [("UNKNOWN_TYPE", 0, b"c" + bytes(7)), "silence"])
finally:
    application.kill()
    application.wait()
sys.exit("this is not what was recorded" if changed else 0)
PYTHON
