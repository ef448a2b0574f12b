//! What is set for each site, its processes and its routes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::model::{Ignored, Leftover, LogFormat, Mode, Reset, Secret, Split};
use crate::unit::{GIB, HOUR, MIB, SECOND};
use crate::value::{
    ANY, Auto, Charset, Choice, Codings, Count, Nothing, Off, Settings, Size, Text, within,
};

/// How the number of a pool's processes changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Manager {
    Auto,
    Static,
    Dynamic,
    Ondemand,
}

impl Choice for Manager {
    const NAMES: &'static [&'static str] = &["auto", "static", "dynamic", "ondemand"];
    const ALL: &'static [Manager] =
        &[Manager::Auto, Manager::Static, Manager::Dynamic, Manager::Ondemand];
}

section! {
    /// One site: a document root and the PHP pool that serves it. Repeat `[[site]]` for each site;
    /// without any, the directory of the file is served. Environment variables and flags of sites
    /// work only while there is one site.
    Site "site" {
        /// Host names; `"*.example.org"` matches every name below. The first site also answers for
        /// unknown names.
        host: Vec<Text> = "", ANY, Live;
        /// Those addresses of `listen` and `listen_tls` on which the site is served; clients of the
        /// others never see it. There it comes before the sites that name no address, and answers
        /// for unknown names if it is the first that names the address. Without any it is served on
        /// all.
        listen: Vec<SocketAddr> = "", ANY, Live;
        /// The one host name under which the site answers, such as `"www.example.org"`. Requests
        /// with another name are redirected to it, with path and query: 301 for `GET` and `HEAD`,
        /// else 308. Without a port here, the port of the request stays.
        canonical_host: Option<Text> = "", ANY, Live, env "TOKAMAK_CANONICAL_HOST";
        /// Files of the certificate for the host names (PEM); as in `[tls]`.
        certificate: Vec<Text> = "", ANY, Live, env "TOKAMAK_CERTIFICATE";
        /// Files of the keys, in the order of `certificate`; if not set, each key is in the file of
        /// its certificate.
        key: Vec<Text> = "", ANY, Live, env "TOKAMAK_KEY";
        /// How long browsers are told to use `https` only for the host
        /// (`Strict-Transport-Security`). They use `https` for that long, whatever is
        /// set meanwhile.
        hsts: Duration = "0", within(SECOND, 17_520 * HOUR).or_zero("they are not told"), Live, env "TOKAMAK_HSTS";
        /// Whether `hsts` is also for all names below the host (`includeSubDomains`), whichever
        /// server has them. The redirect to `https` stays at the host then, because browsers heed
        /// this only where they have been told.
        hsts_subdomains: bool = "false", ANY, Live, env "TOKAMAK_HSTS_SUBDOMAINS";
        /// Whether `hsts` says that the host may stand on the list that browsers bring along
        /// (`preload`; see hstspreload.org). It takes months to be taken off that. Needs
        /// `hsts_subdomains`, and an `hsts` of `"8760h"` at least.
        hsts_preload: bool = "false", ANY, Live, env "TOKAMAK_HSTS_PRELOAD";
        /// Whether requests over plain HTTP are answered with a redirect (308) to the same address
        /// with `https`.
        https_redirect: bool = "false", ANY, Live, env "TOKAMAK_HTTPS_REDIRECT";
        /// The port that `https_redirect` leads to; `"auto"` is that of the first address of
        /// `listen_tls` on which the site is served, else 443. For a server whose ports have other
        /// numbers outside, as in a container.
        https_port: Auto<Count> = "auto", within(1, 65_535), Live, env "TOKAMAK_HTTPS_PORT";
        /// The path of another site under which this one is mounted, as in `"/phpmyadmin"`: with
        /// its own root, scripts, processes and settings. It is mounted in the sites that have its
        /// `host`, in all of them without one. Paths of its rules and routes begin behind this one.
        /// If it does not set `https_redirect`, `https_port`, `hsts` (with what begins so) or
        /// `canonical_host`, it has those of the site around it.
        path: Option<Text> = "", ANY, Live, env "TOKAMAK_PATH";
        /// Document root; `"auto"` is `public` if that has an `index.php`, else the directory of
        /// the file.
        root: Auto<PathBuf> = "auto", ANY, Live, env "TOKAMAK_ROOT";
        /// File names tried for a directory.
        index: Vec<Text> = "index.php, index.html", ANY, Live;
        /// Whether a folder without an index file answers with a page that lists what is in it. If
        /// the site has a front controller, that answers instead, except where a rule with `serve`
        /// leaves it out.
        index_listing: bool = "false", ANY, Live, env "TOKAMAK_INDEX_LISTING";
        /// The charset in the `Content-Type` of files that are text. `"auto"`: `utf-8`, but none
        /// for HTML and XML, which name it themselves; `"off"`: none for any file.
        charset: Auto<Off<Charset>> = "auto", ANY, Live, env "TOKAMAK_CHARSET";
        /// Bytes of the site's responses that may lie in temporary files because their clients are
        /// slow, within `limits.spool`. Beyond that, workers and applications wait for their
        /// clients.
        spool: Size = "1GiB", within(MIB, 1024 * GIB).or_zero("none: only memory is used"), Live, env "TOKAMAK_SPOOL";
        /// The site's own access log: a file, `"-"` for standard output, or `"off"`. `"auto"` is
        /// `log.access`; for a mounted site, the log of the sites around it.
        access_log: Auto<Off<PathBuf>> = "auto", ANY, Live, env "TOKAMAK_ACCESS_LOG";
        /// Shape of its lines, if it has an access log of its own; `"auto"` is `log.access_format`.
        access_format: Auto<LogFormat> = "auto", ANY, Live, env "TOKAMAK_ACCESS_FORMAT";
        /// Script, relative to the root, that answers for paths which are no file; `"none"` answers
        /// 404 to them, `"auto"` is the `index.php` of the root if there is one.
        front_controller: Auto<Nothing<Text>> = "auto", ANY, Live, env "TOKAMAK_FRONT_CONTROLLER";
        /// What is 404 otherwise and the front controller answers too: paths of scripts that do not
        /// exist (`"php"`), and names that begin with a dot (`"hidden"`), whether there are such
        /// files or not.
        front_controller_for: Vec<Leftover> = "", ANY, Live;
        /// How requests are served: `"classic"` starts PHP anew for each, `"worker"` calls the loop
        /// of the `worker` script, `"sealed"` boots the application once and serves each request
        /// from the same untouched image of it, `"async"` calls the loop of the `worker` script for
        /// many requests at once, `"fastcgi"` starts no PHP and sends scripts to the `upstream`;
        /// `"auto"` is `"fastcgi"` if an `upstream` is set, `"worker"` if a `worker`
        /// script is, else `"classic"`.
        mode: Auto<Mode> = "auto", ANY, Live, env "TOKAMAK_MODE", flag "--mode";
        /// The version of PHP that runs its scripts, such as `"8.4"`, where several are installed;
        /// not set: the program `tokamak-php` if there is one, else the newest that is installed.
        php: Option<Text> = "", ANY, Live, env "TOKAMAK_PHP_VERSION", flag "--php";
        /// User that runs its scripts, if the server is started as root, or with the capabilities
        /// `CAP_SETUID`, `CAP_SETGID` and `CAP_KILL`; not set: the server's `user`. The front,
        /// which serves the files, stays the server's user, and has to be able to read them.
        user: Option<Text> = "", ANY, Live, env "TOKAMAK_SITE_USER";
        /// Group to go with `user`; that user's own group if not set.
        group: Option<Text> = "", ANY, Live, env "TOKAMAK_SITE_GROUP";
        /// The worker script: it boots the application once, then handles requests in a loop. In
        /// sealed mode the image is taken where it first asks for a request.
        worker: Option<PathBuf> = "", ANY, Live, env "TOKAMAK_WORKER", flag "--worker";
        /// Requests that each worker serves at once; `"auto"` is 32. Async mode only.
        concurrency: Auto<Count> = "auto", within(1, 10_000), Live, env "TOKAMAK_CONCURRENCY";
        /// Script that is run once before the image is taken, for an application whose front
        /// controller knows nothing of workers. Sealed mode only, and not beside `worker`.
        boot: Option<PathBuf> = "", ANY, Live, env "TOKAMAK_BOOT", flag "--boot";
        /// Targets such as `"/login"` that are requested before the image is taken, so that what an
        /// application makes at its first requests is in the image; the responses are thrown away.
        /// With scheme and host, as in `"https://blog.example/"`, for an application that looks at
        /// them. Sealed mode only.
        warm: Vec<Text> = "", ANY, Live, env "TOKAMAK_WARM";
        /// Another site, by one of its host names, whose workers get what this site's are not for:
        /// requests with another method than `GET` and `HEAD`, or with a body, and those that the
        /// application declines with `tokamak_decline()`. Files and scripts are looked up here;
        /// `root` should be the same there.
        fallback: Option<Text> = "", ANY, Live, env "TOKAMAK_FALLBACK";
        /// The `[[upstream]]` that runs the site's scripts, by its name; one of HTTP answers all
        /// requests, but those of routes. FastCGI mode only; without
        /// it scripts are 404 there.
        upstream: Option<Text> = "", ANY, Live, env "TOKAMAK_UPSTREAM";
        /// Whether files below the root are sent before an `upstream` of HTTP is asked. PHP's
        /// source never is.
        files: bool = "false", ANY, Live, env "TOKAMAK_FILES";
        /// The `[[upstream]]` that is asked before anything of the site is served whether it may be
        /// (FastCGI's role Authorizer); a route may have another.
        authorizer: Option<Text> = "", ANY, Live, env "TOKAMAK_AUTHORIZER";
        /// Directories whose files scripts may have sent, by the URL path under which
        /// `X-Accel-Redirect` names them; `X-Sendfile` names the files themselves. Other files of
        /// the root may be sent then, too. Without any, these headers go to the client.
        internal: BTreeMap<String, String> = "", ANY, Live;
        /// The pages for responses with which the server refuses a request or reports a failure, as
        /// files or scripts of the site: by status as in `404 = "/404.html"`, or `4xx` and `5xx`.
        error_pages: BTreeMap<String, String> = "", ANY, Live;
        /// Whether these pages also replace what PHP, FastCGI applications and content scripts
        /// answer with such a status.
        intercept_errors: bool = "false", ANY, Live, env "TOKAMAK_INTERCEPT_ERRORS";
        /// State that worker mode leaves alone between requests, instead of resetting it. Sealed
        /// mode keeps nothing, and in async mode each request has its own.
        keep: Vec<Reset> = "", ANY, Live;
        /// Lua scripts that see a request before its path is looked up, in their order, until one
        /// does not go on.
        lua_raw_url: Vec<Text> = "", ANY, Live;
        /// Lua scripts that see it when it is known which file its path means.
        lua_physical: Vec<Text> = "", ANY, Live;
        /// Lua scripts that see it when an application would be asked, or nothing else answers: not
        /// for files that are sent as they are.
        lua_content: Vec<Text> = "", ANY, Live;
        /// Lua scripts that see the response's head before it is sent.
        lua_response: Vec<Text> = "", ANY, Live;
        /// Lua scripts that see a response before the content cache keeps it.
        lua_store: Vec<Text> = "", ANY, Live;
        /// Whether responses of PHP, FastCGI applications and content scripts are kept and sent
        /// again, as far as their headers allow it (`Cache-Control`, `Expires`, `Vary`).
        cache: bool = "false", ANY, Live, env "TOKAMAK_CACHE";
        /// How long a response is kept that does not say so itself, if the request had no cookies.
        cache_lifetime: Duration = "0", within(SECOND, 8760 * HOUR).or_zero("not at all"), Live, env "TOKAMAK_CACHE_LIFETIME";
        /// How long a response that has become stale is still sent while it is fetched anew, if it
        /// does not say so itself.
        cache_stale_while_revalidate: Duration = "0", within(SECOND, 8760 * HOUR).or_zero("not at all"), Live, env "TOKAMAK_CACHE_STALE_WHILE_REVALIDATE";
        /// How long a response that has become stale is still sent if the application fails, if it
        /// does not say so itself.
        cache_stale_if_error: Duration = "0", within(SECOND, 8760 * HOUR).or_zero("not at all"), Live, env "TOKAMAK_CACHE_STALE_IF_ERROR";
        /// What the cache overlooks: `"cookie"`, that a request has cookies; `"set_cookie"`, that a
        /// response sets some, which are then left out; `"request"`, what a request says of the
        /// cache; `"response"`, what a response says of its lifetime.
        cache_ignore: Vec<Ignored> = "", ANY, Live;
        /// Query parameters that make no difference, as in `"utm_*"`; `"*"` is the whole query.
        cache_ignore_query: Vec<Text> = "", ANY, Live;
        /// Whether responses are compressed for clients that accept it; a list of `"zstd"`, `"br"`
        /// and `"gzip"` says with which codings, the preferred one first. `true` is all three in
        /// this order.
        compression: Codings = "true", ANY, Live, env "TOKAMAK_COMPRESSION";
        /// Media types that are compressed; `*` stands for any text at the start or the end.
        compression_types: Vec<Text> = "text/*, *+json, *+xml, application/json, application/javascript, application/x-javascript, application/xml, application/wasm, application/vnd.ms-fontobject, application/x-protobuf, font/ttf, font/otf, image/bmp, image/x-icon, image/vnd.microsoft.icon", ANY, Live;
        /// Bytes of the smallest response that is compressed, if its length is known.
        compression_smallest: Size = "512", within(1, GIB), Live, env "TOKAMAK_COMPRESSION_SMALLEST";
        /// Whether a response is compressed too if a page of another site has made the request with
        /// the user's cookies or credentials. Then that page can guess what is in the response, by
        /// its length (BREACH).
        compression_cross_site: bool = "false", ANY, Live, env "TOKAMAK_COMPRESSION_CROSS_SITE";
        /// Environment of the PHP workers, also found in `$_SERVER`. `USER` and `HOME` are those of
        /// the user that the server changes to, unless they stand here.
        env: BTreeMap<String, Secret> = "", ANY, Live;
        /// Whether the PHP workers see the server's own environment too.
        inherit_env: bool = "true", ANY, Live, env "TOKAMAK_INHERIT_ENV";
        /// Whether the PHP processes leave core files. Debuggers of the same user may then look
        /// into them, and so may scripts of that user.
        dumpable: bool = "false", ANY, Live, env "TOKAMAK_DUMPABLE";
        /// Whether the PHP workers count and time what each request calls in databases and in other
        /// servers: for the access log as JSON, the metrics, `Server-Timing` and the slow log.
        count_calls: bool = "false", ANY, Live, env "TOKAMAK_COUNT_CALLS";
        /// Whether each client is told how long the phases of its request took, in the header
        /// `Server-Timing`; see also `trace.timing_secret`.
        server_timing: bool = "false", ANY, Live, env "TOKAMAK_SERVER_TIMING";
        /// Settings of `php.ini` that scripts may change with `ini_set`.
        php_value: Settings = "", ANY, Live;
        /// Settings of `php.ini` that scripts cannot change.
        php_admin_value: Settings = "", ANY, Live;
    }
}

