# Debian: nghttp2-client
set -eu
use=$1
shift
case $use in
    page) nghttp "$1" ;;
    kept) nghttp "$1" "$2" ;;
    upload) nghttp -d "$2" "$1" ;;
    *) exit 64 ;; # what it is told to accept it does not decode
esac
