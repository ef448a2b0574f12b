# Debian: libanyevent-http-perl libnet-ssleay-perl perl
use strict;
use warnings;
use AnyEvent::HTTP;

my ($use, $url, $other) = @ARGV;
$| = 1;
my $tls = { verify => 1, verify_peername => 'https', ca_file => $ENV{AUTHORITY} };

sub ask {
    my ($method, $url, @more) = @_;
    my $done = AnyEvent->condvar;
    http_request($method, $url, tls_ctx => $tls, persistent => 1, keepalive => 1, @more, sub { $done->send(@_) });
    my ($body, $fields) = $done->recv;
    $fields->{Status} =~ /^2/ or die "$fields->{Status} $fields->{Reason}\n";
    print $body;
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
    if ($use eq 'later') {
        my $line = AnyEvent->condvar;
        my $watcher = AnyEvent->io(fh => \*STDIN, poll => 'r', cb => sub { <STDIN>; $line->send });
        $line->recv;
    }
    ask(GET => $other);
} elsif ($use eq 'range') {
    my $part = content($other);
    print $part;
    ask(GET => $url, headers => { Range => 'bytes=' . length($part) . '-' });
} elsif ($use eq 'upload') {
    ask(POST => $url, body => content($other), headers => { 'Content-Type' => 'text/plain' });
} else {
    exit 64;
}
