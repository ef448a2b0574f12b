# CGI::Fast: a program for CGI that goes round in a loop.
use strict;
use warnings;
use CGI::Fast;

umask 0;
$ENV{FCGI_SOCKET_PATH} = $ARGV[0];
while (my $query = CGI::Fast->new) {
    print $query->header('text/plain');
    if ($ENV{PATH_INFO} eq '/echo') {
        print $query->param('POSTDATA') // '';
    } else {
        print map {"$_=$ENV{$_}\n"} sort keys %ENV;
    }
}
