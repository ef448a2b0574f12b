"""The servers of bench/edge: the same files with the same certificate over TLS, by as many
processes or threads as there are processors where the server has a setting for that."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from . import peers, tls_client
from .contest import CannotRun
from .process import Server, free_port
from .sites import REPO
from .stage import Stage

READY_SECONDS = 20
SIZES = {"1k": 1000, "10k": 10_000}
"""Bytes of the static files, by their names."""
CHILDREN = 8
"""PHP processes of each server."""

NGINX = """\
$user
worker_processes $processes;
daemon off;
pid $dir/nginx.pid;
error_log $dir/nginx.log warn;
events { worker_connections 15000; }
http {
    include /etc/nginx/mime.types;
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_timeout 600s;
    keepalive_requests 1000000000;
    client_body_temp_path $dir/tmp/body;
    fastcgi_temp_path $dir/tmp/fastcgi;
    proxy_temp_path $dir/tmp/proxy;
    uwsgi_temp_path $dir/tmp/uwsgi;
    scgi_temp_path $dir/tmp/scgi;
    server {
        listen 127.0.0.1:$port ssl http2 backlog=4096;
        ssl_certificate $dir/certificate.pem;
        ssl_certificate_key $dir/key.pem;
        ssl_protocols TLSv1.2 TLSv1.3;
        root $root;
        location = /index.php {
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME $$document_root$$fastcgi_script_name;
            fastcgi_pass unix:$dir/php.sock;
        }
    }
}
"""

FPM = """\
[global]
error_log = $dir/fpm.log
daemonize = no
[www]
$pool_user
listen = $dir/php.sock
listen.mode = 0666
listen.backlog = 4096
pm = static
pm.max_children = $children
"""

H2O = """\
$h2o_user
num-threads: $processes
max-connections: 15000
error-log: $dir/h2o.log
http2-idle-timeout: 600
http1-request-timeout: 600
listen:
  host: 127.0.0.1
  port: $port
  ssl:
    certificate-file: $dir/certificate.pem
    key-file: $dir/key.pem
hosts:
  default:
    paths:
      /:
        file.dir: $root
"""

LIGHTTPD = """\
server.modules = ("mod_openssl")
server.bind = "127.0.0.1"
server.port = $port
server.document-root = "$root"
server.max-fds = 20000
server.max-connections = 15000
server.max-keep-alive-idle = 600
server.max-keep-alive-requests = 1000000000
$lighttpd_user
mimetype.assign = (".html" => "text/html")
ssl.engine = "enable"
ssl.pemfile = "$dir/certificate.pem"
ssl.privkey = "$dir/key.pem"
"""

CADDY = """\
{
    admin off
    auto_https off
    servers {
        timeouts {
            idle 10m
        }
    }
}
https://127.0.0.1:$port {
    bind 127.0.0.1
    tls $dir/certificate.pem $dir/key.pem
    root * $root
    file_server
}
"""

TOKAMAK = """\
listen = []
listen_tls = ["127.0.0.1:$port"]
control = "$dir/$name.control"

[tls]
certificate = ["$dir/certificate.pem"]
key = ["$dir/key.pem"]

[http2]
requests = 1000000000

[limits]
connections = 15000

[timeouts]
idle = "10m"

