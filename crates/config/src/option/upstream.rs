//! What is set for each application behind connections.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::model::{
    Address, Affinity, Balance, Forwarded, ProtocolName, Reuse, Secret, StopSignal,
};
use crate::unit::{HOUR, KIB, MIB, SECOND};
use crate::value::{ANY, Auto, Count, Size, Text, within};

section! {
    /// An application that speaks FastCGI or HTTP, either a running one, such as php-fpm or a
    /// service in Node, or a program that the server starts. Repeat `[[upstream]]` for each; sites
    /// and routes name them.
    Upstream "upstream" {
        /// Name by which sites and routes refer to it.
        name: Option<Text> = "", ANY, Live;
        /// Where it listens: `"unix:/run/app.sock"`, `"HOST:PORT"` or `"srv:NAME"` if it speaks
        /// FastCGI, `"http://HOST:PORT"`, `"https://HOST:PORT"` or `"http+unix:/run/app.sock"` if
        /// it speaks HTTP. Of several addresses each gets its share; to give one of them three
        /// times as much, write `{ address = "HOST:PORT", weight = 3 }`. A host's name stands for
        /// all its addresses, `"srv:NAME"` for those of the service's SRV records, with their
        /// weights.
        address: Vec<Address> = "", ANY, Live;
        /// What the application speaks; `"auto"` is what its addresses say, and `"fastcgi"` for
        /// `spawn`. Over HTTP that is HTTP/1.1; `"http2"` is HTTP/2, over TLS where the addresses
        /// begin with `https://`.
        protocol: Auto<ProtocolName> = "auto", ANY, Live;
        /// Starts the application: a program and its arguments, as in `["python3", "app.py"]`. It
        /// finds its listening socket on descriptor 0, as the FastCGI specification says, and is
        /// started again when it ends. Not beside `address`.
        spawn: Vec<Text> = "", ANY, Live;
        /// How many processes `spawn` starts.
        processes: Count = "1", within(1, 256), Live;
        /// Whether the processes of `spawn` share one socket. Else each has an address of its own,
        /// so that requests can be sent to the process that has their data in memory.
        shared: bool = "false", ANY, Live;
        /// Working directory of `spawn`; if not set, the directory of the file.
        directory: Option<PathBuf> = "", ANY, Live;
        /// Environment of `spawn`. `USER` and `HOME` are those of the user that it is started as by
        /// root, unless they stand here.
        env: BTreeMap<String, Secret> = "", ANY, Live;
        /// Whether `spawn` sees the server's own environment too.
        inherit_env: bool = "true", ANY, Live;
        /// User that `spawn` runs as, if the server is started as root; if not set, the server's
        /// `user`.
        user: Option<Text> = "", ANY, Live;
        /// Group to go with `user`; that user's own group if not set.
        group: Option<Text> = "", ANY, Live;
        /// Signal that tells a process of `spawn` to end: with `"usr1"` a process that uses libfcgi
        /// finishes its request first.
        stop_signal: StopSignal = "term", ANY, Live;
        /// How long it may take to end; then it gets `SIGTERM` if that was not `stop_signal`, and a
        /// second later `SIGKILL`.
        stop_timeout: Duration = "5s", within(1, HOUR), Live;
        /// How often names in `address` are resolved again, in the background. `"auto"` follows the
        /// answer's time to live, within one second and five minutes.
        resolve: Auto<Duration> = "auto", within(100, 24 * HOUR), Live;
        /// How requests are spread over several addresses: `"round_robin"` asks each in turn,
        /// `"least_busy"` the address with the fewest requests. Both pass over a busy address while
        /// another one is free.
        balance: Balance = "round_robin", ANY, Live;
        /// What binds requests to an address, so that they find what an earlier one has left in the
        /// memory of its process: `"cookie:NAME"`, `"header:NAME"`, `"query:NAME"`, `"segment:N"`
        /// (a part of the path, counted from 1), `"prefix:REGEX"` (what a regular expression finds
        /// at the start of the path), `"variable:NAME"` (a CGI variable that a Lua script or an
        /// authorizer has set), `"user"` (as in `Authorization`) or `"client"` (the IP address). Of
        /// several the first that a request has; a request without any is spread as `balance` says.
        affinity: Vec<Affinity> = "", ANY, Live;
        /// Whether a request that is bound to an address whose connections are all in use goes to
        /// another one, always the same, instead of waiting.
        spill: bool = "false", ANY, Live;
        /// Failed requests within `failure_window` after which an address is left out; an address
        /// where no process listens is left out at once.
        failures: Count = "3", within(1, 1000).or_zero("never"), Live;
        /// See `failures`.
        failure_window: Duration = "10s", within(1, HOUR), Live;
        /// How long an address is left out. Then one request tries it; if that fails too, the next
        /// pause is twice as long, up to a minute.
        pause: Duration = "1s", within(10, 60 * SECOND), Live;
        /// Path that each address is asked for every now and then, such as `ping.path` of php-fpm:
        /// an address that answers badly is left out until it answers well. Without it only
        /// requests show whether an address works.
        check: Option<Text> = "", ANY, Live;
        /// How often; an address whose connections are all in use is not checked.
        check_interval: Duration = "5s", within(100, HOUR), Live;
        /// How long the answer to a check may take.
        check_timeout: Duration = "2s", within(10, HOUR), Live;
        /// Status that is a good answer to a check.
        check_status: Count = "200", within(200, 599), Live;
        /// Good checks in a row that bring an address back.
        check_rise: Count = "2", within(1, 100), Live;
        /// Bad checks in a row after which an address is left out.
        check_fall: Count = "3", within(1, 100), Live;
        /// Parameters of a check, such as `HTTP_HOST` or `SCRIPT_FILENAME` (which is the path
        /// otherwise); an empty value removes one.
        check_params: BTreeMap<String, Secret> = "", ANY, Live;
        /// Most connections to each address: as many as the application has processes or threads
        /// there. They are kept open between requests; the next request waits for a free one.
        /// `"auto"` is 16, and 256 for HTTP/1.1; with `spawn` it is one for each process. In HTTP/2
        /// 100 requests share one, or as many as the application takes.
        connections: Auto<Count> = "auto", within(1, 10_000), Live;
        /// Whether several requests share a connection, if the application says that it can
        /// (`FCGI_MPXS_CONNS`). With `true` it is asked before the first request, and with `"auto"`
        /// beside requests, as soon as it has kept a connection; `"auto"` asks only where
        /// `connections` is `"auto"`, too.
        multiplex: Auto<bool> = "auto", ANY, Live;
        /// Requests after which a connection is closed; 1 opens one for each request.
        requests: Count = "0", within(1, u32::MAX as u64).or_zero("never"), Live;
        /// How long an unused connection is kept.
        idle: Duration = "60s", within(1, 24 * HOUR), Live;
        /// Which requests may go over a kept connection, which the application may close just then:
        /// those that can be repeated (`GET` and `HEAD` without a body), or all. The others get a
        /// new one; in HTTP/2 they share one whose application has just been heard, or has answered
        /// a `PING`.
        reuse: Reuse = "repeatable", ANY, Live;
        /// Requests that may wait for a connection; one more is answered 503.
        queue: Count = "1024", within(1, 1_000_000), Live;
        /// Longest wait for a free connection; then the answer is 503.
        queue_timeout: Duration = "10s", within(1, HOUR), Live;
        /// Opening a connection; then the answer is 502.
        connect_timeout: Duration = "5s", within(1, HOUR), Live;
        /// Between two writes of a request; then the answer is 504.
        send_timeout: Duration = "60s", within(1, HOUR), Live;
        /// From the last byte of the request to the first one of the response; then the answer
        /// is 504.
        first_byte_timeout: Duration = "60s", within(1, 24 * HOUR), Live;
        /// Between two reads of a response; then it is broken off.
        read_timeout: Duration = "60s", within(1, 24 * HOUR), Live;
        /// Headers of a response; longer ones are answered 502.
        head: Size = "64KiB", within(KIB, 16 * MIB), Live;
        /// What an application of HTTP is told as `Host`; if not set, what the client has sent.
        host: Option<Text> = "", ANY, Live;
        /// Header fields of each request to an application of HTTP; an empty value removes one.
        headers: BTreeMap<String, Secret> = "", ANY, Live;
        /// How an application of HTTP learns of the client: by `"x_forwarded"` (the fields
        /// `X-Forwarded-For`, `X-Forwarded-Proto`, `X-Forwarded-Host` and `X-Real-IP`), by
        /// `"forwarded"` (the field of RFC 7239), or not (`"none"`). What clients themselves say in
        /// these fields is never passed on.
        forwarded: Forwarded = "x_forwarded", ANY, Live;
        /// Whether a request's body is read completely before an application of HTTP gets the
        /// request. If not, it gets the body as it comes: a slow client then holds a connection.
        /// Over HTTP/2, bodies of gRPC (`Content-Type: application/grpc`) are never kept back.
        request_buffering: bool = "true", ANY, Live;
        /// File of the authorities whose certificates an application behind `https://` may have
        /// (PEM); if not set, those of the system.
        tls_ca: Option<PathBuf> = "", ANY, Live;
        /// Name that its certificate must have, and that it is asked for (SNI); if not set, the
        /// host in `address`.
        tls_name: Option<Text> = "", ANY, Live;
        /// File of the certificate that it is shown if it asks for one (PEM).
        tls_certificate: Option<PathBuf> = "", ANY, Live;
        /// File of the key of `tls_certificate`; if not set, the same file.
        tls_key: Option<PathBuf> = "", ANY, Live;
        /// Parameters added to each request of FastCGI, such as `HTTPS` or `PHP_VALUE`; an empty
        /// value removes one.
        params: BTreeMap<String, Secret> = "", ANY, Live;
        /// Directories whose files the application may have sent, by the URL path under which
        /// `X-Accel-Redirect` names them; `X-Sendfile` names the files themselves. Other files of
        /// the site's root may be sent too.
        internal: BTreeMap<String, String> = "", ANY, Live;
    }
}
