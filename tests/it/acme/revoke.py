"""Revokes a certificate with its own key, as its owner may (RFC 8555, 7.6): DIRECTORY FILE.

The file has the key (P-256) and the certificate. Openssl signs, so no library is needed."""

import base64
import json
import ssl
import subprocess
import sys
import urllib.request

directory, file = sys.argv[1:]
context = ssl._create_unverified_context()


def ask(url, method="GET", body=None):
    kind = {"Content-Type": "application/jose+json"}
    request = urllib.request.Request(url, body, kind, method=method)
    return urllib.request.urlopen(request, timeout=10, context=context)


def openssl(*arguments, given=None):
    return subprocess.run(["openssl", *arguments], input=given, check=True, capture_output=True).stdout


def text(octets):
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


def numbers(signature):
    """The two numbers of a signature: a sequence of two integers of less than 128 bytes."""
    at, found = 2, b""
    for _ in range(2):
        length = signature[at + 1]
        found += signature[at + 2 : at + 2 + length].lstrip(b"\0").rjust(32, b"\0")
        at += 2 + length
    return found


point = openssl("pkey", "-in", file, "-pubout", "-outform", "DER")[-64:]
key = {"kty": "EC", "crv": "P-256", "x": text(point[:32]), "y": text(point[32:])}
urls = json.load(ask(directory))
nonce = ask(urls["newNonce"], "HEAD").headers["Replay-Nonce"]
header = {"alg": "ES256", "jwk": key, "nonce": nonce, "url": urls["revokeCert"]}
certificate = openssl("x509", "-in", file, "-outform", "DER")
parts = [text(json.dumps(part).encode()) for part in (header, {"certificate": text(certificate)})]
signed = ".".join(parts).encode()
signature = numbers(openssl("dgst", "-sha256", "-sign", file, given=signed))
message = {"protected": parts[0], "payload": parts[1], "signature": text(signature)}
ask(urls["revokeCert"], "POST", json.dumps(message).encode())
