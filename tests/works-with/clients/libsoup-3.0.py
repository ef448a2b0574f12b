# Debian: gir1.2-soup-3.0 glib-networking python3-gi python3
import os
import sys

import gi

gi.require_version("Soup", "3.0")
from gi.repository import Gio, GLib, Soup

use, url, *more = sys.argv[1:]
session = Soup.Session()
session.set_tls_database(Gio.TlsFileDatabase.new(os.environ["AUTHORITY"]))


def ask(url, method="GET", body=None, start=None):
    message = Soup.Message.new(method, url)
    if start:
        message.get_request_headers().set_range(start, -1)
    if body:
        message.set_request_body_from_bytes("text/plain", GLib.Bytes.new(body))
    sys.stdout.buffer.write(session.send_and_read(message).get_data())
    sys.stdout.flush()


match use:
    case "page" | "compressed":
        ask(url)
    case "kept" | "later":
        ask(url)
        if use == "later":
            sys.stdin.readline()
        ask(more[0])
    case "range":
        part = open(more[0], "rb").read()
        sys.stdout.buffer.write(part)
        ask(url, start=len(part))
    case "upload":
        ask(url, "POST", open(more[0], "rb").read())
