#!/usr/bin/env bash
# PHP: a name from one request's OpenSSL configuration decides about certificates of later requests.
#
# Software: PHP 8.2.36 of Debian 12 (php8.2-fpm 8.2.36-1~deb12u1) with its openssl extension.
#
# `openssl_csr_new()` takes a configuration file with each call. Its `oid_section` gives names to
# object identifiers, which the subject of a certificate may use then.
#
# Seen: PHP adds the names to OpenSSL's table for the whole process, and there they stay. In one
# worker of php-fpm
#   - a request whose configuration has no such section cannot use `shopNumber`: a warning says so,
#     and the subject goes without;
#   - after a request that defined the name, the same request puts it in;
#   - a request whose configuration gives the name another identifier gets the first one. No error
#     or warning says so, and the certificate request is signed with the wrong attribute.
# What a request gets depends on what the worker did before, until it is replaced.
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

debian php8.2-fpm=8.2.36-1~deb12u1
export root folder
export LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu
cat >"$folder/script.php" <<'PHP'
<?php
$file = tempnam(sys_get_temp_dir(), 'oid');
$number = $_SERVER['QUERY_STRING'];
file_put_contents($file, ($number ? "oid_section = names\n[names]\nshopNumber = $number\n" : '')
    . "[req]\ndistinguished_name = subject\n[subject]\n");
$key = openssl_pkey_new(['private_key_type' => OPENSSL_KEYTYPE_EC, 'curve_name' => 'prime256v1']);
$request = @openssl_csr_new(['CN' => 'one', 'shopNumber' => '7'], $key, ['config' => $file]);
unlink($file);
openssl_csr_export($request, $pem);
// The identifiers 1.3.6.1.4.1.55555.1 and .2, as they are written in a certificate request.
$binary = base64_decode(preg_replace('/-----.*?-----/', '', $pem));
$stem = "\x2b\x06\x01\x04\x01\x83\xb2\x03";
foreach ([1, 2] as $last) {
    if (str_contains($binary, $stem . chr($last))) {
        exit("1.3.6.1.4.1.55555.$last");
    }
}
echo 'none';
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
             *options],
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


worker, one, two = Worker(folder), "1.3.6.1.4.1.55555.1", "1.3.6.1.4.1.55555.2"
try:
    changed = False
    for defined, expected in ("", "none"), (one, one), ("", one), (two, one):
        found = worker.ask(defined)
        print(f"shopNumber defined as {defined or 'nothing'}: the subject has {found}")
        changed |= found != expected
finally:
    worker.end()
sys.exit("this is not what was recorded" if changed else 0)
PYTHON
