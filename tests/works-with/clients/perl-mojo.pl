# Debian: libmojolicious-perl libio-socket-ssl-perl perl
use Mojo::Base -strict;
use Mojo::File 'path';
use Mojo::UserAgent;

my ($use, $url, $other) = @ARGV;
$| = 1;
my $agent = Mojo::UserAgent->new(ca => $ENV{AUTHORITY}, max_response_size => 0);
sub ask { print $agent->start($agent->build_tx(@_))->result->body }

if ($use eq 'page' or $use eq 'compressed') {
    ask(GET => $url);
} elsif ($use eq 'kept' or $use eq 'later') {
    ask(GET => $url);
    <STDIN> if $use eq 'later';
    ask(GET => $other);
} elsif ($use eq 'range') {
    my $part = path($other)->slurp;
    print $part;
    ask(GET => $url, { Range => 'bytes=' . length($part) . '-', 'Accept-Encoding' => 'identity' });
} elsif ($use eq 'upload') {
    ask(POST => $url, { 'Content-Type' => 'text/plain' }, path($other)->slurp);
}
