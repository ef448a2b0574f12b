# Debian: socat
set -eu
use=$1 url=$2
place=${url#https://} place=${place%%/*}
request() { printf 'GET /%s HTTP/1.1\r\nHost: %s\r\nConnection: %s\r\n\r\n' "${1#https://*/}" "$place" "$2"; }
talk() { socat -t 20 - "OPENSSL:$place,cafile=$AUTHORITY"; }
# The end of its input is the end of the connection.
case $use in
    page) { request "$url" close; sleep 1; } | talk ;;
    kept) { request "$2" keep-alive; request "$3" close; sleep 1; } | talk ;;
    *) exit 64 ;;
esac
