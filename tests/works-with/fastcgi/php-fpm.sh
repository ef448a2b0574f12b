#!/bin/sh
# php-fpm with two processes: PROGRAM SOCKET.
settings=$(dirname "$2")/fpm.conf
{
    printf '[global]\nerror_log = /proc/self/fd/2\n[app]\npm = static\npm.max_children = 2\n'
    printf 'listen = %s\nlisten.mode = 0666\n' "$2"
    [ "$(id -u)" != 0 ] || echo 'user = nobody'
} >"$settings"
exec "$1" --nodaemonize --fpm-config "$settings"
