# AnyEvent::FCGI, which serves many requests in one process.
use strict;
use warnings;
use AnyEvent;
use AnyEvent::FCGI;

umask 0;
my $server = AnyEvent::FCGI->new(
    unix       => $ARGV[0],
    on_request => sub {
        my ($request) = @_;
        my $params = $request->params;
        my $body   = $params->{PATH_INFO} eq '/echo'
            ? $request->read_stdin($params->{CONTENT_LENGTH} || 0) // ''
            : join '', map {"$_=$params->{$_}\n"} sort keys %$params;
        $request->respond($body, 'Content-Type' => 'text/plain');
    },
);
AnyEvent->condvar->recv;
