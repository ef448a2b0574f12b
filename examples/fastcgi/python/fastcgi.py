"""Serves a WSGI application over FastCGI, with nothing but the standard library: a process, and a thread for each
connection.

    fastcgi.serve(application)                    # on descriptor 0, where who starts it puts a listening socket
    fastcgi.serve(application, "/tmp/app.sock")   # on a socket of its own
"""

import io
import os
import socket
import socketserver
import struct
import sys

BEGIN, ABORT, END, PARAMS, STDIN, STDOUT, STDERR = range(1, 8)
GET_VALUES, GET_VALUES_RESULT, UNKNOWN_TYPE = range(9, 12)
HEADER = struct.Struct("!BBHHBx")
KEEP_CONN = 1
MOST = 65528


class Errors(io.TextIOBase):
    """What the application complains about, as FCGI_STDERR."""

    def __init__(self, send):
        self.send = send

    def write(self, text):
        self.send(STDERR, text.encode())
        return len(text)


class Connection(socketserver.StreamRequestHandler):
    """One request after the other, until the web server has enough."""

    def handle(self):
        keep = True
        while keep and (begin := self.record()):
            kind, number, content = begin
            if kind == GET_VALUES:
                self.write(GET_VALUES_RESULT, 0, pair(b"FCGI_MPXS_CONNS", b"0"))
            elif number == 0:
                self.write(UNKNOWN_TYPE, 0, bytes([kind]) + bytes(7))
            elif kind == BEGIN:
                keep = content[2] & KEEP_CONN
                environ = {name: value for name, value in pairs(self.stream(PARAMS))}
                body = self.stream(STDIN)
                self.answer(number, environ, body)
                self.write(END, number, bytes(8))

    def answer(self, number, environ, body):
        def send(kind, content):
            for at in range(0, len(content), MOST):
                self.write(kind, number, content[at : at + MOST])

        head = []

        def start_response(status, headers, exc_info=None):
            head[:] = [
                f"Status: {status}\r\n",
                *(f"{name}: {value}\r\n" for name, value in headers),
                "\r\n",
            ]

        environ |= {
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": environ.get("REQUEST_SCHEME", "http"),
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": Errors(send),
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }
        for piece in self.server.application(environ, start_response):
            send(STDOUT, "".join(head).encode("latin-1") + piece)
            head.clear()
        send(STDOUT, "".join(head).encode("latin-1"))
        self.write(STDOUT, number, b"")

    def stream(self, wanted):
        """All of a stream, up to its empty record."""
        content = b""
        while record := self.record():
            if record[0] == wanted:
                if not record[2]:
                    break
                content += record[2]
        return content

    def record(self):
        header = self.rfile.read(HEADER.size)
        if len(header) < HEADER.size:
            return None
        _, kind, number, length, padding = HEADER.unpack(header)
        return kind, number, self.rfile.read(length + padding)[:length]

    def write(self, kind, number, content):
        self.wfile.write(HEADER.pack(1, kind, number, len(content), 0) + content)


def pair(name, value):
    return bytes([len(name), len(value)]) + name + value


def pairs(content):
    at = 0
    while at < len(content):
        lengths = []
        for _ in range(2):
            if content[at] < 128:
                lengths.append(content[at])
                at += 1
            else:
                lengths.append(struct.unpack_from("!I", content, at)[0] & 0x7FFFFFFF)
                at += 4
        name, value = lengths
        yield (
            content[at : at + name].decode("latin-1"),
            content[at + name : at + name + value].decode("latin-1"),
        )
        at += name + value


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128


def serve(application, path=None):
    with listening(path) as server:
        server.application = application
        server.serve_forever()


def listening(path):
    if path is None:
        server = Server(None, Connection, bind_and_activate=False)
        server.socket.close()
        server.socket = socket.socket(fileno=0)
        return server
    os.umask(0)  # whoever runs the web server may connect
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    return Server(path, Connection)


if __name__ == "__main__":
    sys.exit("this is a module; run app.py")
