"""The servers that run Lua themselves, and the bare loop below which none of them can come."""

import os
import subprocess
from collections.abc import Callable

from .peers import Peer, Place, as_root, is_child_named
from .sites import REPO

NGINX = """\
load_module /usr/lib/nginx/modules/ndk_http_module.so;
load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;
$user
worker_processes $processes;
daemon off;
pid $dir/nginx.pid;
error_log $dir/nginx.log warn;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_timeout 75s;
    keepalive_requests 1000000000;
    client_body_temp_path $dir/tmp/body;
    fastcgi_temp_path $dir/tmp/fastcgi;
    proxy_temp_path $dir/tmp/proxy;
    uwsgi_temp_path $dir/tmp/uwsgi;
    scgi_temp_path $dir/tmp/scgi;
    server {
        listen 127.0.0.1:$port backlog=4096;
        location = /empty { content_by_lua_file $root/nginx-empty.lua; }
    }
}
"""

LIGHTTPD = """\
server.modules = ("mod_magnet")
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
magnet.attract-raw-url-to = ("$root/empty.lua")
"""

TOKAMAK = """\
listen = ["127.0.0.1:$port"]
control = "$control"

[[site]]
root = "$root"
mode = "fastcgi"
lua_raw_url = ["$root/empty.lua"]
"""


def processes() -> int:
    """All have as many processes, or event loops, as the machine has processors."""
    return os.cpu_count() or 1


def nginx_lua(place: Place) -> list[list[str]]:
    """nginx with Debian's package of its Lua module."""
    path = place.write("nginx.conf", NGINX, user=as_root("user www-data;"), processes=processes())
    return [["nginx", "-p", f"{place.directory}", "-c", f"{path}", "-e", f"{place.directory}/nginx.log"]]


def lighttpd_magnet(place: Place) -> list[list[str]]:
    """lighttpd with mod_magnet."""
    user = as_root('server.username = "www-data"\nserver.groupname = "www-data"')
    log = place.directory / "lighttpd.log"
    # It opens its log when it is nobody in particular already.
    log.touch()
    log.chmod(0o666)
    path = place.write("lighttpd.conf", LIGHTTPD, user=user, processes=processes())
    return [["lighttpd", "-D", "-f", f"{path}"]]


def tokamak_lua(place: Place) -> list[list[str]]:
    """This server with the same script as lighttpd."""
    path = place.write("tokamak.toml", TOKAMAK, control=place.control)
    return [[f"{place.choice.tokamak}", "serve", "--config", f"{path}"]]


def limit(place: Place) -> list[list[str]]:
    """The bare loop, compiled on the spot."""
    program = place.directory / "limit"
    source = REPO / "bench/limit/limit.c"
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *flags, f"{source}", "-o", f"{program}"], check=True, timeout=60)
    return [[f"{program}", f"{place.port}", f"{processes()}"]]


def peer(name: str, what: str, commands: Callable[[Place], list[list[str]]], program: str) -> Peer:
    """A server whose processes of this name do the work."""
    return Peer(name, what, commands, is_child_named(program), fits=lambda site: site.language == "lua")


PEERS = {
    found.name: found
    for found in (
        peer("nginx-lua", "nginx with its Lua module", nginx_lua, "nginx"),
        peer("lighttpd-magnet", "lighttpd + mod_magnet", lighttpd_magnet, "lighttpd"),
        peer("tokamak-lua", "Tokamak with a script in the server", tokamak_lua, "tokamak"),
        peer("limit", "a bare epoll loop", limit, "limit"),
    )
}
