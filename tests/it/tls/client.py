"""A client made of Python's own libraries: PORT FOLDER VERSION CERTIFICATE.

Three requests, each on a connection of its own, which takes the session of the one before along. It
writes what each of them was. CERTIFICATE is the name of a client in the folder, or empty."""

import http.client
import json
import socket
import ssl
import sys

port, folder, version, certificate = sys.argv[1:]
context = ssl.create_default_context(cafile=f"{folder}/localhost.pem")
context.minimum_version = context.maximum_version = getattr(ssl.TLSVersion, version)
if certificate:
    context.load_cert_chain(f"{folder}/{certificate}.pem", f"{folder}/{certificate}.key")


class Connection(http.client.HTTPSConnection):
    def connect(self):
        plain = socket.create_connection(("127.0.0.1", int(port)), 30)
        self.sock = context.wrap_socket(plain, server_hostname="localhost", session=session)


session = None
for _ in range(3):
    connection = Connection("localhost", int(port))
    try:
        # Two on each: the tickets of TLS 1.3 come after the handshake.
        for _ in range(2):
            connection.request("GET", "/server.php")
            response = connection.getresponse()
            told = json.load(response)
        resumed = connection.sock.session_reused
        session = connection.sock.session
    except (ssl.SSLError, ConnectionError) as error:
        print("refused", getattr(error, "reason", None) or type(error).__name__)
        break
    verified, name = (told.get(f"SSL_CLIENT_{what}", "-") for what in ("VERIFY", "S_DN"))
    print(told["SSL_PROTOCOL"], response.status, f"resumed={resumed}", verified, name)
    connection.close()
