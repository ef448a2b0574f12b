# What all applications of the table of FastCGI applications answer (docs/works-with.md), for the
# servers that speak PSGI.
use strict;
use warnings;

sub {
    my ($env) = @_;
    my $body = '';
    if ($env->{PATH_INFO} eq '/echo') {
        my $left = $env->{CONTENT_LENGTH} || 0;
        while ($left > 0 and my $n = $env->{'psgi.input'}->read(my $piece, $left < 8192 ? $left : 8192)) {
            $body .= $piece;
            $left -= $n;
        }
    } else {
        $body = join '', map { "$_=$env->{$_}\n" } grep { /^[A-Z_0-9]+$/ } sort keys %$env;
    }
    [200, ['Content-Type' => 'text/plain'], [$body]];
};
