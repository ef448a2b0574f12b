# Debian: elinks
set -eu
use=$1 url=$2
# It has no option for the file of an authority.
get() { elinks -eval 'set connection.ssl.cert_verify = 1' -eval "set connection.ssl.trusted_ca_file = \"$AUTHORITY\"" -source "$url" </dev/null; }
case $use in
    page | compressed) get ;;
    *) exit 64 ;;
esac
