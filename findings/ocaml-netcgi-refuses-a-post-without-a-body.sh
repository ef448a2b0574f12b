#!/usr/bin/env bash
# Ocamlnet's netcgi2 answers 400 to a FastCGI POST that has no body, without asking the application.
#
# Software: libocamlnet-ocaml-dev 4.1.9-1+b1 of Debian 12, compiled by ocaml-nox 4.13.1-4.
#
# RFC 3875, section 4.1.2: a server sets CONTENT_LENGTH if and only if there is a body, and section
# 4.1.3: CONTENT_TYPE only if the client sent one. A POST without a body has neither. The
# application prints the method, and asks for nothing that was sent.
#
# Seen: the library wants both. It also refuses a length of 0 without a type, and a body whose
# length FastCGI's records alone say. Its page of the error says `Cache-control: max-age=3600`.
#     POST: Status: 400, Cache-control: max-age=3600
#     POST CONTENT_LENGTH=0: Status: 400, Cache-control: max-age=3600
#     POST of a form, and no length: Status: 400, Cache-control: max-age=3600
#     POST of a form, CONTENT_LENGTH=0: POST
#     GET: GET
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

mkdir -p packages/partial
timeout 300 apt-get install -qq -y --download-only --no-install-recommends -o "Dir::Cache::archives=$folder/packages" \
    -o APT::Sandbox::User= libocamlnet-ocaml-dev=4.1.9-1+b1 ocaml-findlib ocaml-nox=4.13.1-4 >log 2>&1 ||
    { echo 'there is no libocamlnet-ocaml-dev of version 4.1.9-1+b1 to be had' >&2; exit 2; }
for file in packages/*.deb; do dpkg -x "$file" .; done

cat >app.ml <<'OCAML'
let () =
  Netcgi_fcgi.run
    ~output_type:(`Direct "")
    ~sockaddr:(Unix.ADDR_UNIX Sys.argv.(1))
    (fun cgi ->
      cgi#set_header ~content_type:"text/plain" ();
      cgi#out_channel#output_string cgi#environment#cgi_request_method;
      cgi#out_channel#commit_work ())
OCAML
lib=$folder/usr/lib/ocaml
printf 'path="%s"\ndestdir="%s"\nstdlib="%s"\nldconf="%s/ld.conf"\n' "$lib" "$lib" "$lib" "$lib" >findlib.conf
LD_LIBRARY_PATH=$(find . -name '*.so.*' -printf "$folder/%h\n" | sort -u | paste -s -d :)
export LD_LIBRARY_PATH
PATH=$folder/usr/bin:$PATH OCAMLLIB=$lib OCAMLFIND_CONF=$folder/findlib.conf \
    timeout 120 ocamlfind ocamlopt -package netcgi2 -linkpkg -o app app.ml 2>log ||
    { cat log >&2; echo 'the application does not compile here' >&2; exit 2; }

timeout 60 python3 - <<'PYTHON'
import socket, struct, subprocess, sys, time


def record(kind, content=b""):
    return struct.pack("!BBHHBB", 1, kind, 1, len(content), 0, 0) + content


FORM = {"CONTENT_TYPE": "application/x-www-form-urlencoded"}


def pair(name, value):
    return bytes([len(name), len(value)]) + name.encode() + value.encode()


def ask(title, method, given, body=b""):
    parameters = {
        "REQUEST_METHOD": method, "SCRIPT_NAME": "", "PATH_INFO": "/", "QUERY_STRING": "",
        "SERVER_NAME": "localhost", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1",
        "GATEWAY_INTERFACE": "CGI/1.1", "REMOTE_ADDR": "127.0.0.1", **given}
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect("socket")
        client.sendall(
            record(1, struct.pack("!HB5x", 1, 0))  # a responder
            + record(4, b"".join(pair(*item) for item in parameters.items())) + record(4)
            + (record(5, body) if body else b"") + record(5))
        stream, text = client.makefile("rb"), b""
        while header := stream.read(8):
            _, kind, _, length, padding, _ = struct.unpack("!BBHHBB", header)
            content = stream.read(length)
            stream.read(padding)
            text += content if kind == 6 else b""
            if kind == 3:  # the end of the request
                break
    head, _, page = text.decode().partition("\r\n\r\n")
    said = [line for line in head.split("\r\n") if line.startswith(("Status", "Cache-control: max"))]
    return f"{title}: {', '.join(said) or page}"


application = subprocess.Popen(["./app", "socket"])
try:
    for _ in range(200):
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect("socket")
            break
        except OSError:
            time.sleep(0.05)
    found = [
        ask("POST", "POST", {}),
        ask("POST CONTENT_LENGTH=0", "POST", {"CONTENT_LENGTH": "0"}),
        ask("POST of a form, and no length", "POST", FORM, b"a=b"),
        ask("POST of a form, CONTENT_LENGTH=0", "POST", {"CONTENT_LENGTH": "0", **FORM}),
        ask("GET", "GET", {}),
    ]
finally:
    application.terminate()
    application.wait()
print("\n".join(found))
refused = "Status: 400, Cache-control: max-age=3600"
sys.exit("not as recorded" if found != [
    f"POST: {refused}",
    f"POST CONTENT_LENGTH=0: {refused}",
    f"POST of a form, and no length: {refused}",
    "POST of a form, CONTENT_LENGTH=0: POST",
    "GET: GET"] else 0)
PYTHON
