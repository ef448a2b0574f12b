#!/usr/bin/perl
# A FastCGI application in Perl, with the module FCGI (Debian's libfcgi-perl): one process, one request at a time. On
# descriptor 0, where who starts it puts a listening socket, or on a socket of its own:
#
#     perl app.pl /tmp/app.sock
use strict;
use warnings;
use FCGI;

umask 0;    # whoever runs the web server may connect
my $listening = @ARGV ? FCGI::OpenSocket($ARGV[0], 128) : 0;
my ($in, $out, $err, %env) = (\*STDIN, \*STDOUT, \*STDERR);
my $request = FCGI::Request($in, $out, $err, \%env, $listening);
my $count = 0;

my %pages = (
    '/env'  => sub { print "Content-Type: text/plain\r\n\r\n", map {"$_=$env{$_}\n"} sort keys %env },
    '/echo' => sub {
        my $left = $env{CONTENT_LENGTH} || 0;
        print "Content-Type: application/octet-stream\r\n\r\n";
        while ($left > 0 and my $n = read STDIN, my $piece, $left < 8192 ? $left : 8192) {
            print $piece;
            $left -= $n;
        }
    },
    '/count'    => sub { print "Content-Type: text/plain\r\n\r\n", ++$count, "\n" },
    '/complain' => sub {
        print STDERR "something is wrong\n";
        print "Content-Type: text/plain\r\n\r\nsaid\n";
    },
);

while ($request->Accept() >= 0) {
    my $page = $pages{ $env{PATH_INFO} };
    if   ($page) { $page->() }
    else         { print "Status: 404 Not Found\r\nContent-Type: text/plain\r\n\r\nnothing here\n" }
}
