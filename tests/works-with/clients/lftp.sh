# Debian: lftp
set -eu
use=$1 url=$2
shift
set_up="set ssl:ca-file $AUTHORITY; set net:max-retries 2; set cmd:fail-exit true"
get() { lftp -c "$set_up; $1"; }
case $use in
    page) get "cat '$url'" ;;
    kept) get "cat '$1'; cat '$2'" ;;
    later) get "cat '$1'; !read line
        cat '$2'" ;;
    range) get "get -c '$url' -o $2" && cat "$2" ;;
    upload) exit 64 ;; # it does not show the answer to what it puts
    *) exit 64 ;;
esac
