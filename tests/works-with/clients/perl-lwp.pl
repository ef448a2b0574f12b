# Debian: libwww-perl liblwp-protocol-https-perl perl
use strict;
use warnings;
use LWP::UserAgent;
use HTTP::Request;

my ($use, $url, $other) = @ARGV;
$| = 1;
my $agent = LWP::UserAgent->new(keep_alive => 1, ssl_opts => { SSL_ca_file => $ENV{AUTHORITY} });

sub ask {
    my ($method, $url, $fields, $body) = @_;
    my $answer = $agent->request(HTTP::Request->new($method, $url, $fields, $body));
    $answer->is_success or die $answer->status_line, "\n";
    print $answer->decoded_content(charset => 'none');
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
    ask(GET => $url, [Range => 'bytes=' . length($part) . '-']);
} elsif ($use eq 'upload') {
    ask(POST => $url, ['Content-Type' => 'text/plain'], content($other));
} elsif ($use eq 'compressed') {
    ask(GET => $url, ['Accept-Encoding' => scalar HTTP::Message::decodable()]);
}
