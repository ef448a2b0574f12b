"""The servers that are compared: for each, the configuration it gets and the commands that start
it.

All of them get the same PHP settings and extensions, the same number of PHP processes where they
let us choose, no access log (but for the peer that is there to show its cost), and keep-alive
without an early end. They run as they are packaged by Debian.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from string import Template

from .process import Server, Stat
from .sites import REPO, Beside, Site

FPM = "php-fpm8.2"
APACHE_MODULE = "/usr/lib/apache2/modules/libphp8.2.so"
EXTENSIONS = "/etc/php/8.2/fpm/conf.d"


@dataclass
class Choice:
    """What the command line lets one choose about the peers."""

    children: int
    most_connections: int
    """As many clients as will ever be connected at once."""
    tokamak: Path
    tokamak_workers: str
    without: tuple[str, ...] = ()
    """Extensions of PHP that are installed and not loaded."""

    def extensions(self) -> list[Path]:
        """The files that load extensions, or hold their settings: `20-curl.ini`."""
        files = sorted(Path(EXTENSIONS).glob("*.ini"))
        return [file for file in files if extension(file) not in self.without]


def extension(file: Path) -> str:
    """Whose file it is."""
    return file.stem.partition("-")[2]


@dataclass
class Place:
    """Where one peer serves one site: its directory for configuration and logs, its copy of the
    site, its port."""

    directory: Path
    site: Site
    files: Path
    port: int
    choice: Choice
    beside: Beside | None = None
    """What runs beside the peers for this site."""

    @property
    def root(self) -> Path:
        """The document root."""
        return (self.files / self.site.root).resolve()

    @property
    def worker(self) -> Path:
        """The worker script."""
        return self.files / self.site.worker

    @property
    def most_connections(self) -> int:
        """As many clients as will ever be connected to this site at once."""
        return self.site.bound(self.choice.most_connections)

    @property
    def control(self) -> Path:
        """Where `tokamak status` and `tokamak reload` find the server."""
        return self.directory / "control"

    @property
    def admin(self) -> Path:
        """Where a Tokamak says how many event loops serve."""
        return self.directory / "admin"

    def write(self, name: str, text: str, **values: object) -> Path:
        """Writes a configuration file, its $names filled in."""
        known = {"dir": self.directory, "root": self.root, "port": self.port}
        path = self.directory / name
        path.write_text(Template(text).substitute(known | values))
        return path


@dataclass(frozen=True)
class Peer:
    """One server in one configuration."""

    name: str
    what: str
    commands: Callable[[Place], list[list[str]]]
    """Writes the configuration, gives the commands to start in this order."""
    is_worker: Callable[[Stat, dict[int, Stat]], bool]
    """Whether this process (the others by number) is one of those that run scripts."""
    renew: Callable[[Place, Server], None] | None = None
    """Has its image made again. The first one was made while the application wrote its own
    cache, and opcache does not keep files that are younger than two seconds; whoever deploys an
    application has its cache made before. Nothing: it has no image."""
    tells_roll_backs: bool = False
    """Whether `tokamak status` finds it and says what its roll-backs take."""
    fits: Callable[[Site], bool] = lambda site: site.language == "php"
    """Whether it can serve this site."""
    missing: Callable[[], str | None] = lambda: None
    """What it needs and this machine has not; nothing if it can be started."""
    ends_connections: bool = False
    """Whether its answers end with the connection, which wrk counts as an error of each of them."""


PHP_INI = """\
; The same for every peer.
memory_limit = 128M
output_buffering = 4096
expose_php = Off
display_errors = Off
log_errors = On
error_reporting = E_ALL & ~E_DEPRECATED & ~E_STRICT
variables_order = GPCS
request_order = GP
register_argc_argv = Off
zend.exception_ignore_args = On
opcache.enable = 1
opcache.memory_consumption = 128
; One for each peer, so that they share no compiled file.
sys_temp_dir = $dir/tmp
"""

NGINX = """\
$user
worker_processes $processes;
daemon off;
pid $dir/$server.pid;
error_log $dir/$server.log warn;
events { worker_connections 4096; }
http {
    include /etc/nginx/mime.types;
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_timeout 75s;
    keepalive_requests 1000000;
    client_body_temp_path $dir/tmp/body;
    fastcgi_temp_path $dir/tmp/fastcgi;
    proxy_temp_path $dir/tmp/proxy;
    uwsgi_temp_path $dir/tmp/uwsgi;
    scgi_temp_path $dir/tmp/scgi;
    upstream php {
        server unix:$dir/$socket;
        $keepalive
    }
    server {
        listen 127.0.0.1:$port backlog=4096;
        # What the others take from the request.
        server_name 127.0.0.1;
        root $root;
        $routing
        location = /index.php {
            include /etc/nginx/fastcgi_params;
            # Debian's parameters leave the port out.
            fastcgi_param HTTP_HOST $$http_host;
            fastcgi_param SCRIPT_FILENAME $$document_root$$fastcgi_script_name;
            fastcgi_pass php;
            $keep_connection
        }
    }
}
"""

FPM_CONF = """\
[global]
error_log = $dir/fpm.log
daemonize = no
[www]
$user
listen = $dir/php.sock
listen.mode = 0666
listen.backlog = 4096
pm = static
pm.max_children = $children
clear_env = no
catch_workers_output = yes
"""

APACHE = """\
ServerRoot $dir
ServerName localhost
PidFile $dir/apache.pid
ErrorLog $dir/apache.log
LogLevel warn
Listen 127.0.0.1:$port
ListenBacklog 4096
$user
LoadModule mpm_prefork_module /usr/lib/apache2/modules/mod_mpm_prefork.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule dir_module /usr/lib/apache2/modules/mod_dir.so
LoadModule mime_module /usr/lib/apache2/modules/mod_mime.so
LoadModule php_module $module
TypesConfig /etc/mime.types
ServerLimit $processes
StartServers $processes
MinSpareServers $processes
MaxSpareServers $processes
MaxRequestWorkers $processes
MaxConnectionsPerChild 0
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 75
DocumentRoot $root
<Directory $root>
    Require all granted
    AllowOverride None
    Options FollowSymLinks
    $routing
