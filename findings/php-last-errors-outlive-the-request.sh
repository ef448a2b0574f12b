#!/usr/bin/env bash
# PHP: four extensions hand the last error of one request to the next one of the same worker.
#
# Software: PHP 8.2.36 of Debian 12 (php8.2-fpm and php8.2-common 8.2.36-1~deb12u1, which bring the
# extensions openssl, posix and sockets) and php8.2-rrd 2.0.3+1.1.3-7.
#
# Functions like `json_last_error()` and `preg_last_error()` start anew with each request, and
# scripts expect that of all of them.
#
# Seen: in one worker of php-fpm a request that only asks, and does nothing before, is told
#   - openssl_error_string(): the errors of the request before. Code that asks in a loop until there
#     are none, as the manual shows, takes them for its own and reports that a good key is bad;
#   - posix_get_last_error(), socket_last_error(): the number of the failed call before;
#   - rrd_error(): the message before, with the path of a file of the other application.
# json and preg, beside them, begin with no error.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Unpacks Debian packages of these versions, and what they need that is not installed, in $root.
root=$folder/root
debian() {
    mkdir -p "$folder/archives/partial"
    timeout 300 apt-get install --download-only --reinstall --yes --no-install-recommends \
        --allow-downgrades -o Debug::NoLocking=1 -o "Dir::Cache::archives=$folder/archives" \
        "$@" >"$folder/log" 2>&1 ||
        { echo "these packages cannot be had: $*" >&2; exit 2; }
    for package in "$folder"/archives/*.deb; do dpkg -x "$package" "$root"; done
}

debian php8.2-fpm=8.2.36-1~deb12u1 php8.2-common=8.2.36-1~deb12u1 \
    php8.2-rrd=2.0.3+1.1.3-7 librrd8=1.7.2-4+b8
export root folder
export LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu
cat >"$folder/script.php" <<'PHP'
<?php
$errors = [
    'openssl' => [fn () => openssl_pkey_get_private('no key'), fn () => openssl_error_string()],
    'posix' => [fn () => posix_kill(PHP_INT_MAX >> 33, 0), fn () => posix_get_last_error()],
    'sockets' => [
        fn () => @socket_bind(socket_create(AF_INET, SOCK_STREAM, 0), '192.0.2.1', 0),
        fn () => socket_last_error()],
    'rrd' => [fn () => @rrd_fetch('/no/such.rrd', ['AVERAGE']), fn () => rrd_error()],
    'json' => [fn () => json_decode('{'), fn () => json_last_error()],
    'preg' => [fn () => @preg_match('//u', "\xff"), fn () => preg_last_error()],
];
parse_str($_SERVER['QUERY_STRING'], $query);
$answer = $errors[$query['of']][$query['ask']]();
echo $query['ask'] ? json_encode($answer, JSON_UNESCAPED_SLASHES) : 'failed';
PHP
timeout 60 python3 - <<'PYTHON'
import os, socket, struct, subprocess, sys, time

root, folder = os.environ["root"], os.environ["folder"]


def record(kind, request, content=b""):
    return struct.pack("!BBHHBB", 1, kind, request, len(content), 0, 0) + content


def pairs(**values):
    """Names and values of less than 128 bytes, as FastCGI writes them."""
    return b"".join(
        bytes([len(name), len(value)]) + name.encode() + value.encode()
        for name, value in values.items())


class Worker:
    """php-fpm with one process, which reads no php.ini."""

    def __init__(self, folder, *options):
        self.script, self.socket = f"{folder}/script.php", f"{folder}/socket"
        with open(f"{folder}/fpm.conf", "w") as file:
            file.write(
                f"[global]\nerror_log={folder}/errors\ndaemonize=no\n"
                f"[www]\nlisten={self.socket}\nuser=root\ngroup=root\n"
                "pm=static\npm.max_children=1\n")
        self.process = subprocess.Popen(
            [f"{root}/usr/sbin/php-fpm8.2", "-n", "-R", "-y", f"{folder}/fpm.conf",
             "-d", f"extension_dir={root}/usr/lib/php/20220829", *options],
            stderr=subprocess.DEVNULL)

    def ask(self, query):
        """The page that the script gives for the query string."""
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(20)
        for _ in range(200):
            try:
                client.connect(self.socket)
                break
            except (FileNotFoundError, ConnectionRefusedError):
                time.sleep(0.05)
        parameters = pairs(
            REQUEST_METHOD="GET", SCRIPT_FILENAME=self.script, QUERY_STRING=query)
        client.sendall(
            record(1, 1, b"\0\1\0\0\0\0\0\0")
            + record(4, 1, parameters) + record(4, 1) + record(5, 1))
        stream, output = client.makefile("rb"), b""
        while header := stream.read(8):
            _, kind, _, length, padding, _ = struct.unpack("!BBHHBB", header)
            content = stream.read(length + padding)[:length]
            output += content if kind == 6 else b""
        client.close()
        return output.partition(b"\r\n\r\n")[2].decode()

    def end(self):
        self.process.terminate()
        self.process.wait()


EXPECTED = {
    "openssl": ("false", '"error:1E08010C:DECODER routines::unsupported"'),
    "posix": ("0", "3"),
    "sockets": ("0", "99"),
    "rrd": ("false", '"opening \'/no/such.rrd\': No such file or directory"'),
    "json": ("0", "0"),
    "preg": ("0", "0"),
}
worker = Worker(
    folder, "-d", "extension=posix", "-d", "extension=sockets", "-d", "extension=rrd")
try:
    changed = False
    for name, expected in EXPECTED.items():
        before = worker.ask(f"of={name}&ask=1")
        assert worker.ask(f"of={name}&ask=0") == "failed"
        after = worker.ask(f"of={name}&ask=1")
        print(f"{name}: {before}, and after another request's failure {after}")
        changed |= (before, after) != expected
finally:
    worker.end()
sys.exit("this is not what was recorded" if changed else 0)
PYTHON
