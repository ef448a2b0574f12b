//! What PHP scripts see and do. The scripts are in `tests/php`; under worker mode `worker.php`
//! includes the requested one, so each behaviour is seen in both modes, and under nginx with
//! php-fpm, whose answers are the expectation.

/// Scripts that exit, throw, run out of something or are killed.
mod failures;
/// `fastcgi_finish_request()` and time limits.
mod finish;
/// Header fields and status lines, in both directions.
mod headers;
/// Reading requests and writing responses: bodies, uploads, output, flushing, aborts.
mod io;
/// What PHP has since 8.4 or 8.5 alone.
mod newer_php;
/// What is reset between requests, and the `keep` switch.
mod reset;
/// `$_SERVER`, compared with nginx and php-fpm for a matrix of requests.
mod server_vars;
/// Native sessions.
mod sessions;
/// The environment and `php.ini` settings.
mod settings;
/// Objects, streams, sessions and messages when a script is over.
mod shutdown;
/// `$_REQUEST`, `$_COOKIE` and their relatives.
mod superglobals;
/// Requests that PHP cannot read in full.
mod unparsed;
/// The life of a worker: what it keeps, how often it serves, how it begins and ends.
mod worker_life;
