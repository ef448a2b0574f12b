"""Visitors of the fleet, who look at each answer: whose page it is, of which release, and whether
the count in their session has lost or invented something."""

import collections
import http.client
import json
import ssl
import threading
import time

from network import NETWORK

BALANCER = f"{NETWORK}4"
# Longer than HAProxy tries.
PATIENCE = 90


class Tally:
    """What all visitors together have seen."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counts = collections.Counter()
        self.times = []
        self.notes = []
        self.longest_of = None
        self.longest = self.longest_without_session = 0.0

    def count(self, what, note=None):
        with self.lock:
            self.counts[what] += 1
            if note and len(self.notes) < 20:
                self.notes.append(f"{what}: {note}")

    def answered(self, kind, seconds, what):
        with self.lock:
            if seconds > self.longest:
                self.longest_of = f"{what} at {time.strftime('%H:%M:%S')}"
            self.counts["answered"] += 1
            self.counts[kind] += 1
            self.times.append(time.monotonic())
            self.longest = max(self.longest, seconds)

    def lacks_session(self, seconds):
        with self.lock:
            self.counts["without session"] += 1
            self.longest_without_session = max(self.longest_without_session, seconds)

    def rate(self, begin, end):
        """Answers a second between two points in time."""
        with self.lock:
            return sum(begin <= when < end for when in self.times) / (end - begin)


class Failed(Exception):
    """No answer, or none that can be used."""


class Visitor(threading.Thread):
    """One who comes through the balancer, and counts."""

    def __init__(self, name, mode, tally, releases):
        super().__init__(daemon=True)
        self.name, self.mode, self.tally, self.releases = name, mode, tally, releases
        self.host, self.cookie, self.connection = f"{mode}.example", None, None
        self.sent, self.kept, self.uncertain = 0, set(), set()
        self.over = threading.Event()

    # What one request does.

    def connect(self):
        return http.client.HTTPConnection(BALANCER, 80, timeout=PATIENCE)

    def exchange(self, method, path):
        connection, self.connection = self.connection or self.connect(), None
        headers = {"Host": self.host}
        if self.cookie:
            headers["Cookie"] = self.cookie
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        body = response.read()
        self.connection = connection
        return response, body

    def ask(self, method, path):
        """An answer of status 200, as JSON, and what is known of it. All else is counted."""
        repeatable, known = method != "POST", self.releases.known()
        begin = time.monotonic()
        try:
            response, body = self.exchange(method, path)
        except (OSError, http.client.HTTPException) as error:
            return self.fails(repeatable, f"{method} {path}: {error!r}")
        if response.status == 500 and b'"sessions":false' in body:
            self.tally.lacks_session(time.monotonic() - begin)
            raise Failed
        if response.status == 500 and b'"stored":false' in body:
            self.tally.count("not stored")
            raise Failed
        if response.status != 200:
            return self.fails(repeatable, f"{method} {path}: {response.status} {body[:80]!r}")
        self.tally.answered("repeatable" if repeatable else "once", time.monotonic() - begin,
                            f"{method} {path} of {response.headers.get('Cache-Status')} {body[:40]}")
        answer = json.loads(body)
        status = response.headers.get("Cache-Status", "")
        fresh = "fwd=" in status and "collapsed" not in status
        if not self.releases.may_be(answer, fresh, known):
            self.wrong(f"{path} has release {answer['release']} of {answer['node']}")
        if answer["host"] != self.host:
            self.wrong(f"{path} of {self.host} is that of {answer['host']}")
        self.heed_cookie(response)
        return answer

    def fails(self, repeatable, note):
        kind = "failed, repeatable" if repeatable else "failed, not repeatable"
        self.tally.count(kind, f"{time.strftime('%H:%M:%S')} {self.mode} {note}")
        raise Failed

    def wrong(self, note):
        self.tally.count("wrong", f"{self.name}: {note}")

    def heed_cookie(self, response):
        new = response.headers.get("Set-Cookie")
        if new:
            if self.cookie:
                self.tally.count("cookie replaced", self.name)
            self.cookie = new.split(";")[0]

    # What the visitor does.

    def run(self):
        turn = 0
        while not self.over.is_set():
            turn += 1
            for step in (self.login, self.adds_repeatable, self.reads_kept, self.adds_once,
                         self.reads):
                try:
                    step(turn)
                except Failed:
                    time.sleep(0.2)

    def login(self, _):
        if not self.cookie:
            self.is_mine(self.ask("PUT", f"/login/{self.name}"))

    def adds_repeatable(self, turn):
        self.adds("PUT", f"{self.name}-{turn}")

    def adds_once(self, turn):
        self.adds("POST", f"{self.name}-{turn}-once")

    def adds(self, method, key):
        if not self.cookie:
            return
        self.uncertain.add(key)
        answer = self.ask(method, f"/count/{key}")
        if not self.is_mine(answer):
            return
        # Each of `kept` has a smaller number, if none was lost.
        if not len(self.kept) < answer["number"] <= len(self.kept) + len(self.uncertain):
            self.wrong(f"{key} is number {answer['number']} after {len(self.kept)} increments, "
                       f"{len(self.uncertain) - 1} uncertain")
        self.uncertain.discard(key)
        self.kept.add(key)

    def reads_kept(self, turn):
        name = f"{self.mode}-{turn % 5}"
        self.is_page(self.ask("GET", f"/page/{name}"), name)

    def reads(self, turn):
        name = f"{self.name}-{turn}"
        self.is_page(self.ask("GET", f"/plain/{name}"), name)

    def is_page(self, answer, name):
        if answer.get("page") != name:
            self.wrong(f"the page {name} is {answer}")

    def is_mine(self, answer):
        if answer["visitor"] == self.name:
            return True
        if answer["visitor"] is None:
            self.tally.count("logged out", self.name)
            self.cookie = None
        else:
            self.wrong(f"sees the session of {answer['visitor']}")
        return False

    # The end.

    def stop(self):
        self.over.set()

    def settle(self):
        """Compares the session with what was sent: what was acknowledged has to be there."""
        self.join()
        if not self.cookie:
            return
        try:
            answer = self.ask("GET", "/me")
        except Failed:
            return
        if self.is_mine(answer):
            there = set(answer["keys"])
            if self.kept - there:
                self.tally.count("increments lost", f"{self.name}: {sorted(self.kept - there)}")
            if there - self.kept - self.uncertain or len(there) != answer["count"]:
                self.wrong(f"has increments that nobody has sent: {answer}")


class Reader(Visitor):
    """One who has no session."""

    def run(self):
        turn = 0
        while not self.over.is_set():
            turn += 1
            for step in (self.reads_kept, self.reads):
                try:
                    step(turn)
                except Failed:
                    time.sleep(0.2)


class TlsVisitor(Visitor):
    """One who comes over TLS, with a new connection each time, and resumes. Such a connection goes
    to one node, and HAProxy cannot repeat what it does not see: as browsers do, the visitor tries
    again what may be repeated, as often as HAProxy would."""

    def __init__(self, name, mode, tally, releases, root):
        super().__init__(name, mode, tally, releases)
        self.context = ssl.create_default_context(cafile=root)
        self.session = None

    def exchange(self, method, path):
        for left in (3, 2, 1, 0):
            try:
                return self.exchange_over_tls(method, path)
            except (OSError, http.client.HTTPException):
                if method == "POST" or left == 0:
                    raise
                self.tally.count("tried again over TLS")

    def exchange_over_tls(self, method, path):
        connection = Tls(self.host, self.context, self.session)
        headers = {"Host": self.host, "Connection": "close"}
        if self.cookie:
            headers["Cookie"] = self.cookie
        try:
            connection.request(method, path, headers=headers)
            self.tally.count("resumed" if connection.tls.session_reused else "full handshakes")
            response = connection.getresponse()
            # The tickets come before the response, and its end closes the connection.
            self.session = connection.tls.session or self.session
            return response, response.read()
        finally:
            connection.close()


class Tls(http.client.HTTPConnection):
    """A connection to the balancer, which begins where an earlier one has ended."""

    def __init__(self, host, context, session):
        super().__init__(BALANCER, 443, timeout=PATIENCE)
        self.name, self.context, self.session, self.tls = host, context, session, None

    def connect(self):
        super().connect()
        # The response takes the socket away from its connection.
        self.sock = self.tls = self.context.wrap_socket(
            self.sock, server_hostname=self.name, session=self.session)


class Releases:
    """Which release of the application each node may have at a moment."""

    def __init__(self, nodes):
        self.lock = threading.Lock()
        self.least = {node.name: 1 for node in nodes}
        self.newest = 1

    def begins(self):
        """There is a new one, which no node has to have yet."""
        with self.lock:
            self.newest += 1
            return self.newest

    def is_on(self, node):
        with self.lock:
            self.least[node.name] = self.newest

    def known(self):
        """What must hold of a request that begins now."""
        with self.lock:
            return dict(self.least)

    def may_be(self, answer, fresh, known):
        release = int(answer["release"])
        # A page of the content cache may be older: it is as old as its response allowed.
        return release <= self.newest and (not fresh or release >= known[answer["node"]])


class Crowd:
    """Many visitors at once, in each mode, and some over TLS."""

    def __init__(self, fleet, step, releases, each, over_tls=1):
        self.tally = Tally()
        # Those without a session, by mode.
        self.readers = {mode: Tally() for mode in fleet.MODES}
        root = str(fleet.authority.folder / "root.pem")
        self.visitors = []
        for mode in fleet.MODES:
            self.visitors += [Visitor(f"{step}-{mode}-{n}", mode, self.tally, releases)
                              for n in range(each)]
            self.visitors += [TlsVisitor(f"{step}-{mode}-tls-{n}", mode, self.tally, releases, root)
                              for n in range(over_tls)]
            self.visitors.append(Reader(f"{step}-{mode}-reader", mode, self.readers[mode], releases))

    def __enter__(self):
        for visitor in self.visitors:
            visitor.start()
        return self

    def __exit__(self, *_):
        for visitor in self.visitors:
            visitor.stop()
        for visitor in self.visitors:
            visitor.settle()
