# Debian: tcl-tls tcl
package require http
package require tls
lassign $argv use url other
fconfigure stdout -translation binary
::http::register https 443 [list ::tls::socket -autoservername 1 -require 1 -cafile $env(AUTHORITY)]

proc ask {url args} {
    set token [::http::geturl $url -keepalive 1 -binary 1 -timeout 30000 {*}$args]
    if {[::http::status $token] ne "ok"} {
        puts stderr "[::http::status $token] [::http::error $token]"
        exit 1
    }
    puts -nonewline [::http::data $token]
    flush stdout
    ::http::cleanup $token
}

proc content {name} {
    set file [open $name rb]
    return [read $file]
}

switch $use {
    page - compressed { ask $url }
    kept { ask $url; ask $other }
    later { ask $url; gets stdin; ask $other }
    range {
        set part [content $other]
        puts -nonewline $part
        ask $url -headers [list Range "bytes=[string length $part]-" Accept-Encoding identity]
    }
    upload { ask $url -type text/plain -query [content $other] }
}
exit 0
