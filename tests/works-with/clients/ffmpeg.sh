# Debian: ffmpeg
set -eu
use=$1 url=$2
export SSL_CERT_FILE="$AUTHORITY"
get() { ffmpeg -v error -tls_verify 1 -ca_file "$AUTHORITY" "$@" </dev/null; }
# Each byte is a sample of a sound.
case $use in
    page | compressed) get -f u8 -ar 8000 -ac 1 -i "$url" -f u8 - ;;
    range) cat "$3" && get -f u8 -ar 8000 -ac 1 -offset "$(wc -c <"$3")" -i "$url" -f u8 - ;;
    upload)
        ffmpeg -v error -f u8 -ar 8000 -ac 1 -i "$3" -f u8 -method POST -send_expect_100 1 \
            -tls_verify 1 -ca_file "$AUTHORITY" "$url" </dev/null
        exit 64 # it does not show the answer
        ;;
    *) exit 64 ;;
esac
