"""The servers that run Lua themselves or keep pages, Go beside them, and the bare loop below
which none of them can come."""

import os
import subprocess
from collections.abc import Callable

from .other_peers import PROGRAMS, answers_or_asks, asked, is_empty, lighttpd, processes
from .peers import Peer, Place, as_root, is_child_named, needs
from .services import compile_limit
from .sites import REPO, Site

SITE = REPO / "bench/sites/lua"

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
    upstream service {
        server $service;
        keepalive 64;
    }
    server {
        listen 127.0.0.1:$port backlog=4096;
        location = /empty { content_by_lua_file $dir/nginx-empty.lua; }
        location = /http { content_by_lua_file $dir/nginx-http.lua; }
        location = /redis { content_by_lua_file $dir/nginx-redis.lua; }
        location = /service {
            internal;
            proxy_pass http://service/;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_pass_request_headers off;
        }
    }
}
"""

TOKAMAK = """\
listen = ["127.0.0.1:$port"]
control = "$control"
loops = $loops

[[site]]
root = "$root"
mode = "fastcgi"
$scripts
"""

SCRIPTS = 'lua_raw_url = ["$dir/empty.lua"]'
SCRIPTS_THAT_ASK = """
[[site.route]]
path = "/http"
lua_raw_url = ["$dir/http.lua"]

[[site.route]]
path = "/redis"
lua_raw_url = ["$dir/redis.lua"]
"""


def prepare(place: Place) -> dict[str, str]:
    """Writes the scripts, which learn whom to ask; a site whose scripts ask nobody has none to
    tell."""
    addresses = dict(zip(("service", "redis"), asked(place), strict=True))
    for script in SITE.glob("*.lua"):
        place.write(script.name, script.read_text(), **addresses)
    return addresses


def nginx_lua(place: Place) -> list[list[str]]:
    """nginx with Debian's package of its Lua module."""
    path = place.write(
        "nginx.conf", NGINX, user=as_root("user www-data;"), processes=processes(), **prepare(place)
    )
    return [
        ["nginx", "-p", f"{place.directory}", "-c", f"{path}", "-e", f"{place.directory}/nginx.log"]
    ]


def lighttpd_magnet(place: Place) -> list[list[str]]:
    """lighttpd with mod_magnet."""
    prepare(place)
    handler = f'magnet.attract-raw-url-to = ("{place.directory}/empty.lua")'
    return [lighttpd(place, "mod_magnet", handler)]


def tokamak_lua(place: Place, loops: str = '"auto"') -> list[list[str]]:
    """This server; of the empty endpoint with the same script as lighttpd."""
    prepare(place)
    scripts = SCRIPTS_THAT_ASK if place.site.services else SCRIPTS
    path = place.write(
        "tokamak.toml", TOKAMAK.replace("$scripts", scripts), control=place.control, loops=loops
    )
    return [[f"{place.choice.tokamak}", "serve", "--config", f"{path}"]]


CACHED = """\
listen = ["127.0.0.1:$port"]
control = "$control"

[[site]]
root = "$root"
mode = "$mode"
cache = $cache
"""


def tokamak_cached(place: Place) -> list[list[str]]:
    """This server with a page of PHP that it need not make again."""
    path = place.write("tokamak.toml", CACHED, control=place.control, mode="classic", cache="true")
    return [[f"{place.choice.tokamak}", "serve", "--config", f"{path}"]]


def tokamak_file(place: Place) -> list[list[str]]:
    """This server with the same page as a file."""
    root = place.directory / "static"
    root.mkdir()
    page = subprocess.run(
        ["php8.2", f"{place.root}/index.php"], capture_output=True, check=True, timeout=20
    ).stdout
    (root / "index.html").write_bytes(page)
    path = place.write(
        "tokamak.toml", CACHED, control=place.control, root=root, mode="fastcgi", cache="false"
    )
    return [[f"{place.choice.tokamak}", "serve", "--config", f"{path}"]]


LUA_FCGI = """\
listen = ["127.0.0.1:$port"]
control = "$control"

[[upstream]]
name = "lua"
address = "unix:$dir/lua.sock"
connections = $most
multiplex = $multiplex

[[site]]
root = "$scripts"
mode = "fastcgi"

[[site.route]]
path = "/index.php"
upstream = "lua"
"""


