"""Other ways to serve PHP, and other languages, for orientation.

What Debian has no package of takes part where it is found on the machine; the record says what is
missing. Servers for which one writes a program of one's own serve the empty endpoint; those that
wait for others without a thread for each also ask them.
"""

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from .peers import FPM, Peer, Place, as_root, is_child_named, needs, php_fpm
from .services import Services
from .sites import REPO, Site

PROGRAMS = REPO / "bench/sites/others"
PHP = "php8.2"
PYTHON = "/usr/bin/python3"
"""Debian's, which finds Debian's packages."""

CADDY = """\
{
    admin off
    auto_https off
    $global
}
http://127.0.0.1:$port {
    bind 127.0.0.1
    root * $root
    $php
}
"""

LIGHTTPD = """\
server.modules = ("$module")
server.document-root = "$root"
server.bind = "127.0.0.1"
server.port = $port
$user
server.max-worker = $processes
server.max-connections = 4096
server.listen-backlog = 4096
server.max-keep-alive-requests = 1000000000
server.max-keep-alive-idle = 75
server.errorlog = "$dir/lighttpd.log"
$handler
"""

ROADRUNNER = """\
version: "3"
server:
  command: "$command"
  relay: pipes
http:
  address: 127.0.0.1:$port
  pool:
    num_workers: $processes
logs:
  level: error
"""


def processes() -> int:
    """All have as many processes as the machine has processors."""
    return os.cpu_count() or 1


def asked(place: Place) -> list[str]:
    """Whom a program of this site asks: the HTTP service and the socket of Redis."""
    services = place.beside if isinstance(place.beside, Services) else None
    return [services.http, f"{services.redis}"] if services else ["127.0.0.1:1", "none"]


def is_empty(site: Site) -> bool:
    """Whether it is the empty endpoint."""
    return site.name == "empty"


def answers_or_asks(site: Site) -> bool:
    """Whether a program that can wait for others is able to serve it."""
    return site.name in ("empty", "services") or site.language == "lua"


