# Debian: gir1.2-soup-2.4 glib-networking python3-gi python3
import os
import sys

import gi

gi.require_version("Soup", "2.4")
from gi.repository import Gio, GLib, Soup

use, url, *more = sys.argv[1:]
session = Soup.Session(ssl_ca_file=os.environ["AUTHORITY"])
session.add_feature(Soup.ContentDecoder())


def ask(url, method="GET", body=None, start=None):
    message = Soup.Message.new(method, url)
    if start:
        message.request_headers.set_range(start, -1)
    if body:
        message.set_request("text/plain", Soup.MemoryUse.COPY, body)
    status = session.send_message(message)
    if status >= 300 or status < 200:
        sys.exit(message.reason_phrase)
    sys.stdout.buffer.write(message.response_body.flatten().get_data())
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
