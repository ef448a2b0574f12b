# Debian: gnutls-bin
set -eu
use=$1 url=$2
place=${url#https://} place=${place%%/*}
request() { printf 'GET /%s HTTP/1.1\r\nHost: %s\r\nConnection: %s\r\n\r\n' "${1#https://*/}" "$place" "$2"; }
talk() { gnutls-cli --logfile=log --x509cafile="$AUTHORITY" -p "${place#*:}" "${place%:*}"; }
# It leaves when its input ends.
case $use in
    page) { request "$url" close; sleep 1; } | talk ;;
    kept) { request "$2" keep-alive; request "$3" close; sleep 1; } | talk ;;
    *) exit 64 ;;
esac
