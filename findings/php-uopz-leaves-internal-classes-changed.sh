#!/usr/bin/env bash
# PHP: what uopz changes in a class of PHP itself stays so for all later requests of the worker.
#
# Software: PHP 8.2.36 of Debian 12 (php8.2-fpm 8.2.36-1~deb12u1) with php8.2-uopz 7.1.1+6.1.2-7.
#
# uopz changes functions and classes at run time, mostly in tests. Replacements and hooks end with
# the request that made them: `uopz_set_return()` and `uopz_set_hook()` below do.
#
# Seen: two of its functions are not undone where the class is one of PHP's own. In one worker of
# php-fpm, a request that does nothing but use the class finds
#   - after uopz_flags('ArrayObject', 'count', ZEND_ACC_PRIVATE) that `count()` cannot be called:
#     "Call to private method ArrayObject::count() from global scope";
#   - after uopz_redefine('DateTimeInterface', 'ATOM', 'Y') that DateTimeInterface::ATOM is "Y".
# uopz refuses the same for a global constant of PHP's own, with an exception. So a test run served
# by php-fpm changes what other tests, and other sites, see until the worker is replaced.
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

debian php8.2-fpm=8.2.36-1~deb12u1 php8.2-uopz=7.1.1+6.1.2-7
export root folder
export LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu
cat >"$folder/script.php" <<'PHP'
<?php
$changes = [
    'return' => [fn () => uopz_set_return('lcg_value', 2), fn () => lcg_value() === 2],
    'hook' => [
        fn () => uopz_set_hook('lcg_value', fn () => 1), fn () => uopz_get_hook('lcg_value')],
    'flags' => [
        fn () => uopz_flags('ArrayObject', 'count', ZEND_ACC_PRIVATE),
        fn () => (new ArrayObject([1]))->count()],
    'class constant' => [
        fn () => uopz_redefine('DateTimeInterface', 'ATOM', 'Y'), fn () => DateTimeInterface::ATOM],
    'constant' => [fn () => uopz_redefine('M_PI', 3), fn () => constant('M_PI') === 3],
];
parse_str($_SERVER['QUERY_STRING'], $query);
try {
    $answer = json_encode($changes[$query['of']][$query['ask']](), JSON_UNESCAPED_SLASHES);
} catch (Throwable $error) {
    $answer = $error->getMessage();
}
echo $query['ask'] ? $answer : 'tried';
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
    "return": ("false", "false"),
    "hook": ("null", "null"),
    "flags": ("1", "Call to private method ArrayObject::count() from global scope"),
    "class constant": ('"Y-m-d\\\\TH:i:sP"', '"Y"'),
    "constant": ("false", "false"),
}
worker = Worker(folder, "-d", "extension=uopz", "-d", "uopz.exit=1")
try:
    changed = False
    for name, expected in EXPECTED.items():
        before = worker.ask(f"of={name}&ask=1")
        assert worker.ask(f"of={name}&ask=0") == "tried"
        after = worker.ask(f"of={name}&ask=1")
        print(f"{name}: {before}, and after another request {after}")
        changed |= (before, after) != expected
finally:
    worker.end()
sys.exit("this is not what was recorded" if changed else 0)
PYTHON
