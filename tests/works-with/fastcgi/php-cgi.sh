#!/bin/sh
# php-cgi with two processes, on a socket of its own: PROGRAM SOCKET.
umask 0
PHP_FCGI_CHILDREN=2 exec "$1" -b "$2"
