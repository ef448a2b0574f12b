#!/usr/bin/env bash
# flup loses the FastCGI parameters that lie across two records.
#
# Software: flup 1.0.3 of PyPI, the FastCGI server for WSGI applications in Python.
#
# FCGI_PARAMS is a stream: the FastCGI specification lets a server cut it into records anywhere,
# also inside a name or value. A server has to when the parameters are longer than 65,535 bytes,
# and may because its buffer ends there.
#
# Seen: flup reads each record by itself. If a record ends inside a value, the application gets the
# value without its rest, and what follows in the next record is read as if a new name began there,
# so all later parameters are lost. flup makes up those that WSGI needs and says "missing FastCGI
# param" in STDERR. In the run below a request for port 443 of www.example.test and page=2 becomes
# one for port 80 of "www." without a query, and the application runs.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export folder
python3 -m venv "$folder/python"
"$folder/python/bin/pip" --quiet install flup==1.0.3 >"$folder/log" 2>&1 ||
    { echo "flup 1.0.3 could not be installed" >&2; exit 2; }
cat >"$folder/application.py" <<'PYTHON'
from flup.server.fcgi import WSGIServer


def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    names = "REQUEST_METHOD", "SERVER_NAME", "SERVER_PORT", "QUERY_STRING"
    return [" ".join(environ.get(name, "-") for name in names).encode()]


WSGIServer(application).run()
PYTHON
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


parameters = pairs(
    SCRIPT_NAME="/", REQUEST_METHOD="POST", SERVER_NAME="www.example.test", SERVER_PORT="443",
    SERVER_PROTOCOL="HTTP/1.1", QUERY_STRING="page=2")
listener = socket.create_server(("127.0.0.1", 0))
application = subprocess.Popen(
    [f"{folder}/python/bin/python", f"{folder}/application.py"], stdin=listener)


def exchange(*parts):
    with socket.create_connection(listener.getsockname(), timeout=10) as client:
        client.sendall(
            record(1, 1, b"\0\1\0\0\0\0\0\0")
            + b"".join(record(4, 1, part) for part in parts) + record(4, 1) + record(5, 1))
        found = records(client)
    output = b"".join(each[2] for each in found[:-1] if each[0] == "STDOUT")
    complaint = b"".join(each[2] for each in found[:-1] if each[0] == "STDERR").decode()
    body = output.partition(b"\r\n\r\n")[2].decode()
    print(f"{len(parts)} records: {body}")
    print(complaint, end="")
    return body, complaint.count("missing FastCGI param")


try:
    cut = parameters.index(b"example")
    changed = (
        exchange(parameters) != ("POST www.example.test 443 page=2", 0)
        or exchange(parameters[:cut], parameters[cut:]) != ("POST www. 80 ", 2))
finally:
    application.kill()
    application.wait()
sys.exit("this is not what was recorded" if changed else 0)
PYTHON
