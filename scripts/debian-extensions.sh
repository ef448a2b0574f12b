#!/usr/bin/env bash
# Read by other scripts, which have `die`: packages of Debian in a folder, without installing them.

# unpack FOLDER PACKAGE...: with the libraries that they need and that are not installed.
unpack() {
    local folder=$1
    command -v apt-get >/dev/null || die "this needs Debian's packages"
    mkdir -p "$folder/packages/partial"
    timeout 600 apt-get install -qq -y --download-only --no-install-recommends \
        -o "Dir::Cache::archives=$folder/packages" -o APT::Sandbox::User= "${@:2}" >"$folder/packages/log" 2>&1 ||
        { tail -n 5 "$folder/packages/log" >&2; die "not all of these can be downloaded: ${*:2}"; }
    unpack_all "$folder"
}

# unpack_alone FOLDER PACKAGE...: these alone, also if they cannot be installed beside others.
unpack_alone() {
    local folder=$1
    mkdir -p "$folder/packages"
    (cd "$folder/packages" && timeout 300 apt-get download -qq -o APT::Sandbox::User= "${@:2}") || die "not all of these can be downloaded: ${*:2}"
    unpack_all "$folder"
}

unpack_all() {
    local package
    for package in "$1"/packages/*.deb; do
        dpkg-deb -x "$package" "$1"
    done
    rm -f "$1"/packages/*.deb
    chmod -R a+rX "$1"
}

# libraries_in FOLDER: a search path for the dynamic linker.
libraries_in() {
    find "$1" -name '*.so.*' -printf '%h\n' | sort -u | paste -s -d :
}
