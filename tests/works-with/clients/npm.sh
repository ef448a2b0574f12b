# Debian: npm nodejs
set -eu
use=$1 url=$2
case $use in
    prepare)
        mkdir package
        echo '{"name": "paged", "version": "1.0.0"}' >package/package.json
        echo 'This is page 1.' >package/page
        tar czf "$2/paged.tgz" package
        ;;
    page)
        rm -rf node_modules cache
        npm --silent --no-update-notifier --cache=./cache --cafile="$AUTHORITY" --fetch-retries=0 --no-audit \
            --prefer-online install "${url%/page*}/paged.tgz" >&2 || { cat cache/_logs/*.log | grep error >&2; exit 1; }
        cat node_modules/paged/page
        ;;
    *) exit 64 ;;
esac
