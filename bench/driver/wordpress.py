"""WordPress as Debian packages it, in a folder of its own: installed by its web installer, as a
visitor would."""

import os
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlencode

from .database import PASSWORD, MariaDb
from .process import Server, free_port

TITLE = "Plasma"
START_SECONDS = 30
ANSWERS = {
    "weblog_title": TITLE,
    "user_name": "editor",
    "admin_password": "correct horse 4 battery!",
    "admin_password2": "correct horse 4 battery!",
    "pw_weak": "on",
    "admin_email": "editor@example.org",
    "blog_public": "1",
    "language": "",
}


def is_front_page(body: bytes) -> bool:
    """Whether this is the whole front page with the post that a new blog has."""
    return (
        f"<title>{TITLE}".encode() in body
        and b">Hello world!</a>" in body
        and body.rstrip().endswith(b"</html>")
    )


def install(files: Path, directory: Path, config: Path) -> MariaDb:
    """Makes the copied files a blog with a database, which is the caller's to stop."""
    database = MariaDb(directory, "blog")
    settings = (
        config.read_text()
        .replace("@DATABASE@", f"localhost:{database.socket}")
        .replace("@PASSWORD@", PASSWORD)
    )
    # No chores after a page: nothing but the page is to be measured.
    settings = settings.replace("<?php", "<?php\ndefine('DISABLE_WP_CRON', true);", 1)
    (files / "wp-config.php").write_text(settings)
    try:
        fill_in(files, directory / "installation.log")
    except BaseException:
        database.stop()
        raise
    return database


def fill_in(files: Path, log: Path) -> None:
    """Answers the installer, under PHP's own server, so that no peer has met the blog before the
    others."""
    port = free_port()
    server = Server()
    server.start(
        ["php8.2", "-S", f"127.0.0.1:{port}", "-t", f"{files}"], {"PATH": os.environ["PATH"]}, log
    )
    url = f"http://127.0.0.1:{port}/wp-admin/install.php"
    try:
        wait_for(url)
        with urllib.request.urlopen(
            f"{url}?step=2", urlencode(ANSWERS).encode(), timeout=60
        ) as response:
            page = response.read().decode()
        if "<h1>Success!</h1>" not in page:
            raise RuntimeError(f"WordPress was not installed:\n{page[:2000]}")
    finally:
        server.stop()


def wait_for(url: str) -> None:
    """Until the server is up."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            urllib.request.urlopen(url, timeout=30).close()
            return
        except urllib.error.HTTPError:
            raise
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
