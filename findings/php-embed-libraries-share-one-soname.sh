#!/usr/bin/env bash
# Debian's embeddable libraries of PHP 8.2 and PHP 8.4 have one soname, `libphp.so`: a program that
# is linked with one of them is given the other by the dynamic linker where both are installed.
#
# Software: libphp8.2-embed 8.2.36-1~deb12u1 of Debian 12 and libphp8.4-embed of Debian 13
# (8.4.27-1~deb13u1), with ldconfig and the dynamic linker of glibc 2.36.
#
# The files are called `libphp8.2.so` and `libphp8.4.so`, so the two packages can be installed side
# by side, and `-lphp8.2` links with the first. What a program asks for at its start is the soname
# of the library, though.
#
# Seen: the program needs `libphp.so`, which is no file of either package: ldconfig makes it, a link
# to the library whose name it takes for the newest. With both in one folder
#     NEEDED libphp.so
#     libphp.so -> libphp8.4.so
# and the program of 8.2 is given 8.4. It has to be told the name of the file: with `patchelf
# --replace-needed`, or by a folder of its own with that link.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# fetch RELEASE PACKAGE VERSION: unpacks a package of a release, from the mirror of this machine.
fetch() {
    local from options
    # shellcheck disable=SC2016
    from=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
    mkdir -p "$1/lists/partial" "$1/cache/archives/partial"
    for suite in "$1" "$1-updates"; do
        echo "deb [target=Packages signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $from $suite main"
    done >"$1/sources.list"
    echo "deb [target=Packages signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${from%/}-security $1-security main" >>"$1/sources.list"
    options=(-qq -o "Dir::Etc::SourceList=$folder/$1/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State::Lists=$folder/$1/lists" -o "Dir::Cache=$folder/$1/cache" -o Dir::State::status=/dev/null
        -o APT::Sandbox::User= -o Acquire::Retries=1)
    timeout 120 apt-get "${options[@]}" update >/dev/null 2>&1 || true
    timeout 60 apt-get "${options[@]}" download "$2=$3" >log 2>&1 ||
        { echo "there is no $2 of version $3 to be had" >&2; exit 2; }
    dpkg -x "$2"_*.deb unpacked
}
fetch bookworm libphp8.2-embed 8.2.36-1~deb12u1
fetch trixie libphp8.4-embed 8.4.27-1~deb13u1

mkdir libraries
cp unpacked/usr/lib/libphp8.2.so unpacked/usr/lib/libphp8.4.so libraries
echo 'extern int php_embed_init(int, char **); int main(void) { return php_embed_init(0, 0); }' >program.c
gcc program.c -o program -Llibraries -lphp8.2 -Wl,--unresolved-symbols=ignore-in-shared-libs
timeout 20 ldconfig -N -n libraries

needed=$(objdump -p program | awk '$1 == "NEEDED" && $2 ~ /php/ { print "NEEDED " $2 }')
link="libphp.so -> $(readlink libraries/libphp.so)"
# The linker only lists what it would load; nothing is run.
loader=$(objdump -s -j .interp program >/dev/null && readelf -p .interp program | grep -o '/[^ ]*')
given=$(timeout 20 "$loader" --library-path "$folder/libraries" --list "$folder/program" 2>/dev/null |
    awk '$1 == "libphp.so" { print $3 }' | xargs readlink)
found="$needed
$link
given $given"
owned=$(find unpacked -name libphp.so)
echo "$found"
expected='NEEDED libphp.so
libphp.so -> libphp8.4.so
given libphp8.4.so'
[ "$found$owned" = "$expected" ] || { echo 'not as recorded' >&2; exit 1; }
