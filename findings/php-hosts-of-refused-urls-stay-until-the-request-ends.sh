#!/usr/bin/env bash
# PHP 8.5 keeps the host of each URL that Uri\WhatWg\Url refuses for it, until the request ends.
#
# Software: php8.5-cli 8.5.7-1 of Debian experimental, with the libraries of sid (libc6 2.43-7,
# libxml2-16 2.15.4+dfsg-1+b1, and those they need), on amd64.
#
# A script parses the same URL ten thousand times and keeps nothing. For a script that runs for long
# (a queue's worker, a server in PHP) memory that is not given back before the request ends is lost.
#
# Seen: where the host is no domain, the more is kept the longer the host is. URLs that are right,
# and those that are refused for something else, leave nothing.
#     a valid URL: 0 bytes each
#     a port that is too large: 0 bytes each
#     a space in the host: 25 bytes each
#     a space behind 200 letters: 333 bytes each
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
$texts = [
    'a valid URL' => 'https://example.com/',
    'a port that is too large' => 'https://example.com:99999/',
    'a space in the host' => 'https://a b/',
    'a space behind 200 letters' => 'https://' . str_repeat('a', 200) . ' /',
];
foreach ($texts as $name => $text) {
    $parse = static function (int $times) use ($text): void {
        for ($i = 0; $i < $times; $i++) {
            Uri\WhatWg\Url::parse($text);
        }
    };
    $parse(1000);
    $before = memory_get_usage();
    $parse(10_000);
    printf("%s: %d bytes each\n", $name, round((memory_get_usage() - $before) / 10_000));
}
PHP
found=$(timeout 30 "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" all/usr/bin/php8.5 -n script.php)
echo "$found"
expected='a valid URL: 0 bytes each
a port that is too large: 0 bytes each
a space in the host: 25 bytes each
a space behind 200 letters: 333 bytes each'
[ "$found" = "$expected" ] || { echo 'not as recorded' >&2; exit 1; }