</Directory>
<FilesMatch "\\.php$$">
    SetHandler application/x-httpd-php
</FilesMatch>
"""


def as_root(line: str) -> str:
    """The line that drops privileges, which only a server started by root may have."""
    return line if os.geteuid() == 0 else ""


def needs(*programs: str) -> Callable[[], str | None]:
    """Which of the programs is not to be found on this machine."""

    def missing() -> str | None:
        lacking = [program for program in programs if shutil.which(program) is None]
        return f"{', '.join(lacking)} is not on PATH" if lacking else None

    return missing


def php_fpm(place: Place, children: int, fpm: tuple[str, ...] = (FPM,)) -> list[str]:
    """A static pool of php-fpm, or a program that takes its place."""
    user = as_root("user = www-data\ngroup = www-data")
    config = place.write("fpm.conf", FPM_CONF, user=user, children=children)
    return [*fpm, "--nodaemonize", "--fpm-config", f"{config}"]


def nginx_fpm(
    place: Place, children: int, keep: int, fpm: tuple[str, ...] = (FPM,)
) -> list[list[str]]:
    """nginx in front of a pool of php-fpm; `keep` idle connections between them in each nginx
    process (0: none)."""
    processes = os.cpu_count() or 1
    place.write(
        "nginx.conf",
        NGINX,
        server="nginx",
        socket="php.sock",
        user=as_root("user www-data;"),
        processes=processes,
        keepalive=f"keepalive {keep}; keepalive_requests 1000000;" if keep else "",
        keep_connection="fastcgi_keep_conn on;" if keep else "",
        routing="location / { try_files $uri /index.php$is_args$args; }"
        if place.site.front_controller
        else "",
    )
    return [
        php_fpm(place, children, fpm),
        [
            "nginx",
            "-p",
            f"{place.directory}",
            "-c",
            f"{place.directory}/nginx.conf",
            "-e",
            f"{place.directory}/nginx.log",
        ],
    ]


def nginx_fpm_plain(place: Place) -> list[list[str]]:
    """As most installations are: a new connection to php-fpm for every request."""
    return nginx_fpm(place, place.choice.children, 0)


def nginx_fpm_keepalive(place: Place) -> list[list[str]]:
    """With kept connections. A php-fpm child serves one connection until that ends, so an idle
    connection holds a child. With fewer children than connections, a request on a new one waits
    until somebody gives up an old one, which under load nobody does: those clients starve. So
    each nginx process may hold as many as there are clients, and there is a child for each."""
    keep = place.most_connections
    return nginx_fpm(place, keep * (os.cpu_count() or 1), keep)


POOL = """\
[[pool]]
name = "www"
root = "$root"
mode = "sealed"
"""


def nginx_tokamak_fpm(place: Place, keep: int = 0) -> list[list[str]]:
    """This server in place of php-fpm, with the same configuration and as many workers."""
    return nginx_fpm(place, place.choice.children, keep, (f"{place.choice.tokamak}", "fpm"))


def nginx_tokamak_fpm_keepalive(place: Place) -> list[list[str]]:
    """With kept connections, as many as there are clients: they need no worker each."""
    return nginx_tokamak_fpm(place, place.most_connections)


def nginx_tokamak_fpm_sealed(place: Place) -> list[list[str]]:
    """The same in sealed mode, which stands in a file that php-fpm has not."""
    pools = place.write(
        "pools.toml", POOL + place.site.sealed["tokamak-sealed"], worker=place.worker
    )
    fpm, nginx = nginx_tokamak_fpm(place)
    return [[*fpm, "--pools", f"{pools}"], nginx]


def apache_modphp(place: Place) -> list[list[str]]:
    """PHP inside Apache's processes, one for each client connection."""
    place.write(
        "apache.conf",
        APACHE,
        user=as_root("User www-data\nGroup www-data"),
        module=APACHE_MODULE,
        # One for each client connection, and some for connections that are just closing.
        processes=place.most_connections + 32,
        routing="FallbackResource /index.php" if place.site.front_controller else "",
    )
    return [["apache2", "-DFOREGROUND", "-f", f"{place.directory}/apache.conf"]]


