#!/usr/bin/env bash
# Read by other scripts, after debian-package.sh: a clean Debian of some release in a folder. The
# caller has `say`, `die`, `no_fetch`, and a mount namespace of its own, with which all mounts vanish.

# The release of this machine, such as bookworm.
# shellcheck disable=SC1091
own_release() { (. /etc/os-release && echo "${VERSION_CODENAME:-sid}"); }

# The architecture that packages are made for or tried on.
architecture=${ARCH:-$(dpkg --print-architecture)}

# packages_of RELEASE: where its packages of that architecture are put.
packages_of() {
    local below=${CARGO_TARGET_DIR:-target}/packages
    [ "$architecture" = "$(dpkg --print-architecture)" ] || below+=-$architecture
    [ "$1" = "$(own_release)" ] || below+=/$1
    realpath -m "$below"
}

# newest FOLDER: the last that was made of each package in it.
newest() {
    find "$1" -maxdepth 1 -name '*.deb' -printf '%T@ %p\n' | sort -rn | cut -d ' ' -f 2- |
        awk -F / '{ name = $NF; sub(/_.*/, "", name) } !seen[name]++'
}

# Where apt finds a release: on the mirror of this machine, with the updates that it gets. A mirror
# that is no longer renewed has signatures that are good and old; DEBIAN_FROZEN=yes accepts those.
sources_of() {
    local release=$1 from=$2 security suites=$1
    if [ "$release" = sid ]; then suites='sid experimental'; else suites+=" $release-updates"; fi
    # shellcheck disable=SC2016
    security=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian-Security')
    print_source "$from" "$suites"
    [ "$release" = sid ] || [ -z "$security" ] || print_source "${security%%$'\n'*}" "$release-security"
}
print_source() {
    printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\n' "$1" "$2"
    [ "${DEBIAN_FROZEN:-}" != yes ] || echo 'Check-Valid-Until: no'
    printf 'Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n'
}

# in_debian ROOT COMMAND [SECONDS]: as its root.
in_debian() {
    timeout --kill-after=10 "${3:-900}" chroot "$1" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive sh -euc "$2"
}

# make_debian RELEASE ROOT [COMMAND]: unless it is there, with what the command installs.
make_debian() {
    local release=$1 root=$2 command=${3:-true} from
    [ ! -d "$root" ] || return 0
    from=$(mirror) || exit 3
    command -v debootstrap >/dev/null || die 'debootstrap is missing: apt-get install debootstrap'
    rm -rf "$root.partial"
    mkdir -p "$root.partial"
    say "making a Debian $release in $root"
    timeout --kill-after=10 1200 debootstrap --variant=minbase --include=ca-certificates,curl \
        "$release" "$root.partial" "$from" >"$root.log" 2>&1 ||
        { tail -n 5 "$root.log" >&2; no_fetch "debootstrap failed; all it said is in $root.log"; }
    # No service is started.
    printf '#!/bin/sh\nexit 101\n' >"$root.partial/usr/sbin/policy-rc.d"
    chmod 755 "$root.partial/usr/sbin/policy-rc.d"
    rm -f "$root.partial/etc/apt/sources.list"
    sources_of "$release" "$from" >"$root.partial/etc/apt/sources.list.d/debian.sources"
    mount -t proc proc "$root.partial/proc"
    in_debian "$root.partial" "apt-get update -qq -o APT::Update::Error-Mode=any; $command" >>"$root.log" 2>&1 ||
        { tail -n 5 "$root.log" >&2; no_fetch "apt failed; all it said is in $root.log"; }
    umount "$root.partial/proc"
    mv "$root.partial" "$root"
}

# lay_over ROOT [FOLDER SIZE]: sets `all` to a folder that shows it, in this one, or in ROOT with room
# for 2 GiB. What is written there vanishes.
lay_over() {
    local over=${2:-$1/mnt}
    mount -t tmpfs -o "size=${3:-2g}" tmpfs "$over"
    mkdir "$over"/{new,work,all}
    all=$over/all
    mount -t overlay overlay -o "lowerdir=$1,upperdir=$over/new,workdir=$over/work" "$all"
    mount -t proc proc "$all/proc"
}