section! {
    /// The PHP processes of the site above it.
    Pool "site.pool" {
        /// How the number of workers changes: `"static"` keeps all of them, `"dynamic"` keeps some
        /// idle ones, `"ondemand"` starts them when requests come. `"auto"` is `"static"` if
        /// `workers` is a number. Else it keeps one for each core, two at least, and starts more
        /// while requests wait and the workers do so too, for a database or another server; not
        /// while they compute, nor when less than an eighth of the memory is left.
        manager: Manager = "auto", ANY, Live, env "TOKAMAK_MANAGER";
        /// Most workers; `"auto"` is four for each core, eight at least. If `manager` is `"auto"`,
        /// too, sealed mode may have eight times as many, 256 at most.
        workers: Auto<Count> = "auto", within(1, 256), Live, env "TOKAMAK_WORKERS", flag "--workers";
        /// Workers at start, for `"dynamic"`; `"auto"` is midway between `min_spare` and
        /// `max_spare`.
        start: Auto<Count> = "auto", within(1, 256), Live, env "TOKAMAK_START";
        /// Fewest idle workers, for `"dynamic"`; `"auto"` is a quarter of `workers`.
        min_spare: Auto<Count> = "auto", within(1, 256), Live, env "TOKAMAK_MIN_SPARE";
        /// Most idle workers, for `"dynamic"`; `"auto"` is three quarters of `workers`.
        max_spare: Auto<Count> = "auto", within(1, 256), Live, env "TOKAMAK_MAX_SPARE";
        /// How long a worker may be idle, for `"ondemand"`.
        idle: Duration = "10s", within(SECOND, 24 * HOUR), Live, env "TOKAMAK_IDLE";
        /// Requests that may wait for a worker; one more is answered 503.
        queue: Count = "1024", within(1, 32_768), Live, env "TOKAMAK_QUEUE";
        /// Longest wait for a worker; then the answer is 503.
        queue_timeout: Duration = "10s", within(1, HOUR), Live, env "TOKAMAK_QUEUE_TIMEOUT";
        /// Requests after which a worker is replaced.
        max_requests: Count = "0", within(1, u32::MAX as u64).or_zero("never"), Live, env "TOKAMAK_MAX_REQUESTS";
        /// Resident memory above which a worker is replaced after its request.
        max_memory: Size = "0", within(MIB, 1024 * GIB).or_zero("never"), Live, env "TOKAMAK_MAX_MEMORY";
        /// Wall time after which a request is ended, by killing its worker; in async mode it is
        /// cancelled where it waits, and its worker killed if it does not wait. PHP's own
        /// `max_execution_time` applies beside it.
        request_timeout: Duration = "0", within(1, 24 * HOUR).or_zero("never"), Live, env "TOKAMAK_REQUEST_TIMEOUT";
        /// Wall time after which a request is written to the error log with its PHP backtrace.
        slow: Duration = "0", within(1, 24 * HOUR).or_zero("never"), Live, env "TOKAMAK_SLOW";
    }
}