SEALED = """\
[[site]]
root = "$root"
mode = "sealed"
"""


def tokamak(
    place: Place, mode: str, access_log: bool = False, workers: str | None = None
) -> list[list[str]]:
    """This server, as `tokamak serve` starts it."""
    command = [f"{place.choice.tokamak}", "serve", f"{place.root}"]
    command += [
        "--listen",
        f"127.0.0.1:{place.port}",
        "--mode",
        mode,
        "--workers",
        workers or place.choice.tokamak_workers,
    ]
    command += [
        "--access-log",
        f"{place.directory}/access.log" if access_log else "off",
        "--control",
        f"{place.control}",
    ]
    if mode in ("worker", "async"):
        command += ["--worker", f"{place.worker}"]
    return [command]


def sealed(name: str, what: str) -> Peer:
    """This server in sealed mode, as the site's configuration for this peer says."""

    def commands(place: Place) -> list[list[str]]:
        text = SEALED + place.site.sealed[name]
        config = place.write("tokamak.toml", text, worker=place.worker, repo=REPO)
        return [tokamak(place, "sealed")[0] + ["--config", f"{config}"]]

    return Peer(
        name,
        what,
        commands,
        is_child_named("tokamak-php"),
        reload,
        tells_roll_backs=True,
        fits=lambda site: name in site.sealed,
    )


CACHE_AGE = 2.1
"""Seconds after which opcache keeps a file."""


def reload(place: Place, server: Server) -> None:
    """By the command for it."""
    time.sleep(CACHE_AGE)
    command = [f"{place.choice.tokamak}", "reload", "--control", f"{place.control}"]
    subprocess.run(command, check=True, capture_output=True, timeout=90)


def reload_fpm(place: Place, server: Server) -> None:
    """By php-fpm's signal: it is done when the processes from before are gone."""

    def workers() -> set[int]:
        return {stat.pid for stat in server.tree() if stat.name == "tokamak-php"}

    time.sleep(CACHE_AGE)
    before = workers()
    os.kill(server.roots[0].pid, signal.SIGUSR2)
    deadline = time.monotonic() + 90
    while before & workers():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{place.directory}: the reload does not end")
        time.sleep(0.1)


def is_child_named(name: str) -> Callable[[Stat, dict[int, Stat]], bool]:
    """A worker is a process of this name whose parent has it too: the parent only forks them."""

    def test(stat: Stat, others: dict[int, Stat]) -> bool:
        parent = others.get(stat.parent)
        return stat.name == name and parent is not None and parent.name == name

    return test


