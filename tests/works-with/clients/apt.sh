# Debian: apt
set -eu
use=$1 url=$2
shift
get() { /usr/lib/apt/apt-helper -q -o Acquire::https::CAInfo="$AUTHORITY" -o APT::Sandbox::User= \
    -o Acquire::Retries=0 download-file "$@" >log 2>&1 || { cat log >&2; exit 1; }; }
case $use in
    page) get "$url" page && cat page ;;
    kept) get "$1" 1 '' "$2" 2 '' && cat 1 2 ;;
    range) get "$url" "$2" && cat "$2" ;;
    compressed) get "$url" file && cat file ;;
    *) exit 64 ;;
esac
