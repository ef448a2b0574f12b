# Debian: aria2
set -eu
use=$1 url=$2
shift
get() { aria2c -q --ca-certificate="$AUTHORITY" "$@"; }
case $use in
    page) get -o page "$url" && cat page ;;
    kept)
        printf '%s\n out=1\n' "$1" >list && printf '%s\n out=2\n' "$2" >>list
        get -j 1 -i list && cat 1 2
        ;;
    range) get -c -o "$2" "$url" && cat "$2" ;;
    compressed) get --http-accept-gzip -o file "$url" && cat file ;;
    *) exit 64 ;;
esac
