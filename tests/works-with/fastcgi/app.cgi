#!/bin/sh
# A CGI program, for fcgiwrap.
printf 'Content-Type: text/plain\r\n\r\n'
case $PATH_INFO in
/echo) cat ;;
*) env ;;
esac
