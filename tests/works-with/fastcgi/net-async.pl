# Net::Async::FastCGI, which serves many requests in one process.
use strict;
use warnings;
use File::Basename 'dirname';
use IO::Async::Loop;
use Net::Async::FastCGI::PSGI;
use Plack::Util;

umask 0;
my $loop   = IO::Async::Loop->new;
my $server = Net::Async::FastCGI::PSGI->new(app => Plack::Util::load_psgi(dirname(__FILE__) . '/app.psgi'));
$loop->add($server);
$server->listen(addr => { family => 'unix', socktype => 'stream', path => $ARGV[0] })->get;
$loop->run;
