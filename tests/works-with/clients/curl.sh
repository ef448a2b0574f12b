# Debian: curl
set -eu
use=$1 url=$2
shift
get() { curl -sS --cacert "$AUTHORITY" "$@"; }
case $use in
    page) get "$url" ;;
    kept) get "$1" "$2" ;;
    later) get --rate 15/m "$1" "$2" ;; # four seconds from request to request
    range) get -C - -o "$2" "$url" && cat "$2" ;;
    upload) get -T "$2" "$url" ;;
    compressed) get --compressed "$url" ;;
esac
