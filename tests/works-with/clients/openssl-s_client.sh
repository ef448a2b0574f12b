# Debian: openssl
set -eu
use=$1 url=$2
place=${url#https://} place=${place%%/*}
request() { printf 'GET /%s HTTP/1.1\r\nHost: %s\r\nConnection: %s\r\n\r\n' "${1#https://*/}" "$place" "$2"; }
talk() {
    openssl s_client -quiet -CAfile "$AUTHORITY" -verify_return_error -verify_hostname "${place%:*}" \
        -servername "${place%:*}" -connect "$place"
}
case $use in
    page) request "$url" close | talk ;;
    kept) { request "$2" keep-alive; request "$3" close; } | talk ;;
    *) exit 64 ;;
esac
