# Debian: wget2
set -eu
use=$1 url=$2
shift
get() { wget2 -q -O - --no-hsts --ca-certificate="$AUTHORITY" "$@"; }
case $use in
    page) get "$url" ;;
    kept) get --max-threads=1 "$1" "$2" ;;
    later) get --max-threads=1 --wait=4 "$1" "$2" ;;
    # With -O it fetches all of it.
    range) mv "$2" "${url##*/}" && wget2 -q -c --no-hsts --ca-certificate="$AUTHORITY" "$url" && cat "${url##*/}" ;;
    upload) get --post-file="$2" "$url" ;;
    compressed) get --compression=br,gzip "$url" ;;
esac
