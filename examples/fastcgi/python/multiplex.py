"""The same application, with several requests at once on each connection: a thread for each
request.

python3 multiplex.py /tmp/app.sock
"""

import sys
import threading

import app
import fastcgi


class Aborted(Exception):
    """The web server does not want the response any more."""


class Connection(fastcgi.Connection):
    """Reads the records of all requests; each is answered when it is complete."""

    def handle(self):
        self.lock = threading.Lock()
        self.aborted = set()
        begun, keep = {}, True
        while record := self.record():
            kind, number, content = record
            if kind == fastcgi.GET_VALUES:
                self.write(fastcgi.GET_VALUES_RESULT, 0, fastcgi.pair(b"FCGI_MPXS_CONNS", b"1"))
            elif number == 0:
                self.write(fastcgi.UNKNOWN_TYPE, 0, bytes([kind]) + bytes(7))
            elif kind == fastcgi.BEGIN:
                keep = content[2] & fastcgi.KEEP_CONN
                begun[number] = {fastcgi.PARAMS: b"", fastcgi.STDIN: b""}
            elif kind == fastcgi.ABORT:
                self.aborted.add(number)
                if begun.pop(number, None):
                    self.end(number)
            elif content and number in begun:
                begun[number][kind] += content
            elif kind == fastcgi.STDIN and (request := begun.pop(number, None)):
                thread = threading.Thread(target=self.serve, args=(number, request), daemon=True)
                thread.start()
                if not keep:
                    thread.join()
                    return

    def serve(self, number, request):
        try:
            self.answer(
                number, dict(fastcgi.pairs(request[fastcgi.PARAMS])), request[fastcgi.STDIN]
            )
        except Aborted:
            pass
        self.end(number)

    def end(self, number):
        self.aborted.discard(number)
        self.write(fastcgi.END, number, bytes(8))

    def write(self, kind, number, content):
        if number in self.aborted:
            raise Aborted
        with self.lock:
            super().write(kind, number, content)


if __name__ == "__main__":
    fastcgi.Connection = Connection
    fastcgi.serve(app.application, *sys.argv[1:])
