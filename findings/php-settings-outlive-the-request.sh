#!/usr/bin/env bash
# PHP: settings of six extensions stay in the process when the request that made them ends.
#
# Software: PHP 8.2.36 of Debian 12 (php8.2-fpm, -common, -mbstring, -snmp, -imap and -ldap
# 8.2.36-1~deb12u1) and php8.2-imagick 3.7.0-4.
#
# What a script sets with `ini_set()`, `setlocale()`, `mb_internal_encoding()` or `putenv()` is
# undone when its request ends. Scripts expect the same of the functions below.
#
# Seen: in one worker of php-fpm a request that sets nothing has the values of the one before:
#   - mb_regex_set_options('i'): `mb_ereg('a', 'A')` is true from then on;
#   - textdomain('shop'): `_()` of another application looks for its texts in `shop`;
#   - snmp_set_quick_print(true) and snmp_set_valueretrieval(SNMP_VALUE_PLAIN): values come without
#     the types that another script parses;
#   - imap_timeout(IMAP_OPENTIMEOUT, 7): seconds until a mailbox is given up;
#   - ldap_set_option(null, LDAP_OPT_REFERRALS, 0): inherited by each new connection;
#   - Imagick::setRegistry('k', 'v').
# Two that are put back are asked too: mb_internal_encoding() and mb_language().
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

packages=(php8.2-imagick=3.7.0-4)
for extension in fpm common mbstring snmp imap ldap; do
    packages+=("php8.2-$extension=8.2.36-1~deb12u1")
done
debian "${packages[@]}"
export root folder MIBS=''
export LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu:$root/usr/lib
cat >"$folder/script.php" <<'PHP'
<?php
$settings = [
    'mb_regex' => [fn () => mb_regex_set_options('i'), fn () => mb_ereg('a', 'A')],
    'textdomain' => [fn () => textdomain('shop'), fn () => textdomain(null)],
    'snmp_quick' => [fn () => snmp_set_quick_print(true), fn () => snmp_get_quick_print()],
    'snmp_plain' => [
        fn () => snmp_set_valueretrieval(SNMP_VALUE_PLAIN), fn () => snmp_get_valueretrieval()],
    'imap_timeout' => [
        fn () => imap_timeout(IMAP_OPENTIMEOUT, 7), fn () => imap_timeout(IMAP_OPENTIMEOUT)],
    'ldap_referrals' => [
        fn () => ldap_set_option(null, LDAP_OPT_REFERRALS, 0),
        fn () => ldap_get_option(ldap_connect('ldap://x'), LDAP_OPT_REFERRALS, $now) && $now],
    'imagick' => [fn () => Imagick::setRegistry('k', 'v'), fn () => Imagick::getRegistry('k')],
    'mb_encoding' => [fn () => mb_internal_encoding('EUC-JP'), fn () => mb_internal_encoding()],
    'mb_language' => [fn () => mb_language('ja'), fn () => mb_language()],
];
parse_str($_SERVER['QUERY_STRING'], $query);
$answer = $settings[$query['of']][$query['ask']]();
echo $query['ask'] ? json_encode($answer) : 'set';
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
    "mb_regex": ("false", "true"),
    "textdomain": ('"messages"', '"shop"'),
    "snmp_quick": ("false", "true"),
    "snmp_plain": ("0", "1"),
    "imap_timeout": ("60", "7"),
    "ldap_referrals": ("true", "false"),
    "imagick": ("false", '"v"'),
    "mb_encoding": ('"UTF-8"', '"UTF-8"'),
    "mb_language": ('"neutral"', '"neutral"'),
}
extensions = "gettext", "mbstring", "snmp", "imap", "ldap", "imagick"
worker = Worker(
    folder, *(part for name in extensions for part in ("-d", f"extension={name}")))
try:
    changed = False
    for name, expected in EXPECTED.items():
        before = worker.ask(f"of={name}&ask=1")
        assert worker.ask(f"of={name}&ask=0") == "set"
        after = worker.ask(f"of={name}&ask=1")
        print(f"{name}: {before}, and after another request {after}")
        changed |= (before, after) != expected
finally:
    worker.end()
sys.exit("this is not what was recorded" if changed else 0)
PYTHON
