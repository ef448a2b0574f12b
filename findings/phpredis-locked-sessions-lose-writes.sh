#!/usr/bin/env bash
# phpredis: with locked sessions, a request that waits for 20 ms goes on without the lock, and what
# it writes is dropped while PHP says that it was stored.
#
# Software: phpredis 5.3.7 (php8.2-redis 5.3.7+4.3.0-3), PHP 8.2 of Debian 12, Redis 7.0.15.
#
# `redis.session.locking_enabled = 1` is there so that requests of one session take turns. The
# other settings are the defaults: `lock_retries = 10`, `lock_wait_time = 2000` (microseconds).
#
# Seen: while another process has the session,
#   - session_start() returns true after about 20 ms, with a notice, and without the lock;
#   - session_write_close() returns true, with a warning, and nothing is stored;
#   - the lock of a command line script, whose `max_execution_time` is 0, has no expiry: if the
#     process dies, the session stays locked.
# With `lock_retries = -1` the same script waits, and both changes are there.
set -euo pipefail

folder=$(mktemp -d)
server=''
trap '[ -z "$server" ] || kill "$server"; wait; rm -rf "$folder"' EXIT

# Prints where the files of a Debian package of this version lie: nothing if it is installed, else
# a folder it was unpacked into.
debian() {
    if [ "$(dpkg-query -W -f '${Version}' "$1" 2>/dev/null)" != "$2" ]; then
        (cd "$folder" && apt-get download "$1=$2" >log 2>&1) ||
            { echo "there is no $1 of version $2 to be had" >&2; exit 2; }
        dpkg -x "$folder/$1"_*.deb "$folder/$1"
        echo "$folder/$1"
    fi
}
command -v php8.2 >/dev/null || { echo 'install php8.2-cli first' >&2; exit 2; }
# All programs of Redis are one, which looks at its name.
tools=$(debian redis-tools 5:7.0.15-1~deb12u10)
unpacked=$(debian php8.2-redis 5.3.7+4.3.0-3)
settings=()
if [ -n "$unpacked" ]; then
    igbinary=$(debian php8.2-igbinary 3.2.13-1)
    # Installed, they are loaded by files of their own.
    for extension in "${igbinary:+$igbinary/usr/lib/php/20220829/igbinary.so}" "$unpacked/usr/lib/php/20220829/redis.so"; do
        [ -z "$extension" ] || settings+=(-d "extension=$extension")
    done
fi

ln -s "$tools/usr/bin/redis-check-rdb" "$folder/redis-server"
"$folder/redis-server" --port 0 --unixsocket "$folder/redis" --save '' --dir "$folder" >"$folder/redis.log" &
server=$!
redis() { timeout 5 "$tools/usr/bin/redis-cli" -s "$folder/redis" "$@"; }
for _ in $(seq 100); do redis ping >/dev/null 2>&1 && break; sleep 0.05; done

# script RETRIES NAME CODE: NAME is added to the session.
script() {
    timeout 10 php8.2 "${settings[@]}" -d session.save_handler=redis -d "session.save_path=unix://$folder/redis" \
        -d redis.session.locking_enabled=1 -d "redis.session.lock_retries=$1" \
        -d session.use_cookies=0 -d session.cache_limiter= -d log_errors=0 -d display_errors=0 \
        -r "session_id('one'); \$started = session_start(); \$meanwhile = !file_exists('$folder/go');
            \$_SESSION['$2'] = 1; $3
            \$stored = session_write_close();
            echo json_encode([\$started, \$meanwhile, \$stored]);"
}
# both RETRIES: what the second script says, and the session after it. The first one has the session
# until a file is there: which is when the second one has ended, but not later than in two seconds.
both() {
    redis flushall >/dev/null
    rm -f "$folder/go"
    script "$1" first "while (!file_exists('$folder/go')) { usleep(10000); }" >/dev/null &
    local first=$! second
    until [ "$(redis exists PHPREDIS_SESSION:one_LOCK)" = 1 ]; do sleep 0.01; done
    printf 'expiry of the lock: %s; ' "$(redis pttl PHPREDIS_SESSION:one_LOCK)"
    script "$1" second '' >"$folder/second" &
    second=$!
    for _ in $(seq 20); do kill -0 "$second" 2>/dev/null || break; sleep 0.1; done
    touch "$folder/go"
    wait "$first" "$second"
    printf 'started, meanwhile, stored: %s; ' "$(cat "$folder/second")"
    printf 'the session: %s\n' "$(redis get PHPREDIS_SESSION:one)"
}
default=$(both 10) unlimited=$(both -1)
printf 'lock_retries = 10: %s\nlock_retries = -1: %s\n' "$default" "$unlimited"
if [ "$default" != 'expiry of the lock: -1; started, meanwhile, stored: [true,true,true]; the session: first|i:1;' ] ||
    [ "$unlimited" != 'expiry of the lock: -1; started, meanwhile, stored: [true,false,true]; the session: first|i:1;second|i:1;' ]; then
    echo 'this is not what was recorded' >&2
    exit 1
fi
