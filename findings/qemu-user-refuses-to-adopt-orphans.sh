#!/usr/bin/env bash
# qemu-user 7.2 answers EINVAL to prctl(PR_SET_CHILD_SUBREAPER), which each kernel since 3.4 has: a
# supervisor that wants to be the parent of orphaned processes fails at its start under emulation.
#
# Software: qemu-user-static 1:7.2+dfsg-7+deb12u18+b3 of Debian 12 (amd64), with perl-base
# 5.36.0-7+deb12u3 and libc6 2.36-9+deb12u14 of its arm64.
#
# The emulator hands most options without pointers on to the kernel, among them
# PR_SET_NO_NEW_PRIVS and PR_SET_DUMPABLE. This one it has in a list that it refuses by itself: the
# same call of an amd64 program is answered by the same kernel with 0.
#
# Seen:
#     emulated PR_SET_CHILD_SUBREAPER: Invalid argument
#     emulated PR_SET_NO_NEW_PRIVS: ok
#     native PR_SET_CHILD_SUBREAPER: ok
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# shellcheck disable=SC2016
from=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
mkdir -p lists/partial cache/archives/partial
for suite in bookworm bookworm-updates; do
    echo "deb [target=Packages signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $from $suite main"
done >sources.list
echo "deb [target=Packages signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${from%/}-security bookworm-security main" >>sources.list
options=(-qq -o "Dir::Etc::SourceList=$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$folder/lists" -o "Dir::Cache=$folder/cache" -o Dir::State::status=/dev/null
    -o APT::Architectures::=amd64 -o APT::Architectures::=arm64 -o APT::Sandbox::User= -o Acquire::Retries=1)
timeout 120 apt-get "${options[@]}" update >/dev/null 2>&1 || true
fetch() {
    timeout 60 apt-get "${options[@]}" download "$1=$2" >log 2>&1 || { echo "there is no $1 of version $2 to be had" >&2; exit 2; }
}
fetch qemu-user-static:amd64 1:7.2+dfsg-7+deb12u18+b3
fetch perl-base:arm64 5.36.0-7+deb12u3
fetch libc6:arm64 2.36-9+deb12u14
fetch libcrypt1:arm64 1:4.4.33-2
dpkg-deb -x qemu-user-static_*.deb emulator
for package in *_arm64.deb; do dpkg-deb -x "$package" arm64; done

# prctl has the number 167 on arm64 and 157 on amd64; its argument is 1.
# shellcheck disable=SC2016
script='my ($call, $option, $name) = @ARGV; my $result = syscall($call + 0, $option + 0, 1, 0, 0, 0);
    print "$name: ", ($result < 0 ? "$!" : "ok"), "\n"'
emulated() { timeout 20 emulator/usr/bin/qemu-aarch64-static -L arm64 arm64/usr/bin/perl -e "$script" 167 "$@"; }
found="emulated $(emulated 36 PR_SET_CHILD_SUBREAPER)
emulated $(emulated 38 PR_SET_NO_NEW_PRIVS)
native $(timeout 20 perl -e "$script" 157 36 PR_SET_CHILD_SUBREAPER)"
echo "$found"
expected='emulated PR_SET_CHILD_SUBREAPER: Invalid argument
emulated PR_SET_NO_NEW_PRIVS: ok
native PR_SET_CHILD_SUBREAPER: ok'
[ "$found" = "$expected" ] || { echo 'not as recorded' >&2; exit 1; }
