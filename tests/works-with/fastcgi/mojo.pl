# Mojolicious over FastCGI, on descriptor 0.
use strict;
use warnings;
use Mojolicious::Lite -signatures;
use Mojo::Server::FastCGI;

app->max_request_size(16 << 20);
any '/echo' => sub ($c) { $c->render(data => $c->req->body, format => 'txt') };
any '/env'  => sub ($c) {
    my $env = $c->req->env;
    $c->render(data => join('', map {"$_=$env->{$_}\n"} sort keys %$env), format => 'txt');
};
app->secrets(['none']);
app->log->level('fatal');
Mojo::Server::FastCGI->new(app => app)->run;
