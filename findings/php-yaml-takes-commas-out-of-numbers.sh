#!/usr/bin/env bash
# PHP's yaml extension reads `1,2,3` as the number 123, and writes floats that come back as others.
#
# Software: PHP 8.2.36 of Debian 12 (php8.2-cli 8.2.36-1~deb12u1) with php8.2-yaml
# 2.2.2+2.1.0+2.0.4+1.3.2-6.
#
# YAML 1.1, which the extension reads: digits of an integer may be parted by `_`; a comma has no
# meaning outside of a flow collection, so `1,2,3` is a string. An infinite float is `.inf`.
#
# Seen: yaml_parse() leaves commas out wherever a value begins with a digit other than 0 and goes on
# with digits and commas. A list of ids, `1,2,3`, becomes the integer 123, and a price with a
# decimal comma, `12,34`, becomes 1234; no warning tells. `0,1` stays a string.
# yaml_emit() writes 1.0 as `1` and 1e15 as `1000000000000000`, which come back as integers, -0.0 as
# `-0`, which comes back as 0, and INF as `INF`, which comes back as a string. yaml_parse() knows
# `.inf`. Strings are quoted as needed, so `'1,2,3'` as a string survives both.
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

debian php8.2-cli=8.2.36-1~deb12u1 php8.2-yaml=2.2.2+2.1.0+2.0.4+1.3.2-6
export LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu
cat >"$folder/numbers.php" <<'PHP'
<?php
foreach (['1,2,3', '12,34', '1,000.5', '0,1', '1_000', '.inf'] as $text) {
    echo "read $text: ", var_export(yaml_parse("value: $text")['value'], true), "\n";
}
foreach ([1.0, 1e15, -0.0, INF, 0.5, '1,2,3'] as $value) {
    $back = yaml_parse(yaml_emit($value));
    echo 'write ', var_export($value, true), ': ', var_export($back, true), "\n";
}
PHP
cat >"$folder/expected" <<'TEXT'
read 1,2,3: 123
read 12,34: 1234
read 1,000.5: 1000.5
read 0,1: '0,1'
read 1_000: 1000
read .inf: INF
write 1.0: 1
write 1000000000000000.0: 1000000000000000
write -0.0: 0
write INF: 'INF'
write 0.5: 0.5
write '1,2,3': '1,2,3'
TEXT
timeout 20 "$root/usr/bin/php8.2" -n -d "extension=$root/usr/lib/php/20220829/yaml.so" \
    "$folder/numbers.php" | tee "$folder/found"
cmp -s "$folder/found" "$folder/expected" || { echo "this is not what was recorded" >&2; exit 1; }
