# Debian: perl libio-socket-ssl-perl libnet-ssleay-perl
use strict;
use warnings;
use HTTP::Tiny;

my ($use, $url, $other) = @ARGV;
$| = 1;
my $client = HTTP::Tiny->new(verify_SSL => 1, SSL_options => { SSL_ca_file => $ENV{AUTHORITY} });

sub ask {
    my $answer = $client->request(@_);
    $answer->{success} or die "$answer->{status} $answer->{content}\n";
    print $answer->{content};
}

sub content {
    open my $file, '<:raw', $_[0] or die;
    local $/;
    return scalar <$file>;
}

if ($use eq 'page') {
    ask(GET => $url);
} elsif ($use eq 'kept' or $use eq 'later') {
    ask(GET => $url);
    <STDIN> if $use eq 'later';
    ask(GET => $other);
} elsif ($use eq 'range') {
    my $part = content($other);
    print $part;
    ask(GET => $url, { headers => { Range => 'bytes=' . length($part) . '-' } });
} elsif ($use eq 'upload') {
    my $fields = { 'Content-Type' => 'text/plain' };
    ask(POST => $url, { headers => $fields, content => content($other) });
} else {
    exit 64;
}
