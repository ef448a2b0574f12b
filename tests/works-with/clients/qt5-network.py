# Debian: libqt5network5 python3-pyqt5 python3
import os
import sys

from PyQt5.QtCore import QCoreApplication, QEventLoop, QUrl
from PyQt5.QtNetwork import QNetworkAccessManager, QNetworkRequest, QSslCertificate
from PyQt5.QtNetwork import QSslConfiguration

use, url, *more = sys.argv[1:]
application = QCoreApplication(sys.argv)
manager = QNetworkAccessManager()
configuration = QSslConfiguration.defaultConfiguration()
configuration.setCaCertificates(QSslCertificate.fromPath(os.environ["AUTHORITY"]))


def ask(url, start=None, body=None):
    request = QNetworkRequest(QUrl(url))
    request.setSslConfiguration(configuration)
    if start:
        request.setRawHeader(b"Range", f"bytes={start}-".encode())
    if body:
        request.setHeader(QNetworkRequest.ContentTypeHeader, "text/plain")
    reply = manager.post(request, body) if body else manager.get(request)
    loop = QEventLoop()
    reply.finished.connect(loop.quit)
    loop.exec()
    if reply.error():
        sys.exit(reply.errorString())
    sys.stdout.buffer.write(bytes(reply.readAll()))
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
        ask(url, body=open(more[0], "rb").read())
