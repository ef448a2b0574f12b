# Debian: git
set -eu
use=$1 url=$2
# A repository is served as plain files, without a program that knows git.
case $use in
    prepare)
        git init -q work && cd work
        printf 'This is page 1.\nThis is page 2.\n' >file && git add file
        git -c user.name=ann -c user.email=ann@localhost commit -qm 'Add a file'
        cd .. && git clone -q --bare work "$2/repository.git"
        git -C "$2/repository.git" update-server-info
        ;;
    page | kept)
        rm -rf copy
        git -c http.sslCAInfo="$AUTHORITY" clone -q "${url%/page*}/repository.git" copy && cat copy/file
        ;;
    *) exit 64 ;;
esac
