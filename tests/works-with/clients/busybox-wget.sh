# Debian: busybox openssl
set -eu
use=$1 url=$2
# TLS is a process of openssl's.
export SSL_CERT_FILE="$AUTHORITY"
case $use in
    page) busybox wget -q -O - "$url" ;;
    range) busybox wget -q -c -O "$3" "$url" && cat "$3" ;;
    upload) busybox wget -q -O - --post-file "$3" "$url" ;;
    *) exit 64 ;;
esac
