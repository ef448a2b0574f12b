# A FastCGI application on descriptor 0 that does what the tests of spawned applications ask for.
use strict;
use warnings;
use Cwd;
use FCGI;

exit 3 if -e 'broken';
$SIG{TERM} = 'IGNORE' if $ENV{STUBBORN};
$| = 1;
print STDERR "it begins\n";
print "and says so\n";
# A response leaves in one piece, with its end.
$| = 0;

my %env;
my $request = FCGI::Request(\*STDIN, \*STDOUT, \*STDERR, \%env, 0);
# After the module's own handler, which would wait for the next connection.
$SIG{USR1} = sub { print STDERR "asked by USR1\n"; exit 0 };
my %pages = (
    '/pid'   => sub {$$},
    '/where' => sub { join "\n", getcwd(), "uid $<", (map {"$_=$ENV{$_}"} sort keys %ENV), '' },
    '/slow'  => sub { select undef, undef, undef, 0.3; $$ },
    '/die'   => sub { kill 'KILL', $$; sleep 10 },
    '/leave' => sub { exit 7 },
);
while ($request->Accept() >= 0) {
    my $answer = $pages{ $env{PATH_INFO} }->();
    print "Content-Type: text/plain\r\n\r\n$answer";
}
