"""Visitors of the Symfony example: some log in with a name, some never do, and each knows what it
must never see.

A name is a mark that occurs nowhere else. Every visitor has one and sends it wherever a request
has room for it, logged in or not; whatever mark comes back has to be its own.
"""

import http.client
import random
import re
import secrets
from collections import Counter
from collections.abc import Callable
from urllib.parse import urlencode

MARK = re.compile(r"visitor-[0-9a-f]{16}")
TIMEOUT = 30


class Wrong(Exception):
    """An answer that this visitor should not have got."""


def new_name() -> str:
    """A name that nobody has."""
    return f"visitor-{secrets.token_hex(8)}"


def check_marks(name: str, answer: str) -> None:
    """Somebody else's mark in an answer is what all of this is about."""
    foreign = set(MARK.findall(answer)) - {name}
    if foreign:
        raise Wrong(f"LEAK: {name} sees {', '.join(sorted(foreign))}")


class Visitor:
    """One browser: a connection, cookies, a name."""

    def __init__(self, port: int, logs_in: bool) -> None:
        self.port = port
        self.logs_in = logs_in
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        self.seen: Counter[str] = Counter()
        self.forget()

    def forget(self) -> None:
        """Becomes another person."""
        self.name = new_name()
        self.session: str | None = None
        self.is_logged_in = False
        self.visits = 0

    def ask(
        self, method: str, path: str, expected: int, fields: dict[str, str] | None = None
    ) -> str:
        """One request; the body of the answer, which has been looked through."""
        headers = {"User-Agent": self.name}
        body = None
        if fields is not None:
            body = urlencode(fields)
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        if self.session:
            headers["Cookie"] = f"PHPSESSID={self.session}"
        self.connection.request(method, f"{path}?{urlencode({'from': self.name})}", body, headers)
        response = self.connection.getresponse()
        text = response.read().decode()
        self.seen[path] += 1
        check_marks(self.name, f"{response.headers}\n{text}")
        if response.status != expected:
            raise Wrong(f"{method} {path}: {response.status} instead of {expected}: {text[:200]}")
        self.take_cookie(response.getheader("Set-Cookie"), may_begin=path in ("/login", "/session"))
        return text

    def take_cookie(self, cookie: str | None, may_begin: bool) -> None:
        """A session that nobody has begun would be somebody else's."""
        given = re.search(r"PHPSESSID=([^;]+)", cookie or "")
        if given and not self.session and not may_begin:
            raise Wrong(f"LEAK: {self.name} gets a session without asking: {cookie}")
        if given:
            self.session = given[1]

    # What a visitor does; each says what the answer must be.

    def log_in(self) -> None:
        self.ask("POST", "/login", 204, {"name": self.name})
        self.is_logged_in = True

    def hello(self) -> None:
        wanted = self.name if self.is_logged_in else "stranger"
        if f"Hello, {wanted}!" not in self.ask("GET", "/hello", 200):
            raise Wrong(f"{self.name} is not greeted as {wanted}")

    def page(self) -> None:
        if self.ask("GET", "/page", 200).count("<li ") != 60:
            raise Wrong("a page without its rows")

    def json(self) -> None:
        if '"success"' not in self.ask("GET", "/empty", 200):
            raise Wrong("an empty answer that is none")

    def form(self) -> None:
        if self.name not in self.ask("POST", "/form", 200, {"name": self.name}):
            raise Wrong("a form that comes back without its field")

    def count(self) -> None:
        answer = self.ask("GET", "/session", 200)
        self.visits += 1
        if f'"visits":{self.visits},' not in answer:
            raise Wrong(f"{answer} instead of {self.visits} visits")

    def fail(self) -> None:
        self.ask("GET", "/error", 500)

    def act(self, chance: random.Random) -> None:
        """Something, by its weight."""
        if self.logs_in and not self.is_logged_in:
            return self.log_in()
        todo: list[Callable[[], None]] = [
            self.hello,
            self.page,
            self.json,
            self.form,
            self.count,
            self.fail,
            self.forget,
        ]
        if not self.logs_in:
            # Whoever has no session is offered none: counting would begin one.
            todo.remove(self.count)
        weights = {
            self.hello: 40,
            self.page: 15,
            self.json: 25,
            self.form: 10,
            self.count: 8,
            self.fail: 1,
            self.forget: 1,
        }
        chance.choices(todo, [weights[one] for one in todo])[0]()