[[site]]
root = "$root"
$mode
[site.pool]
workers = $children
"""


@dataclass(frozen=True)
class Peer:
    """One server, and in which rows it takes part."""

    name: str
    needs: tuple[str, ...]
    commands: Callable[["Edge", "Peer"], list[list[str]]]
    static: bool = True
    php: bool = False


def nginx(edge: "Edge", peer: Peer) -> list[list[str]]:
    """nginx, and php-fpm behind it."""
    fpm = edge.write(peer, "fpm.conf", FPM)
    conf = edge.write(peer, "nginx.conf", NGINX)
    log = f"{edge.directory}/nginx.log"
    return [
        [peers.FPM, "--nodaemonize", "--fpm-config", f"{fpm}"],
        ["nginx", "-p", f"{edge.directory}", "-c", f"{conf}", "-e", log],
    ]


def h2o(edge: "Edge", peer: Peer) -> list[list[str]]:
    """h2o."""
    return [["h2o", "-c", f"{edge.write(peer, 'h2o.conf', H2O)}"]]


def lighttpd(edge: "Edge", peer: Peer) -> list[list[str]]:
    """lighttpd, which is one process."""
    return [["lighttpd", "-D", "-f", f"{edge.write(peer, 'lighttpd.conf', LIGHTTPD)}"]]


def caddy(edge: "Edge", peer: Peer) -> list[list[str]]:
    """Caddy."""
    conf = edge.write(peer, "Caddyfile", CADDY)
    return [["caddy", "run", "--adapter", "caddyfile", "--config", f"{conf}"]]


def tokamak(edge: "Edge", peer: Peer) -> list[list[str]]:
    """This server, in classic mode or with a worker script."""
    script = REPO / "bench/sites/empty/worker.php"
    is_worker = peer.name.endswith("worker")
    mode = f'mode = "worker"\nworker = "{script}"' if is_worker else 'mode = "classic"'
    conf = edge.write(peer, f"{peer.name}.toml", TOKAMAK, mode=mode)
    return [[f"{edge.tokamak}", "serve", "--config", f"{conf}"]]


BASE, OURS, OURS_WORKER = "nginx", "tokamak", "tokamak-worker"
PEERS = (
    Peer(BASE, ("nginx", peers.FPM), nginx, php=True),
    Peer("h2o", ("h2o",), h2o),
    Peer("lighttpd", ("lighttpd",), lighttpd),
    Peer("caddy", ("caddy",), caddy),
    Peer(OURS, (), tokamak, php=True),
    Peer(OURS_WORKER, (), tokamak, static=False, php=True),
)


@dataclass
class Edge(Stage):
    """All servers, running."""

    directory: Path
    tokamak: Path
    chosen: tuple[Peer, ...]
    ports: dict[str, int] = field(default_factory=dict)
    servers: dict[str, Server] = field(default_factory=dict)

    def start(self) -> None:
        """Makes files and a certificate, starts everything, and waits for right answers."""
        missing = [name for peer in self.chosen for name in peer.needs if not shutil.which(name)]
        if missing:
            raise CannotRun(f"{', '.join(missing)} not found: scripts/setup bench installs it")
        temporary = self.directory / "tmp"
        temporary.mkdir()
        temporary.chmod(0o1777)
        root = self.directory / "site"
        shutil.copytree(REPO / "bench/sites/empty", root)
        for name, size in SIZES.items():
            (root / f"{name}.html").write_bytes(b"x" * size)
        (self.directory / "php.ini").write_text(peers.PHP_INI)
        certificate(self.directory)
        environment = peers.SERVICE | {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": f"{self.directory}",
            "PHPRC": f"{self.directory}",
            "PHP_INI_SCAN_DIR": peers.EXTENSIONS,
        }
        for peer in self.chosen:
            self.ports[peer.name] = free_port()
            server = self.servers[peer.name] = Server()
            for command in peer.commands(self, peer):
                server.start(command, environment, self.directory / f"{peer.name}-output.log")
        for peer in self.chosen:
            self.wait(peer)

    def stop(self) -> None:
        """Ends every process."""
        for server in self.servers.values():
            server.ask_to_stop()
        for server in self.servers.values():
            server.stop()

    def write(self, peer: Peer, file: str, template: str, **values: object) -> Path:
        """Writes a configuration file."""
        known = {
            "dir": self.directory,
            "root": self.directory / "site",
            "name": peer.name,
            "port": self.ports[peer.name],
            "processes": os.cpu_count() or 1,
            "children": CHILDREN,
            "user": peers.as_root("user www-data;"),
            "pool_user": peers.as_root("user = www-data\ngroup = www-data"),
            "h2o_user": peers.as_root("user: www-data"),
            "lighttpd_user": peers.as_root('server.username = "www-data"'),
        }
        path = self.directory / file
        path.write_text(Template(template).substitute(known | values))
        return path

    def wait(self, peer: Peer) -> None:
        """Asks over HTTP/2 until the answers have the right length."""
        wanted = [("/1k.html", SIZES["1k"])] if peer.static else []
        wanted += [("/index.php", 1)] if peer.php else []
        deadline = time.monotonic() + READY_SECONDS
        for path, least in wanted:
            while True:
                try:
                    socket, length = tls_client.idle_http2(self.ports[peer.name], path)
                    socket.close()
                    if length >= least:
                        break
                except OSError:
                    pass
                if time.monotonic() > deadline:
                    logs = sorted(self.directory.glob("*.log"))
                    text = "\n".join(log.read_text(errors="replace")[-2000:] for log in logs)
                    raise CannotRun(f"{peer.name} does not answer for {path}\n{text}")
                time.sleep(0.1)


def certificate(directory: Path) -> None:
    """A certificate for the loopback address, with the kind of key that authorities' clients
    make."""
    words = ["openssl", "req", "-x509", "-nodes", "-newkey", "ec", "-days", "90"]
    words += ["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=localhost"]
    words += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    words += ["-keyout", f"{directory}/key.pem", "-out", f"{directory}/certificate.pem"]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    # Caddy runs as who started it, nginx and the others read it as root; nothing else does.
    (directory / "key.pem").chmod(0o600)
