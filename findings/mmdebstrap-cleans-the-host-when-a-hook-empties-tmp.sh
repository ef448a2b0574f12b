#!/usr/bin/env bash
# mmdebstrap's last step empties apt's lists of the machine that it runs on, and not those of the
# Debian that it makes, if a customize hook has emptied /tmp of the new root. It ends with 0.
#
# Software: mmdebstrap 1.3.5-7 of Debian 12 (bookworm), with apt 2.6.1. Needs root.
#
# While hooks run, the file that tells apt to keep to the new root (`APT_CONFIG`) lies in the new
# root's own /tmp, as `mmdebstrap.apt.conf.` and ten letters. Hooks that make an image smaller often
# end with `rm -rf "$1"/tmp/*`. After that the cleanup calls `apt-get update` without any sources,
# and `apt-get clean`, with a file that is gone, which apt takes for an empty one: it acts on `/`.
#
# Seen, with lists of the machine that only a mount namespace sees:
#     without the hook: status 0, lists kept
#     with the hook: status 0, lists gone
# The machine then has no package lists until the next `apt-get update`.
set -euo pipefail

[ "$(id -u)" = 0 ] || { echo 'needs root' >&2; exit 2; }
if [ -z "${INSIDE:-}" ]; then
    exec env INSIDE=1 unshare --mount --propagation private "$0"
fi
folder=$(mktemp -d)
trap 'cd / && umount --lazy "$folder" && rmdir "$folder"' EXIT
mount -t tmpfs tmpfs "$folder"
cd "$folder"

timeout 60 apt-get -qq -o APT::Sandbox::User= download mmdebstrap=1.3.5-7 >log 2>&1 ||
    { echo 'there is no mmdebstrap of version 1.3.5-7 to be had' >&2; exit 2; }
dpkg -x mmdebstrap_*.deb unpacked
# shellcheck disable=SC2016
from=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $from bookworm main" >sources.list

# What is mounted here belongs to this namespace: the machine's own lists and archives stay.
for place in lists archives; do mkdir -p "machine/$place/partial"; done
mount --bind machine/archives /var/cache/apt/archives
cp -a /var/lib/apt/lists/. machine/lists
mount --bind machine/lists /var/lib/apt/lists

# try NAME HOOK: a root with the package lists alone, which is the smallest that can be made.
try() {
    local status=0 lists=kept
    timeout 120 perl unpacked/usr/bin/mmdebstrap --mode=root --variant=custom --quiet \
        --customize-hook="$2" bookworm "$folder/root.tar" "$folder/sources.list" >log 2>&1 || status=$?
    compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null || lists=gone
    echo "$1: status $status, lists $lists"
}
# The single quotes are for the shell of the hook.
# shellcheck disable=SC2016
found=$(try 'without the hook' 'true' && try 'with the hook' 'rm -rf "$1"/tmp/*')
echo "$found"
expected='without the hook: status 0, lists kept
with the hook: status 0, lists gone'
[ "$found" = "$expected" ] || { cat log >&2; echo 'not as recorded' >&2; exit 1; }
