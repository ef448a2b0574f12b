#!/usr/bin/env bash
# gcc takes a precompiled header from a folder that has no header of that name, and then cannot read
# the header a second time.
#
# Software: gcc 12.2.0-14+deb12u1 of Debian 12.
#
# `#include "first.h"` finds `first.h.gch` in each folder of the search, before the header itself.
# So a build may keep precompiled headers in a folder of their own, in front of the sources'. That
# works until a file names the header twice, or has it by -include and names it as well.
#
# Seen: one #include is answered by the precompiled header, with status 0. A second one of the same
# name is looked up where the first was found:
#     fatal error: precompiled/first.h: No such file or directory
# though the header's guard would leave nothing of it, and though it is in the next folder of the
# search. An #include of it in another header is answered. With the header beside its precompiled
# form there is no error.
set -euo pipefail

version=$(gcc -dumpfullversion)
[ "$version" = 12.2.0 ] || { echo "this is gcc $version, not 12.2.0" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

mkdir headers precompiled
cat >headers/first.h <<'C'
#ifndef FIRST_H
#define FIRST_H
int first(void);
#endif
C
echo '#include "first.h"' >headers/other.h
timeout 30 gcc -x c-header -o precompiled/first.h.gch headers/first.h

compiles() {
    printf '#include "%s"\n' "$@" >program.c
    echo 'int main(void) { return first(); }' >>program.c
    status=0
    LC_ALL=C timeout 30 gcc "${more[@]}" -Iprecompiled -Iheaders -c program.c 2>log || status=$?
    grep -o 'fatal error: .*' log || echo "status $status"
}
more=()
found="once: $(compiles first.h)
twice: $(compiles first.h first.h)
by another header: $(compiles first.h other.h)
$(more=(-include first.h); echo "by -include and once: $(compiles first.h)")"
cp headers/first.h precompiled
found+="
twice, the header beside it: $(compiles first.h first.h)"
echo "$found"
[ "$found" = 'once: status 0
twice: fatal error: precompiled/first.h: No such file or directory
by another header: status 0
by -include and once: fatal error: precompiled/first.h: No such file or directory
twice, the header beside it: status 0' ] || { echo 'this is not what was recorded' >&2; exit 1; }
