#!/usr/bin/env bash
# The functions of PHP's imap extension disagree about one letter: imap_utf8() takes accents off it,
# and imap_utf7_encode() writes bytes where the names of folders need UTF-16.
#
# Software: PHP 8.2.36 of Debian 12 (php8.2-cli and php8.2-imap 8.2.36-1~deb12u1), with the library
# c-client 2007f (libc-client2007e 8:2007f~dfsg-7+b2).
#
# A subject of a mail is decoded to UTF-8 by imap_utf8() or by imap_mime_header_decode(), and the
# name of a folder is encoded for IMAP by imap_utf7_encode() or imap_utf8_to_mutf7(). RFC 3501 has
# modified UTF-7 encode UTF-16: the letter e with an acute accent is `&AOk-`.
#
# Seen: imap_utf8() gives `e` and a combining accent (65 cc 81) for a letter that the mail has as
# one character, in ISO-8859-1 and in UTF-8; imap_mime_header_decode() gives the one (c3 a9). So
# texts that look the same are not equal, and a search for one misses the other.
# imap_utf7_encode() takes ISO-8859-1 and gives `&6Q-`, the byte alone; imap_utf7_decode() of the
# right `&AOk-` gives two bytes, 00 e9. So a folder that another program has made has another name.
# imap_utf8_to_mutf7(), which would do, is not there: this c-client has no such function.
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

debian php8.2-cli=8.2.36-1~deb12u1 php8.2-imap=8.2.36-1~deb12u1 libc-client2007e=8:2007f~dfsg-7+b2
export LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu:$root/usr/lib
cat >"$folder/letters.php" <<'PHP'
<?php
foreach (['=?ISO-8859-1?Q?=E9?=', '=?UTF-8?B?w6k=?='] as $word) {
    echo "$word: ", bin2hex(imap_utf8($word)), ', ', bin2hex(imap_mime_header_decode($word)[0]->text), "\n";
}
echo 'encode e9: ', imap_utf7_encode("\xe9"), "\n";
echo 'decode &AOk-: ', bin2hex(imap_utf7_decode('&AOk-')), "\n";
echo 'imap_utf8_to_mutf7: ', var_export(function_exists('imap_utf8_to_mutf7'), true), "\n";
PHP
cat >"$folder/expected" <<'TEXT'
=?ISO-8859-1?Q?=E9?=: 65cc81, e9
=?UTF-8?B?w6k=?=: 65cc81, c3a9
encode e9: &6Q-
decode &AOk-: 00e9
imap_utf8_to_mutf7: false
TEXT
timeout 20 "$root/usr/bin/php8.2" -n -d "extension=$root/usr/lib/php/20220829/imap.so" \
    "$folder/letters.php" | tee "$folder/found"
cmp -s "$folder/found" "$folder/expected" || { echo "this is not what was recorded" >&2; exit 1; }
