#!/usr/bin/env bash
# PHP 8.5 says that the memory limit is `max_memory_limit` after a script has asked for more, while
# the limit that was there before goes on to hold.
#
# Software: php8.5-cli 8.5.7-1 of Debian experimental, with the libraries of sid (libc6 2.43-7,
# libxml2-16 2.15.4+dfsg-1+b1, and those they need), on amd64.
#
# `max_memory_limit` came with PHP 8.5: `memory_limit` cannot be raised above it, and "is set to
# max_memory_limit instead", as the warning says. A script begins with 32M, of at most 64M, asks for
# 256M, looks at the setting, and takes 40 MB.
#
# Seen: the setting is 64M, and yet the script ends for want of memory at the 33554432 bytes of
# before. The same with -1, for which there is no warning either. If the script then sets what it
# has read, 64M, the 40 MB are granted. With such values in php.ini or on the command line the limit
# is 64M in truth.
#     256M: says 64M, exhausted at 33554432
#     -1: says 64M, exhausted at 33554432
#     64M: says 64M, granted
#     256M, then what it says: says 64M, granted
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# shellcheck disable=SC2016
from=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
mkdir -p lists/partial cache/archives/partial
for suite in sid experimental; do
    echo "deb [target=Packages check-valid-until=no signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $from $suite main"
done >sources.list
options=(-qq -o "Dir::Etc::SourceList=$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$folder/lists" -o "Dir::Cache=$folder/cache" -o Dir::State::status=/dev/null
    -o APT::Sandbox::User= -o Acquire::Retries=1 -o Acquire::http::Timeout=15)
timeout 120 apt-get "${options[@]}" update >/dev/null 2>&1 || true
for package in php8.5-cli=8.5.7-1 libc6=2.43-7 libxml2-16=2.15.4+dfsg-1+b1 libargon2-1 libgcc-s1 libpcre2-8-0 \
    libsodium26 libssl3t64 libzstd1 zlib1g; do
    timeout 90 apt-get "${options[@]}" download "$package" >log 2>&1 ||
        { echo "there is no $package to be had" >&2; exit 2; }
done
for file in *.deb; do dpkg -x "$file" all; done
libraries=$folder/all/usr/lib/x86_64-linux-gnu

cat >script.php <<'PHP'
<?php
foreach (array_slice($argv, 1) as $value) {
    @ini_set('memory_limit', $value === 'what it says' ? ini_get('memory_limit') : $value);
}
echo implode(', then ', array_slice($argv, 1)), ': says ', ini_get('memory_limit'), ', ';
str_repeat('x', 40 << 20);
echo "granted\n";
PHP

# ask VALUE…: what becomes of a script that sets them.
ask() {
    timeout 20 "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" all/usr/bin/php8.5 -n \
        -d memory_limit=32M -d max_memory_limit=64M -d html_errors=0 -d display_errors=1 script.php "$@" 2>&1 |
        sed 's/^PHP //; s/.*Allowed memory size of \([0-9]*\) .*/exhausted at \1/' |
        grep -v '^Stack trace:\|^#\|^$' | tr -d '\n'
    echo
}
found=$(ask 256M && ask -1 && ask 64M && ask 256M 'what it says')
echo "$found"
expected='256M: says 64M, exhausted at 33554432
-1: says 64M, exhausted at 33554432
64M: says 64M, granted
256M, then what it says: says 64M, granted'
[ "$found" = "$expected" ] || { echo 'not as recorded' >&2; exit 1; }
