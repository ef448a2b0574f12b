# Debian: w3m
set -eu
use=$1 url=$2
get() { w3m -o ssl_verify_server=1 -o ssl_ca_file="$AUTHORITY" -o ssl_ca_path= -dump_source "$@" </dev/null; }
case $use in
    page) get "$url" ;;
    kept) get "$2" && get "$3" ;;
    upload) get -post "$3" "$url" ;;
    compressed) get "$url" | gzip -cdf ;;
    *) exit 64 ;;
esac
