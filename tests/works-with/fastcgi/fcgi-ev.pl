# FCGI::EV, on a socket of its own: requests in an event loop.
use strict;
use warnings;
use EV;
use FCGI::EV;
use IO::Socket::UNIX;

# What becomes of a request: FCGI::EV makes one of these for each.
package Answer {

    sub new {
        my ($class, $server, $env) = @_;
        return bless { server => $server, env => $env, body => '' }, $class;
    }

    sub stdin {
        my ($self, $piece, $is_last) = @_;
        $self->{body} .= $piece;
        return if !$is_last;
        my $env = $self->{env};
        my $text = $env->{PATH_INFO} eq '/echo' ? $self->{body} : join '', map {"$_=$env->{$_}\n"} sort keys %$env;
        $self->{server}->stdout("Content-Type: text/plain\r\n\r\n$text", 1);
    }
}

umask 0;
my $socket = IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 128, Blocking => 0) or die $!;
my $accept = EV::io($socket, EV::READ, sub {
    my $client = $socket->accept or return;
    $client->blocking(0);
    FCGI::EV->new($client, 'Answer');
});
EV::run;
