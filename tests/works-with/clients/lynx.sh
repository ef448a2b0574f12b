# Debian: lynx
set -eu
use=$1 url=$2
export SSL_CERT_FILE="$AUTHORITY"
case $use in
    page) lynx -source "$url" </dev/null ;;
    upload) lynx -source -post_data "$url" <"$3" ;;
    compressed) lynx -source "$url" </dev/null ;;
    *) exit 64 ;;
esac
