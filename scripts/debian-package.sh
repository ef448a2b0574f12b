#!/usr/bin/env bash
# Read by other scripts: fetches a package of another Debian release. The caller has `die`, and
# `no_fetch` for what the network is to blame for.

mirror() {
    local found=${DEBIAN_MIRROR:-}
    command -v apt-get >/dev/null || die 'this is not a Debian machine'
    # apt reads both forms of /etc/apt/sources.list*; the label needs the package lists, so without them any will do.
    # shellcheck disable=SC2016
    [ -n "$found" ] || found=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian')
    # shellcheck disable=SC2016
    [ -n "$found" ] || found=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages')
    [ -n "$found" ] || die 'no Debian mirror in /etc/apt/sources.list*; name one in DEBIAN_MIRROR'
    echo "${found%%$'\n'*}"
}

# fetch_package RELEASE PACKAGE FOLDER: unpacks it there, by an apt that knows the one release and
# nothing of this machine. In a subshell: it leaves a trap.
fetch_package() {
    local release=$1 package=$2 to=$3 frozen='' from work options
    from=$(mirror) || exit 3
    work=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$work'" EXIT
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$(dirname "$to")"
    # As in clean-debian.sh.
    [ "${DEBIAN_FROZEN:-}" != yes ] || frozen=' check-valid-until=no'
    echo "deb [target=Packages$frozen signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $from $release main" \
        >"$work/sources.list"
    options=(-qq -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o Dir::State::status=/dev/null
        -o APT::Sandbox::User= -o Acquire::Retries=1 -o Acquire::http::Timeout=15)
    timeout 90 apt-get "${options[@]}" -o APT::Update::Error-Mode=any update ||
        no_fetch "the package lists of Debian $release could not be fetched"
    (cd "$work" && timeout 60 apt-get "${options[@]}" download "$package") ||
        no_fetch "$package could not be fetched"
    dpkg-deb -x "$work"/*.deb "$work/root"
    rm -rf "$to"
    mv "$work/root" "$to"
}
