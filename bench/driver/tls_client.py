"""Clients that only connect: handshakes by the number, and connections that stay open."""

import contextlib
import socket
import ssl

TIMEOUT = 20
ROOM = 65_536

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, GOAWAY = 0, 1, 4, 7
END_STREAM, ACK, END_HEADERS = 0x1, 0x1, 0x4


class Refused(OSError):
    """The server did something else than answering."""


def context(*protocols: str) -> ssl.SSLContext:
    """A client that believes any certificate, and offers these protocols."""
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    found.check_hostname = False
    found.verify_mode = ssl.CERT_NONE
    if protocols:
        found.set_alpn_protocols(list(protocols))
    return found


HTTP1, HTTP2 = context(), context("h2")


def connect(port: int) -> socket.socket:
    """A TCP connection that does not wait for more to send."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def session(port: int) -> ssl.SSLSession:
    """A session that can be resumed. The server's tickets are read with its answer."""
    request = b"GET /1k.html HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    with HTTP1.wrap_socket(connect(port)) as secured:
        secured.sendall(request)
        while secured.recv(ROOM):
            pass
        return secured.session


class Secured:
    """One connection whose TLS can be forgotten while the connection stays open: thousands of them
    take a client no memory beside their sockets."""

    def __init__(
        self, port: int, tls: ssl.SSLContext, resumed: ssl.SSLSession | None = None
    ) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = tls.wrap_bio(self.incoming, self.outgoing, session=resumed)
        self.socket = connect(port)
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.flush()
                self.receive()
        self.flush()

    def flush(self) -> None:
        """Sends what TLS has to send."""
        if self.outgoing.pending:
            self.socket.sendall(self.outgoing.read())

    def receive(self) -> None:
        """Waits for something from the server."""
        come = self.socket.recv(ROOM)
        if not come:
            raise Refused("the server has closed the connection")
        self.incoming.write(come)

    def send(self, data: bytes) -> None:
        """Sends application data."""
        self.tls.write(data)
        self.flush()

    def read(self, length: int) -> bytes:
        """Exactly so much application data."""
        found = b""
        while len(found) < length:
            try:
                found += self.tls.read(length - len(found))
            except ssl.SSLWantReadError:
                self.receive()
        return found


def handshakes(port: int, number: int, resumed: ssl.SSLSession | None = None) -> None:
    """Makes so many handshakes, one after the other, and nothing else: the client says goodbye, and
    the next one begins when the server has closed its side."""
    for _ in range(number):
        client = Secured(port, HTTP1, resumed)
        if client.tls.session_reused != (resumed is not None):
            raise Refused(f"port {port}: a session was resumed, or not, against the client's wish")
        with contextlib.suppress(ssl.SSLWantReadError):
            client.tls.unwrap()
        client.flush()
        # A server may reset a connection whose last bytes it has not read.
        with contextlib.suppress(ConnectionError):
            client.socket.shutdown(socket.SHUT_WR)
            while client.socket.recv(ROOM):
                pass
        client.socket.close()


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame of HTTP/2."""
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags])
    return head + stream.to_bytes(4, "big") + payload


def head(port: int, path: str) -> bytes:
    """The fields of a GET: two of the static table, two literals (RFC 7541)."""
    authority = f"127.0.0.1:{port}".encode()
    literals = b"\x04" + bytes([len(path)]) + path.encode()
    literals += b"\x01" + bytes([len(authority)]) + authority
    return b"\x82\x87" + literals


def idle_http2(port: int, path: str = "/1k.html") -> tuple[socket.socket, int]:
    """A connection over HTTP/2 that has had one answer, and the length of its body."""
    client = Secured(port, HTTP2)
    if client.tls.selected_alpn_protocol() != "h2":
        raise Refused("the server does not speak HTTP/2")
    request = frame(HEADERS, END_STREAM | END_HEADERS, 1, head(port, path))
    client.send(PREFACE + frame(SETTINGS, 0, 0) + request)
    length, has_settings, is_done = 0, False, False
    while not (is_done and has_settings):
        start = client.read(9)
        size, kind, flags = int.from_bytes(start[:3], "big"), start[3], start[4]
        payload = client.read(size)
        if kind == GOAWAY:
            raise Refused(f"the server goes away: {payload!r}")
        if kind == SETTINGS and not flags & ACK:
            client.send(frame(SETTINGS, ACK, 0))
            has_settings = True
        length += len(payload) if kind == DATA else 0
        is_done |= kind in (DATA, HEADERS) and bool(flags & END_STREAM)
    return client.socket, length


def idle_http1(port: int, path: str = "/1k.html") -> tuple[socket.socket, int]:
    """A connection over HTTP/1 with TLS that has had one answer, and the length of its body."""
    client = Secured(port, HTTP1)
    client.send(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    fields = b""
    while not fields.endswith(b"\r\n\r\n"):
        fields += client.read(1)
    lines = dict(line.lower().split(b": ", 1) for line in fields.split(b"\r\n")[1:] if line)
    length = int(lines[b"content-length"])
    client.read(length)
    return client.socket, length