def tokamak_lua_fcgi(place: Place, multiplex: bool = False) -> list[list[str]]:
    """This server in front of Lua over FastCGI: a connection for each client, or few that all
    share. The script has the name by which everybody's script is asked for."""
    scripts = place.directory / "scripts"
    scripts.mkdir()
    (scripts / "index.php").write_text((SITE / "fcgi.lua").read_text())
    values = {
        "scripts": scripts,
        "most": place.most_connections,
        "multiplex": "true" if multiplex else "false",
    }
    path = place.write("tokamak.toml", LUA_FCGI, control=place.control, **values)
    tokamak = f"{place.choice.tokamak}"
    return [
        [
            tokamak,
            "lua-fcgi",
            f"{scripts}",
            "--listen",
            f"unix:{place.directory}/lua.sock",
            "--mode",
            "666",
        ],
        [tokamak, "serve", "--config", f"{path}"],
    ]


def go(place: Place) -> list[list[str]]:
    """net/http of Go, compiled on the spot."""
    program = place.directory / "server"
    environment = os.environ | {"GOTOOLCHAIN": "local"}
    command = ["go", "build", "-o", f"{program}", f"{PROGRAMS}/server.go"]
    subprocess.run(command, check=True, timeout=300, env=environment, cwd=place.directory)
    return [[f"{program}", f"{place.port}", *asked(place)]]


def limit(place: Place) -> list[list[str]]:
    """The bare loop, compiled on the spot."""
    program = place.directory / "limit"
    compile_limit(program)
    return [[f"{program}", f"{place.port}", f"{processes()}"]]


def peer(
    name: str,
    what: str,
    commands: Callable[[Place], list[list[str]]],
    program: str,
    fits: Callable[[Site], bool] = lambda site: site.language == "lua",
    missing: Callable[[], str | None] = lambda: None,
) -> Peer:
    """A server whose processes of this name do the work."""
    return Peer(name, what, commands, is_child_named(program), fits=fits, missing=missing)


def answers_in_the_server(site: Site) -> bool:
    """Lua, and the empty endpoint of all others, to which PHP's way is compared."""
    return site.language == "lua" or is_empty(site)


def asks_nobody(site: Site) -> bool:
    """Whether a server can take part whose scripts cannot wait for others."""
    return site.language == "lua" and not site.services


def answers_alone(site: Site) -> bool:
    """What is below all others, in both ways to answer without asking anybody."""
    return asks_nobody(site) or is_empty(site)


def is_cached(site: Site) -> bool:
    """Whether it is about the content cache."""
    return site.language == "cached"


PEERS = {
    found.name: found
    for found in (
        peer("nginx-lua", "nginx with its Lua module", nginx_lua, "nginx"),
        peer("lighttpd-magnet", "lighttpd + mod_magnet", lighttpd_magnet, "lighttpd", asks_nobody),
        peer(
            "tokamak-lua",
            "Tokamak with a script in the server",
            tokamak_lua,
            "tokamak",
            answers_in_the_server,
        ),
        # As lighttpd: one of its processes takes nearly all of the connections.
        peer(
            "tokamak-lua-one-loop",
            "Tokamak with a script in the server and one event loop",
            lambda place: tokamak_lua(place, loops="1"),
            "tokamak",
            asks_nobody,
        ),
        peer("go", "Go's net/http", go, "server", answers_or_asks, needs("go")),
        peer("limit", "a bare epoll loop", limit, "limit", answers_alone),
        peer(
            "tokamak-lua-fcgi", "Tokamak + Lua over FastCGI", tokamak_lua_fcgi, "tokamak", is_empty
        ),
        peer(
            "tokamak-lua-fcgi-multiplex",
            "Tokamak + Lua over FastCGI, connections shared",
            lambda place: tokamak_lua_fcgi(place, multiplex=True),
            "tokamak",
            is_empty,
        ),
        peer("tokamak-file", "Tokamak, a file of 10 KiB", tokamak_file, "tokamak", is_cached),
        peer(
            "tokamak-cached",
            "Tokamak, a page of PHP of 10 KiB from the content cache",
            tokamak_cached,
            "tokamak",
            is_cached,
        ),
    )
}
