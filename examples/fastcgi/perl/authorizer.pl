#!/usr/bin/perl
# A FastCGI authorizer in Perl, with the module FCGI (Debian's libfcgi-perl). It lets pass who knows the word for a name, by HTTP's
# Basic authentication, and tells the application who that is. On descriptor 0, or on a socket of its own:
#
#     perl authorizer.pl /tmp/authorizer.sock
use strict;
use warnings;
use FCGI;
use MIME::Base64;

my %words = (ada => 'enigma', grace => 'moth');

umask 0;    # whoever runs the web server may connect
my $listening = @ARGV ? FCGI::OpenSocket($ARGV[0], 128) : 0;
my %env;
my $request = FCGI::Request(\*STDIN, \*STDOUT, \*STDERR, \%env, $listening);

while ($request->Accept() >= 0) {
    my ($credentials) = ($env{HTTP_AUTHORIZATION} // '') =~ /^Basic (\S+)$/i;
    my ($name, $word) = split /:/, decode_base64($credentials // ''), 2;
    if ($env{FCGI_ROLE} eq 'AUTHORIZER' and defined $word and ($words{$name} // '') eq $word) {
        # Status 200 means yes; `Variable-` becomes a variable of the request, here REMOTE_USER.
        print "Status: 200 OK\r\nVariable-REMOTE_USER: $name\r\nVariable-AUTH_TYPE: Basic\r\n\r\n";
    }
    else {
        print "Status: 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"example\"\r\n";
        print "Content-Type: text/plain\r\n\r\nWho are you?\n";
    }
}
