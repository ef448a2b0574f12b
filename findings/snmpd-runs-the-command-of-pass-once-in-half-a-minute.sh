#!/usr/bin/env bash
# Net-SNMP's agent gives an answer of a `pass` command for half a minute without running the command
# again, though its manual has each request run it.
#
# Software: snmpd and snmp 5.9.3+dfsg-2+deb12u1 of Debian 12.
#
# snmpd.conf(5) says of `pass` that requests trigger the command, of `extend` that the agent caches
# what it prints, and of `exec` that it does not. A command counts its runs, and is asked for one OID
# five times, one after the other, and for another OID.
#
# Seen: the five are answered by one run, the sixth by another one. So a value that changes within
# half a minute is read as it was.
set -euo pipefail

folder=$(mktemp -d)
server=
# snmpd writes once more when it ends.
trap '[ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null || true; rm -rf "$folder"' EXIT

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

debian snmpd=5.9.3+dfsg-2+deb12u1 snmp=5.9.3+dfsg-2+deb12u1
libraries=$(find "$root" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
export LD_LIBRARY_PATH=$libraries SNMP_PERSISTENT_DIR=$folder/persistent MIBS=
mkdir "$folder/persistent"
port=$(python3 -c 'import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >"$folder/value" <<SH
echo run >>$folder/runs
printf '%s\nstring\nrun %s\n' "\$2" "\$(wc -l <$folder/runs)"
SH
printf 'rocommunity works 127.0.0.1\npass .1.3.6.1.4.1.8072.9999.1 /bin/sh %s/value\n' "$folder" >"$folder/settings"
timeout 60 "$root/usr/sbin/snmpd" -f -Ln -C -c "$folder/settings" "udp:127.0.0.1:$port" &
server=$!
# ask OID [OPTION...]
ask() {
    timeout 10 "$root/usr/bin/snmpget" -v 2c -c works -Oqv "${@:2}" "127.0.0.1:$port" "$1"
}
for _ in $(seq 50); do
    ask .1.3.6.1.2.1.1.3.0 -r 0 -t 0.2 >/dev/null 2>&1 && break
done
{
    for _ in 1 2 3 4 5; do echo "one: $(ask .1.3.6.1.4.1.8072.9999.1.7)"; done
    echo "another: $(ask .1.3.6.1.4.1.8072.9999.1.8)"
} | tee "$folder/found"
cat >"$folder/expected" <<'TEXT'
one: "run 1"
one: "run 1"
one: "run 1"
one: "run 1"
one: "run 1"
another: "run 2"
TEXT
cmp -s "$folder/found" "$folder/expected" || { echo "this is not what was recorded" >&2; exit 1; }
