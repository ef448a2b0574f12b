//! End-to-end tests: one binary, one module a topic.

/// Certificates that the server gets by itself, from a real authority and from broken ones.
mod acme;
/// The admin listener: what it shows, what it changes, and for whom.
mod admin;
/// `tokamak anatomy`: where the time goes in servers of other makes.
mod anatomy;
/// The configurations of the documentation before the applications that they are for.
mod applications;
/// What the kernel keeps for a worker, changed past all functions of libc.
mod attributes;
/// Malformed requests, and requests that hide in others: refused, and PHP never sees them.
mod bad_input;
/// Behind a balancer: what proxies say of clients, PROXY headers, names of requests, slow stops.
mod balancer;
/// The command line: what is typed and how it is answered.
mod c_floors;
mod c_state;
/// The content cache.
mod cache;
/// SQL and outgoing HTTP calls of requests: their number and time, wherever they are shown.
mod calls;
/// What one request leaves behind for the next, in a hundred channels.
mod canary;
/// The most requests a second that a server bears.
mod capacity;
/// No import circles inside a crate.
mod circles;
mod cli;
/// How much one client may ask for.
mod client_limits;
/// Which HTTP clients do what over TLS.
mod clients;
/// Compressed responses: to whom, of what, and when it is left.
mod compression;
/// Async mode with real services and libraries.
mod concurrent;
/// The dashboard of the admin listener: its figures, its page, and the same in a terminal.
mod dashboard;
/// Databases that hang up, restart or are left with open transactions.
mod database;
/// The demo site in a browser.
mod demo;
/// What the kernel holds behind the descriptors of a boot.
mod descriptors;
/// The documentation is true: its examples run, its links lead somewhere, its lists are complete.
mod docs;
/// Event loops: how many serve, and who has which connections.
mod early_hints;

mod event_loops;
/// Requests that one site leaves to another, and what else a boot script can arrange.
mod fallback;
/// FastCGI applications behind the front: real ones, and one that does everything wrong.
mod fastcgi;
/// `tokamak fpm`: web servers hand over requests by FastCGI, as to php-fpm.
mod fpm;
/// The configuration of php-fpm, read as php-fpm reads it.
mod fpm_config;
/// The page about the front names what exists.
mod front_page;
/// Which web servers, proxies and balancers work in front.
mod front_servers;
/// The fuzz targets have the versions that the server has.
mod fuzzing;
/// What every other module stands on: servers, an HTTP client, tables of behaviours.
mod harness;
/// The HTTP front: connections, requests in a row, chunks, expectations, upgrades.
mod http;
/// HTTP/2: what the front serves by it, its limits, and h2spec's cases.
mod http2;
mod http3;
/// Applications of HTTP.
mod http_upstream;
/// Idle connections give their buffers to later ones.
mod idle_memory;
mod idle_processor;
/// `tokamak import`: real servers beside Tokamak with what was imported from their files.
mod import;
/// The requests that a worker has under way, as an operator sees them.
mod in_flight;
/// Connections that sealed mode keeps: they stay open, and nothing of one visitor stays in them.
mod kept;
/// A Laravel application from Debian's packages.
mod laravel;
/// The picture of the crates, and what may stand in no file.
mod layers;
/// Memory after each request, page by page.
mod leaks;
/// What functions leave for the next request, found by calling all of them.
mod leftovers;
/// What a client may send, and how long it may take.
mod limits;
/// Several listening sockets, some of them with sites of their own.
mod listeners;
/// Locks of memory that processes of a site share, and workers that are killed inside.
mod locks;
/// The access log.
mod logs;
/// Lua scripts in the server, beside lighttpd's.
mod lua;
/// `tokamak lua-fcgi`: Lua scripts that web servers reach by FastCGI.
mod lua_fcgi;
/// The service manager: sockets from it, words to it, a file with the process id.
mod manager;
/// The metrics, as a real scraper reads them.
mod metrics;
/// A worker script of the shape of Laravel Octane's.
mod octane;
/// A server that may have few files open.
mod open_files;
/// What an operator does with a running server: ask it, reload it, change its configuration.
mod operate;
/// Spans of requests, as a collector gets them.
mod otlp;
/// What `make install` puts in place works from there.
mod packaging;
/// Passwords that rules ask for.
mod passwords;
/// Persistent connections of PHP, of which each request of async mode has its own.
mod persistent_connections;
/// Pages of one's own, from processes that keep their users in memory.
mod personalised;
/// What PHP scripts see and do, one script per behaviour, under classic mode, worker mode and
/// php-fpm.
mod php;
/// A site chooses the version of PHP that runs it.
mod php_command;
mod php_versions;
/// phpMyAdmin as Debian packages it.
mod phpmyadmin;
/// Nobody looks into the memory of the server's processes.
mod privacy;
/// Profiles of PHP workers, read from outside.
mod profile;
/// The hub of a site: publishers, and browsers that are told at once.
mod push;
/// Reload: new code, new configuration, new workers, and nobody notices.
mod reload;
mod renewal;
/// What a roll-back costs, and says of itself.
mod roll_back;
/// Which script, and which site, answers.
mod routing;
/// Rules of a site: redirects, rewrites, refusals, response headers.
mod rules;
mod scarce_memory;
/// The seal report: planted leaks are named, and nothing else is.
mod seal_report;
/// What tests of real applications lean on: a database, a browser, visitors with cookies.
mod services;
/// Connections that two requests of async mode use at once.
mod shared_connections;
mod site_users;
/// Slow clients hold no worker; a full queue says so.
mod slow_clients;
/// The slow log: slow requests as whole entries of the error log.
mod slow_log;
/// Clients that read large pages slowly hold nobody.
mod slow_readers;
/// Sites that change under their servers.
mod stale;
/// Files that are sent as they are, and files that never are.
mod static_files;
/// Async mode's worker that ends, and the one that follows it.
mod successor;
/// Processes that come, stay, hang, die and are replaced.
mod supervise;
/// A Symfony application in either mode.
mod symfony;
/// TLS for clients: handshakes, certificates, sessions.
mod tls;
/// Traces over several services, of which this server is one.
mod traces;
/// The programs are replaced on disk while the server runs.
mod upgrade;
/// WordPress from its installation to its readers.
mod walks;
mod watchdog;
mod wordpress;
/// WordPress in images of each depth: always the pages of classic mode.
mod wordpress_sealed;
/// Which extensions, servers, applications and clients work with Tokamak.
mod works_with;
