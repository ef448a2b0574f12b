"""Clients that go on while the server refuses them: PORT FOLDER.

They have no certificate, and send a request after their end of the handshake without a look at what
has come, as TLS 1.3 allows. Each writes how its connection ended."""

import select
import socket
import ssl
import sys

port, folder = int(sys.argv[1]), sys.argv[2]
context = ssl.create_default_context(cafile=f"{folder}/localhost.pem")
context.minimum_version = ssl.TLSVersion.TLSv1_3


def ending():
    """The reason that the server gives."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                connection.sendall(outgoing.read())
                incoming.write(connection.recv(65536))
        connection.sendall(outgoing.read())
        # The server has decided when something of it has come.
        select.select([connection], [], [], 30)
        for _ in range(10):
            tls.write(b"x" * 1000)
            connection.sendall(outgoing.read())
        while True:
            try:
                return f"answered: {tls.read(100)!r}"
            except ssl.SSLWantReadError:
                piece = connection.recv(65536)
                if not piece:
                    return "closed without a word"
                incoming.write(piece)
            except ssl.SSLError as error:
                return error.reason


for _ in range(5):
    try:
        print(ending())
    except OSError as error:
        print(error)