PEERS = {
    peer.name: peer
    for peer in (
        Peer("nginx-fpm", "nginx + php-fpm", nginx_fpm_plain, is_child_named(FPM)),
        Peer(
            "nginx-fpm-keepalive",
            "nginx + php-fpm, connections kept",
            nginx_fpm_keepalive,
            is_child_named(FPM),
        ),
        Peer(
            "nginx-tokamak-fpm",
            "nginx + tokamak fpm",
            nginx_tokamak_fpm,
            is_child_named("tokamak-php"),
        ),
        Peer(
            "nginx-tokamak-fpm-keepalive",
            "nginx + tokamak fpm, connections kept",
            nginx_tokamak_fpm_keepalive,
            is_child_named("tokamak-php"),
        ),
        Peer(
            "nginx-tokamak-fpm-sealed",
            "nginx + tokamak fpm, sealed mode",
            nginx_tokamak_fpm_sealed,
            is_child_named("tokamak-php"),
            reload_fpm,
            fits=lambda site: bool(site.worker),
        ),
        Peer("apache-modphp", "Apache prefork + mod_php", apache_modphp, is_child_named("apache2")),
        Peer(
            "tokamak-classic",
            "Tokamak, classic mode",
            lambda place: tokamak(place, "classic"),
            is_child_named("tokamak-php"),
        ),
        Peer(
            "tokamak-classic-log",
            "Tokamak, classic mode, access log on",
            lambda place: tokamak(place, "classic", access_log=True),
            is_child_named("tokamak-php"),
        ),
        Peer(
            "tokamak-worker",
            "Tokamak, worker mode",
            lambda place: tokamak(place, "worker"),
            is_child_named("tokamak-php"),
            fits=lambda site: bool(site.worker),
        ),
        # Its workers wait for nobody, so that more than processors would only be in the way.
        Peer(
            "tokamak-async",
            "Tokamak, async mode",
            lambda place: tokamak(place, "async", workers=f"{os.cpu_count() or 1}"),
            is_child_named("tokamak-php"),
            fits=lambda site: site.name in ("empty", "services", "sql"),
        ),
        sealed("tokamak-sealed", "Tokamak, sealed mode"),
        sealed("tokamak-sealed-plugins", "Tokamak, sealed mode, a shallower image"),
        sealed("tokamak-sealed-core", "Tokamak, sealed mode, the shallowest image"),
    )
}


# What systemd gives a service that runs as root: some of it names the machine, here it is made up.
SERVICE = {
    "LANG": "C.UTF-8",
    "HOME": "/root",
    "LOGNAME": "root",
    "USER": "root",
    "SHELL": "/bin/sh",
    "INVOCATION_ID": "0123456789abcdef0123456789abcdef",
    "JOURNAL_STREAM": "8:123456",
    "SYSTEMD_EXEC_PID": "1234",
}


def environment(place: Place) -> dict[str, str]:
    """The environment of every peer: what a service manager gives, so that $_SERVER is equally
    large, and PHP's settings."""
    return SERVICE | {
        "PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
        "PHPRC": f"{place.directory}",
        "PHP_INI_SCAN_DIR": f"{place.directory}/conf.d",
        # Apache's own way of saying where things are; its configuration file is refused without
        # them in some builds.
        "APACHE_RUN_DIR": f"{place.directory}",
        "TOKAMAK_ADMIN": f"unix:{place.admin}",
    }


def start(peer: Peer, place: Place) -> tuple[Server, list[list[str]]]:
    """Writes the configuration and starts the peer; it need not be ready yet."""
    temporary = place.directory / "tmp"
    temporary.mkdir(exist_ok=True)
    temporary.chmod(0o1777)
    place.write("php.ini", PHP_INI)
    loaded = place.directory / "conf.d"
    # Its directory may be that of one which has ended.
    if not loaded.exists():
        loaded.mkdir()
        for file in place.choice.extensions():
            (loaded / file.name).symlink_to(file.resolve())
    commands = peer.commands(place)
    server = Server()
    try:
        for number, command in enumerate(commands):
            server.start(command, environment(place), place.directory / f"output-{number}.log")
    except BaseException:
        server.stop()
        raise
    return server, commands


def shown(path: str) -> str:
    """A path or command for the record: paths inside the repository without the place it is
    checked out at."""
    return path.replace(f"{REPO}/", "")
