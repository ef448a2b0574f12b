# Plack's handler for FastCGI, with two processes.
use strict;
use warnings;
use File::Basename 'dirname';
use Plack::Handler::FCGI;
use Plack::Util;

umask 0;
Plack::Handler::FCGI->new(listen => [$ARGV[0]], nproc => 2, keep_stderr => 1)
    ->run(Plack::Util::load_psgi(dirname(__FILE__) . '/app.psgi'));
