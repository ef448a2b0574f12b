# Debian: python3-pip python3
set -eu
use=$1 url=$2
case $use in
    prepare)
        mkdir "$2/list"
        python3 - "$2/list" <<END
import sys, zipfile
name = "paged-1-py3-none-any.whl"
with zipfile.ZipFile(f"{sys.argv[1]}/{name}", "w") as wheel:
    wheel.writestr("paged.txt", "This is page 1.\nThis is page 2.\n")
    about = "paged-1.dist-info"
    wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: paged\nVersion: 1\n")
    wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
    wheel.writestr(f"{about}/RECORD", "")
open(f"{sys.argv[1]}/index.html", "w").write(f'<!doctype html><a href="{name}">{name}</a>')
END
        ;;
    page | kept)
        python3 -m pip -q --no-cache-dir --disable-pip-version-check --retries 0 --cert "$AUTHORITY" \
            download --no-deps --no-index -f "${url%/page*}/list/index.html" -d got paged >&2
        python3 -c 'import zipfile; print(zipfile.ZipFile("got/paged-1-py3-none-any.whl").read("paged.txt").decode())'
        rm -r got
        ;;
    *) exit 64 ;;
esac
