"""Clients that ask once and stay: PORT PID SCHEME, which is http, https, or h2 (HTTP/2 without
TLS). For each hundred of them it writes a line with the bytes by which the memory of the process
has grown for each."""

import re
import socket
import ssl
import sys
import time

port, pid, scheme = sys.argv[1:]
EACH = 100
REQUEST = b"GET /hello.php HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * 4000 + b"\r\n\r\n"
FRAMES = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    b"\0\0\0\4\0\0\0\0\0"  # SETTINGS: the defaults
    b"\0\0\x19\1\5\0\0\0\1"  # HEADERS of stream 1, without anything after them
    b"\x82\x86\x04\x0a/hello.php\x01\x09localhost"
)
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE


def memory():
    """What the process has for itself. Not all of it: its program is read in piece by piece."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return 1024 * int(re.search(r"^Anonymous: +(\d+)", file.read(), re.M)[1])


def client():
    plain = socket.create_connection(("127.0.0.1", int(port)), 30)
    return context.wrap_socket(plain, server_hostname="localhost") if scheme == "https" else plain


def ask(connection):
    connection.sendall(FRAMES if scheme == "h2" else REQUEST)
    answer = b""
    while b"Hello from PHP" not in answer:
        piece = connection.recv(65536)
        assert piece, answer
        answer += piece


kept = []
while len(kept) < 900:
    before = memory()
    clients = [client() for _ in range(EACH)]
    for one in clients:
        ask(one)
    kept += clients
    print((memory() - before) // EACH, flush=True)
    time.sleep(0.5)
