#!/usr/bin/env bash
# Read by other scripts: fetches the source of a PHP, as Debian has it.

php_version() { php -n -r 'echo PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION;'; }

# fetch_php_source FOLDER VERSION PATTERN…: unpacks what matches the patterns, and writes
# FOLDER/VERSION. Asks an apt that knows the sources of the configured suites, or of those of another
# release in RELEASE, and changes nothing of this machine's. PHP_SOURCE is an archive to take instead,
# where no mirror has the source. The caller has `die`, and `no_fetch` for what the network is to blame
# for.
fetch_php_source() (
    to=$1 package=php$2 frozen=''
    shift 2
    if [ -n "${PHP_SOURCE:-}" ]; then
        mkdir -p "$to"
        tar -C "$to" --strip-components=1 --wildcards -xf "$PHP_SOURCE" "$@"
        echo "${PHP_SOURCE##*/}" >"$to/VERSION"
        return
    fi
    command -v apt-get >/dev/null || die 'this is not a Debian machine'
    scratch=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$scratch'" EXIT
    mkdir -p "$scratch/lists/partial" "$scratch/cache/archives/partial"
    # shellcheck disable=SC1091
    own=$(. /etc/os-release && echo "${VERSION_CODENAME:-sid}")
    # As in clean-debian.sh.
    [ "${DEBIAN_FROZEN:-}" != yes ] || frozen=' check-valid-until=no'
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
        sed "s|^|deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg$frozen] |; s| $own| ${RELEASE:-$own}|" |
        sort -u >"$scratch/sources.list"
    [ -s "$scratch/sources.list" ] || die 'no Debian mirror in /etc/apt/sources.list*'
    options=(-qq -o "Dir::Etc::SourceList=$scratch/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State::Lists=$scratch/lists" -o "Dir::Cache=$scratch/cache" -o APT::Sandbox::User=
        -o Acquire::Retries=1 -o Acquire::http::Timeout=15)
    timeout 120 apt-get "${options[@]}" update >&2 || no_fetch 'the lists of Debian sources could not be fetched'
    # A mirror may know of a version and not have it.
    for version in $(apt-cache "${options[@]}" showsrc "$package" | sed -n 's/^Version: //p' | sort -Vr); do
        (cd "$scratch" && timeout 300 apt-get "${options[@]}" source --download-only "$package=$version" >&2) || continue
        mkdir -p "$scratch/tree"
        rm -f "$scratch"/*.asc
        tar -C "$scratch/tree" --strip-components=1 --wildcards -xf "$scratch"/*.orig.tar.* "$@"
        echo "$package $version" >"$scratch/tree/VERSION"
        mkdir -p "${to%/*}"
        rm -rf "$to"
        mv "$scratch/tree" "$to"
        return
    done
    no_fetch "no source of $package could be fetched"
)
