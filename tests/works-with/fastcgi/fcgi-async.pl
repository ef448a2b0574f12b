# FCGI::Async, the module before Net::Async::FastCGI.
use strict;
use warnings;
use FCGI::Async;
use IO::Async::Loop;
use IO::Socket::UNIX;

umask 0;
my $loop   = IO::Async::Loop->new;
my $socket = IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 128) or die "$ARGV[0]: $!";
my $server = FCGI::Async->new(
    loop       => $loop,
    handle     => $socket,
    on_request => sub {
        my ($server, $request) = @_;
        my %params = %{ $request->params };
        my $body   = '';
        if ($params{PATH_INFO} eq '/echo') {
            while (defined(my $line = $request->read_stdin_line)) { $body .= $line }
        } else {
            $body = join '', map {"$_=$params{$_}\n"} sort keys %params;
        }
        $request->print_stdout("Content-Type: text/plain\r\n\r\n$body");
        $request->finish;
    },
);
$loop->run;
