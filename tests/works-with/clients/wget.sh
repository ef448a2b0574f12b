# Debian: wget
set -eu
use=$1 url=$2
shift
get() { wget -q -O - --no-hsts --ca-certificate="$AUTHORITY" "$@"; }
case $use in
    page) get "$url" ;;
    kept) get "$1" "$2" ;;
    later) get --wait=4 "$1" "$2" ;;
    range) wget -q -c --no-hsts --ca-certificate="$AUTHORITY" -O "$2" "$url" && cat "$2" ;;
    upload) get --post-file="$2" "$url" ;;
    compressed) get --compression=auto "$url" ;;
esac
