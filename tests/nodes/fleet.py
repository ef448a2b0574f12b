"""Nodes, balancer, Redis, name server and authority, configured as docs/several-nodes.md says."""

import csv
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import urllib.request

from network import NETWORK, Machine, eventually, make_bridge, run
from visitors import Releases

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests/nodes"
PROGRAM = pathlib.Path(os.environ.get("TOKAMAK", ROOT / "target/debug/tokamak")).resolve()
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
REDIS = os.environ.get("REDIS", "redis-server")
MODES = ("worker", "sealed", "async")
BALANCER, FIRST_NODE = f"{NETWORK}4", 11
TOKEN = "a token of the test"


def block(kind):
    """The first block of that kind in the page."""
    page = (ROOT / "docs/several-nodes.md").read_text()
    return re.search(rf"^```{kind}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL).group(1)


def configuration():
    """That of the page, with its site once in each mode, and the authority of the test."""
    common, site = block("toml tokamak file=tokamak.toml").split("[[site]]")
    text = 'user = "www-data"\nstate_dir = "state"\ncontrol = "control"\n' + common
    for mode in MODES:
        own = site.replace('"shop.example"', f'"{mode}.example"').replace('"async"', f'"{mode}"')
        # So few that a node without them is missed, and that the time is in waiting: what is
        # measured is what the nodes can do, not what the processors of this machine can do.
        workers = 1 if mode == "async" else 2
        text += "[[site]]" + own.replace("cache = true", f"cache = true\npool.workers = {workers}")
    text += f'\n[acme]\ndirectory = ["https://{NETWORK}7/dir"]\n'
    return text


class Node(Machine):
    """One of the nodes."""

    def __init__(self, name, number, folder, text):
        super().__init__(name, number, folder)
        shutil.copytree(HERE / "site", self.folder, dirs_exist_ok=True)
        (self.folder / "tokamak.toml").write_text(text)
        self.release("1")

    def release(self, release):
        """Lays another release of the application over the one that is there."""
        new = self.folder / "RELEASE.new"
        new.write_text(release)
        new.rename(self.folder / "RELEASE")

    def serve(self):
        environment = dict(
            os.environ, SSL_CERT_FILE=str(self.folder.parent / "authority/ca.pem"),
            TOKAMAK_ADMIN_TOKEN=TOKEN)
        self.server = self.start(PROGRAM, "serve", environment=environment)

    def tokamak(self, *arguments, seconds=120):
        return run(*self.command(PROGRAM, *arguments, "--control", "control"), timeout=seconds)

    def is_ready(self):
        try:
            connection = http.client.HTTPConnection(self.address, 9080, timeout=2)
            connection.request("GET", "/ready")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def pid(self):
        return json.loads(self.tokamak("status", "--json"))["pid"]

    def upgrade(self):
        """By `tokamak upgrade`, until the old server has ended: it answers what comes on
        connections that the balancer keeps, once each."""
        old = self.pid()
        self.tokamak("upgrade")
        eventually(f"the old server of {self.name} has ended", lambda: subprocess.run(
            self.command("test", "!", "-e", f"/proc/{old}"), timeout=20).returncode == 0, 60, 0.3)

    def stop(self):
        """As a service manager does: SIGTERM, and wait."""
        run(*self.command("kill", "-TERM", str(self.pid())))
        path = self.folder / "control"
        eventually(f"{self.name} has stopped", lambda: not path.exists(), 90)

    def asks(self, mode, path, headers=None, method="GET", seconds=30):
        """What the node itself answers: status, header fields, and the page."""
        connection = http.client.HTTPConnection(self.address, 8080, timeout=seconds)
        connection.request(method, path, headers={"Host": f"{mode}.example"} | (headers or {}))
        response = connection.getresponse()
        return response.status, response, json.loads(response.read())


class Fleet:
    """All machines."""

    MODES = MODES

    def __init__(self, folder, nodes):
        self.folder = folder
        make_bridge()
        numbers = range(FIRST_NODE, FIRST_NODE + nodes)
        self.names, self.balancer, self.cache, self.sessions, self.authority = (
            Machine(name, number, folder) for name, number in (
                ("names", 3), ("balancer", 4), ("cache", 5), ("sessions", 6), ("authority", 7)))
        text = configuration()
        self.nodes = [Node(f"node{n - FIRST_NODE + 1}", n, folder, text) for n in numbers]
        self.releases = Releases(self.nodes)
        for machine in (self.names, self.balancer, *self.stores, self.authority):
            machine.switch_on()

    @property
    def stores(self):
        return self.cache, self.sessions

    def start(self):
        for store, password, more in (
                (self.cache, "of-the-cache", "maxmemory 64mb\nmaxmemory-policy allkeys-lru\n"),
                (self.sessions, "of-the-sessions", "appendonly yes\n")):
            (store.folder / "redis.conf").write_text(
                f"bind {store.address}\nrequirepass {password}\nsave \"\"\n{more}")
            store.start(REDIS, "redis.conf")
        self.start_names()
        self.make_authority()
        for node in self.nodes:
            node.switch_on()
            node.serve()
        socket_path = self.balancer.folder / "haproxy.sock"
        text = f"global\n    stats socket {socket_path} level admin\n" + block("haproxy")
        (self.balancer.folder / "haproxy.cfg").write_text(text)
        self.balancer.start("haproxy", "-db", "-f", "haproxy.cfg")
        eventually("the balancer has found all nodes", self.all_are_up, 180)
        # Not before, because it refuses names that do not lead to the nodes yet, and wants to be
        # left alone for a minute after that.
        self.start_authority()
        for mode in MODES:
            eventually(f"a certificate for {mode}", lambda mode=mode: all(
                self.has_certificate(node, mode) for node in self.nodes), 120, 1)

    def start_names(self):
        lines = ["no-resolv", "no-hosts", "port=53", f"listen-address={NETWORK}3", "user=root"]
        for node in self.nodes:
            lines.append(f"host-record={node.name}.nodes.example,{node.address}")
            for service, port in (("http", 8080), ("https", 8443)):
                # The weight at the end is not 0: with that HAProxy sends a server nothing.
                lines.append(f"srv-host=_{service}._tcp.nodes.example,"
                             f"{node.name}.nodes.example,{port},0,10")
        for mode in MODES:
            lines.append(f"host-record={mode}.example,{BALANCER}")
        (self.names.folder / "dnsmasq.conf").write_text("\n".join(lines) + "\n")
        self.names.start("dnsmasq", "--keep-in-foreground", "--conf-file=dnsmasq.conf")

    def asks_balancer(self, command):
        """Asks its socket, and returns rows of values by name."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(5)
            client.connect(str(self.balancer.folder / "haproxy.sock"))
            client.sendall(command.encode() + b"\n")
            text = b"".join(iter(lambda: client.recv(65536), b"")).decode()
        return list(csv.DictReader(text.lstrip("# ").splitlines()))

    def servers(self):
        return [row for row in self.asks_balancer("show stat") if row["svname"].startswith("node")]

    def repeated(self):
        """How often the balancer has repeated a request or a connection since its start."""
        return sum(int(row["wretr"]) for row in self.servers())

    def all_are_up(self):
        try:
            up = [row for row in self.servers() if row["status"] == "UP"]
        except OSError:
            return False
        return len(up) == 2 * len(self.nodes)

    def make_authority(self):
        authority, folder = self.authority, self.authority.folder
        run("openssl", "req", "-x509", "-nodes", "-days", "30", "-subj", "/CN=authority",
            "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
            "-addext", f"subjectAltName=IP:{authority.address}",
            "-addext", "basicConstraints=critical,CA:FALSE",
            "-keyout", f"{folder}/ca.key", "-out", f"{folder}/ca.pem")
        (folder / "pebble.json").write_text(json.dumps({"pebble": {
            "listenAddress": f"{authority.address}:443",
            "managementListenAddress": f"{authority.address}:15000",
            "certificate": "ca.pem", "privateKey": "ca.key", "httpPort": 80, "tlsPort": 443,
            "externalAccountBindingRequired": False,
            "profiles": {"default": {"description": "usual", "validityPeriod": 7_776_000}}}}))

    def start_authority(self):
        authority, folder = self.authority, self.authority.folder
        authority.start(
            TARGET / "pebble/pebble", "-config", "pebble.json", "-dnsserver", f"{NETWORK}3:53",
            environment=dict(os.environ, PEBBLE_VA_NOSLEEP="1", PEBBLE_WFE_NONCEREJECT="0"))
        root = folder / "root.pem"
        address = f"https://{authority.address}:15000/roots/0"
        eventually("the authority answers", lambda: self.fetch_root(address, root), 30)

    @staticmethod
    def fetch_root(address, root):
        try:
            context = ssl._create_unverified_context()
            with urllib.request.urlopen(address, timeout=5, context=context) as answer:
                root.write_bytes(answer.read())
            return True
        except OSError:
            return False

    @staticmethod
    def has_certificate(node, mode):
        return (node.folder / f"state/acme/certificates/{mode}.example.pem").exists()