def caddy(place: Place, program: str, options: str, php: str) -> list[str]:
    """Caddy, or FrankenPHP, which is one with PHP inside. It keeps its own files below its home."""
    values = {"global": options, "php": php}
    config = place.write("Caddyfile", CADDY, **values)
    home = [f"{name}={place.directory}" for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME")]
    return ["env", *home, program, "run", "--config", f"{config}", "--adapter", "caddyfile"]


def caddy_fpm(place: Place) -> list[list[str]]:
    """Caddy in front of the same php-fpm as nginx."""
    php = f"php_fastcgi unix/{place.directory}/php.sock"
    return [php_fpm(place, place.choice.children), caddy(place, "caddy", "", php)]


def lighttpd(place: Place, module: str, handler: str) -> list[str]:
    """lighttpd with one module, which answers."""
    user = as_root('server.username = "www-data"\nserver.groupname = "www-data"')
    log = place.directory / "lighttpd.log"
    # It opens its log when it is nobody in particular already.
    log.touch()
    log.chmod(0o666)
    values = {"user": user, "processes": processes(), "module": module, "handler": handler}
    config = place.write("lighttpd.conf", LIGHTTPD, **values)
    return ["lighttpd", "-D", "-f", f"{config}"]


def lighttpd_fpm(place: Place) -> list[list[str]]:
    """lighttpd in front of the same php-fpm; it connects anew for each request."""
    handler = f'fastcgi.server = (".php" => (("socket" => "{place.directory}/php.sock")))'
    return [php_fpm(place, place.choice.children), lighttpd(place, "mod_fastcgi", handler)]


def frankenphp(place: Place) -> list[list[str]]:
    """FrankenPHP without worker scripts."""
    return [caddy(place, "frankenphp", "frankenphp", "php_server")]


def php_server(place: Place) -> list[list[str]]:
    """PHP's built-in server: made for development, so it ends each connection."""
    workers = f"PHP_CLI_SERVER_WORKERS={place.choice.children}"
    address = f"127.0.0.1:{place.port}"
    return [["env", workers, PHP, "-q", "-S", address, "-t", f"{place.root}"]]


def node(place: Place, count: int) -> list[list[str]]:
    """Node's own HTTP server; several processes share the port, and each accepts for itself."""
    program = ["node", f"{PROGRAMS}/server.mjs", f"{place.port}", f"{count}", *asked(place)]
    return [["env", "NODE_CLUSTER_SCHED_POLICY=none", *program]]


def python(place: Place) -> list[list[str]]:
    """uvicorn, with the loop and the parser in C that Debian has for it."""
    command = [PYTHON, "-m", "uvicorn", "--app-dir", f"{PROGRAMS}", "server:application"]
    command += ["--host", "127.0.0.1", "--port", f"{place.port}", "--workers", f"{processes()}"]
    return [[*command, "--backlog", "4096", "--no-access-log", "--log-level", "warning"]]


def no_uvicorn() -> str | None:
    """Whether Python's packages are there."""
    lacking = "python3-uvicorn, python3-uvloop and python3-httptools are not installed"
    return runs([PYTHON, "-c", "import uvicorn, uvloop, httptools"], lacking)


def swoole(place: Place) -> list[list[str]]:
    """Swoole's HTTP server."""
    program = f"{PROGRAMS}/swoole.php"
    return [[*SWOOLE, program, f"{place.port}", f"{processes()}"]]


SWOOLE = [PHP, "-d", "extension=swoole"]


def no_swoole() -> str | None:
    """Whether PHP has the extension."""
    return runs([*SWOOLE, "--ri", "swoole"], f"{PHP} has no extension swoole")


def autoloader() -> Path | None:
    """Where `composer global require spiral/roadrunner-http` puts its packages."""
    home = Path.home()
    places = [Path(os.environ.get("COMPOSER_HOME", home / ".composer")), home / ".config/composer"]
    found = [
        place / "vendor" for place in places if (place / "vendor/spiral/roadrunner-http").exists()
    ]
    return found[0] / "autoload.php" if found else None


def roadrunner(place: Place) -> list[list[str]]:
    """RoadRunner, with the least that its PHP workers can do."""
    command = f"{PHP} {PROGRAMS}/roadrunner.php {autoloader()}"
    config = place.write("rr.yaml", ROADRUNNER, command=command, processes=processes())
    return [["rr", "serve", "-c", f"{config}"]]


def no_roadrunner() -> str | None:
    """Whether both of its halves are there."""
    if needs("rr")():
        return needs("rr")()
    return None if autoloader() else "`composer global require spiral/roadrunner-http` was not run"


def runs(command: list[str], otherwise: str) -> str | None:
    """Nothing if a command succeeds, else why that matters."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=20)
    except FileNotFoundError:
        return f"{command[0]} is not installed"
    return None if done.returncode == 0 else otherwise


def peer(
    name: str,
    what: str,
    commands: Callable[[Place], list[list[str]]],
    worker: str,
    missing: Callable[[], str | None],
    fits: Callable[[Site], bool] = lambda site: site.language == "php",
) -> Peer:
    """A server whose processes of this name do the work."""
    return Peer(name, what, commands, is_child_named(worker), fits=fits, missing=missing)


PEERS = {
    found.name: found
    for found in (
        peer(
            "lighttpd-fpm",
            "lighttpd + php-fpm",
            lighttpd_fpm,
            FPM,
            needs("lighttpd", FPM),
            lambda site: site.language == "php" and not site.front_controller,
        ),
        peer("caddy-fpm", "Caddy + php-fpm", caddy_fpm, FPM, needs("caddy", FPM)),
        replace(
            peer("php-server", "PHP's built-in server", php_server, PHP, needs(PHP)),
            ends_connections=True,
        ),
        peer("frankenphp", "FrankenPHP", frankenphp, "frankenphp", needs("frankenphp")),
        peer("roadrunner", "RoadRunner", roadrunner, PHP, no_roadrunner, is_empty),
        peer("swoole", "Swoole", swoole, PHP, no_swoole, is_empty),
        peer(
            "node",
            "Node, a process for each processor",
            lambda place: node(place, processes()),
            "node",
            needs("node"),
            answers_or_asks,
        ),
        peer(
            "node-one",
            "Node, one process",
            lambda place: node(place, 1),
            "node",
            needs("node"),
            is_empty,
        ),
        peer("python", "Python's uvicorn", python, "python3", no_uvicorn, is_empty),
    )
}
