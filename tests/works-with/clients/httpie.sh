# Debian: httpie
set -eu
use=$1 url=$2
shift
get() { https --ignore-stdin --check-status --body --verify="$AUTHORITY" "$@"; }
case $use in
    page) get "$url" ;;
    range) get --download --continue -o "$2" "$url" && cat "$2" ;;
    upload) https --check-status --body --verify="$AUTHORITY" POST "$url" <"$2" ;;
    compressed) get "$url" ;;
    *) exit 64 ;;
esac