section! {
    /// A path of the site above it that an application serves, guards or filters, whatever is on
    /// the disk. Repeat `[[site.route]]` for each; the longest path that fits counts.
    Route "site.route" {
        /// The path: `"/app"` is `/app` and all below it, `"/"` everything.
        path: Option<Text> = "", ANY, Live;
        /// The `[[upstream]]` that answers, by its name; without one, what the site has there is
        /// served.
        upstream: Option<Text> = "", ANY, Live;
        /// What stands in place of `path` in requests to an `upstream` of HTTP: with `"/"` the
        /// route `/api` asks it for `/users` where the client asks for `/api/users`. If not set, it
        /// is asked for what the client asks for.
        upstream_path: Option<Text> = "", ANY, Live;
        /// The `[[upstream]]` that is asked before whether the client may have this (FastCGI's role
        /// Authorizer), `"none"` for no check; `"auto"` is that of the route around it, or of the
        /// site.
        authorizer: Auto<Nothing<Text>> = "auto", ANY, Live;
        /// The `[[upstream]]` through which files are sent (FastCGI's role Filter).
        filter: Option<Text> = "", ANY, Live;
        /// Extensions such as `".html"` of the files that are filtered; without any, all are.
        filter_extensions: Vec<Text> = "", ANY, Live;
        /// Where `SCRIPT_NAME` ends and `PATH_INFO` begins: `"path"` behind the route's path,
        /// `"whole"` at the end, an extension such as `".pl"` behind the first part of the path
        /// that ends so (404 if there is none).
        split: Split = "path", ANY, Live;
        /// What `SCRIPT_FILENAME` is; if not set, the root and `SCRIPT_NAME`.
        script: Option<PathBuf> = "", ANY, Live;
        /// Whether files that are below the root are sent first.
        files: bool = "false", ANY, Live;
        /// Lua scripts that see its requests before their path is looked up, instead of the site's.
        lua_raw_url: Vec<Text> = "", ANY, Live;
        /// Lua scripts that see them when it is known which file their path means, instead of the
        /// site's.
        lua_physical: Vec<Text> = "", ANY, Live;
        /// Lua scripts that see them when an application would be asked, or nothing else answers,
        /// instead of the site's.
        lua_content: Vec<Text> = "", ANY, Live;
        /// Lua scripts that see the head of their response before it is sent, instead of the
        /// site's.
        lua_response: Vec<Text> = "", ANY, Live;
        /// Lua scripts that see its responses before the content cache keeps them, instead of the
        /// site's.
        lua_store: Vec<Text> = "", ANY, Live;
        /// Whether responses are kept and sent again; `"auto"`, here and below, is what the site
        /// says.
        cache: Auto<bool> = "auto", ANY, Live;
        /// As in `[[site]]`.
        cache_lifetime: Auto<Duration> = "auto", within(SECOND, 8760 * HOUR).or_zero("not at all"), Live;
        /// As in `[[site]]`.
        cache_stale_while_revalidate: Auto<Duration> = "auto", within(SECOND, 8760 * HOUR).or_zero("not at all"), Live;
        /// As in `[[site]]`.
        cache_stale_if_error: Auto<Duration> = "auto", within(SECOND, 8760 * HOUR).or_zero("not at all"), Live;
        /// As in `[[site]]`.
        cache_ignore: Auto<Vec<Ignored>> = "auto", ANY, Live;
        /// As in `[[site]]`.
        cache_ignore_query: Auto<Vec<Text>> = "auto", ANY, Live;
        /// As in `[[site]]`.
        compression: Auto<Codings> = "auto", ANY, Live;
        /// As in `[[site]]`.
        compression_types: Auto<Vec<Text>> = "auto", ANY, Live;
        /// As in `[[site]]`.
        compression_smallest: Auto<Size> = "auto", within(1, GIB), Live;
        /// As in `[[site]]`.
        server_timing: Auto<bool> = "auto", ANY, Live;
    }
}
