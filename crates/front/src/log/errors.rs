//! The front's lines in the error log, which is its standard error. As for the access log, a thread
//! writes them, because standard error may be a full pipe, above all when every request fails.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use http::header::REFERER;
use http::{Request, StatusCode};
use tokamak_fpm::log::Style;
use tokamak_trace::TraceId;
use tokamak_upstream::unopened::Explained;

use super::line::escape;
use super::writer::Log;
use crate::clock::Clock;
use crate::failure::{Failure, Side};
use crate::request_id::RequestId;
use crate::trace::trace_of;

/// Refused requests that are logged each second. More are only counted, so that a client that sends
/// garbage cannot fill the disk.
const REFUSALS: u64 = 20;

/// The style of php-fpm's log, if this server replaces php-fpm.
static STYLE: OnceLock<Style> = OnceLock::new();

/// Writes lines in php-fpm's style from now on.
pub fn write_as_fpm(style: Style) {
    // Called once, when the front starts. Later calls are no-ops.
    let _ = STYLE.set(style);
}

/// The log, while event loops run.
static LOG: Mutex<Option<Log>> = Mutex::new(None);

/// A thread writes the lines as long as this lives. Dropping it waits a limited time until they are
/// written.
#[derive(Debug)]
pub struct Open(());

/// Starts the thread that writes the lines from now on.
///
/// # Errors
/// Fails if the thread cannot be started.
pub fn open() -> io::Result<Open> {
    *log() = Some(Log::errors()?);
    Ok(Open(()))
}

/// Waits a limited time until all lines are written. Later lines are written by their callers.
pub fn close() {
    let open = log().take();
    drop(open);
}

impl Drop for Open {
    fn drop(&mut self) {
        close();
    }
}

fn log() -> MutexGuard<'static, Option<Log>> {
    // No code under the lock can panic half-way.
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Requests that are refused. Each kind of line has a limit of its own, so that clients that do one
/// thing do not hide those that do another.
static REQUESTS: Throttle = Throttle::new();

/// Connections that are closed because of what came on them.
static CONNECTIONS: Throttle = Throttle::new();

/// Handshakes that fail.
static HANDSHAKES: Throttle = Throttle::new();

/// Web servers that are refused.
static WEB_SERVERS: Throttle = Throttle::new();

/// Logs bytes that were not a valid request.
pub fn refused(client: &SocketAddr, status: u16, reason: &str) {
    let status = status.to_string();
    let message = format_args!("request refused: {reason}");
    of_client(&REQUESTS, client, message, &[("status", status.as_bytes())]);
}

/// Logs a connection of this protocol that was closed because the client broke a rule; limited as
/// [`refused`] is.
pub fn closed(client: &SocketAddr, protocol: &str, reason: &str) {
    of_client(&CONNECTIONS, client, format_args!("{protocol} connection closed: {reason}"), &[]);
}

/// Logs a client with which no handshake was possible; limited as [`refused`] is.
pub fn no_handshake(client: &SocketAddr, reason: &str) {
    of_client(&HANDSHAKES, client, format_args!("TLS handshake failed: {reason}"), &[]);
}

/// Logs a connection that was closed because of its PROXY header, or for want of one; limited as
/// [`refused`] is.
pub fn unproxied(client: &SocketAddr, reason: &str) {
    of_client(&CONNECTIONS, client, format_args!("connection closed: {reason}"), &[]);
}

/// Logs a connection for which there was no room; limited as [`refused`] is.
pub fn too_many_connections(client: &SocketAddr, reason: &str) {
    of_client(&CONNECTIONS, client, format_args!("connection refused: {reason}"), &[]);
}

/// Logs that connections cannot be accepted; limited as [`refused`] is.
pub fn unaccepted(error: &io::Error) {
    CONNECTIONS.limit(|now, held_back| {
        let message = format!("connections cannot be accepted: {}", Explained(error));
        put(&compose(now, "WARN", "-", &message, &held_back.pair()));
    });
}

fn of_client(
    throttle: &Throttle,
    client: &SocketAddr,
    message: fmt::Arguments<'_>,
    more: &[(&str, &[u8])],
) {
    throttle.limit(|now, held_back| {
        let client = client.to_string();
        let pairs = [&[("client", client.as_bytes())], more, &held_back.pair()[..]].concat();
        put(&compose(now, "INFO", "-", &message.to_string(), &pairs));
    });
}

/// Logs a request that is served, although its client has exceeded a limit that is only tried;
/// limited as [`refused`] is.
pub fn limited<B>(site: &str, failure: Failure, reason: &str, request: &Request<B>) {
    REQUESTS.limit(|now, held_back| {
        let status = failure.status();
        let message = format!("dry run: {reason}; it would be answered {}", status.as_u16());
        let target = request.uri().path_and_query().map_or("", |target| target.as_str());
        let pairs = [("method", request.method().as_str().as_bytes()), ("url", target.as_bytes())];
        let pairs = [&pairs[..], &held_back.pair()].concat();
        put(&compose(now, "INFO", site, &message, &pairs));
    });
}

/// Logs a subscriber of a site's hub that was ended because it was too slow; limited as
/// [`refused`] is.
pub fn unsubscribed(site: &str, client: &SocketAddr) {
    CONNECTIONS.limit(|now, held_back| {
        let message = "a subscriber was ended: it is so slow that the history has dropped an \
                       update that it had still to get (site.mercure.history)";
        let client = client.to_string();
        let pairs = [&[("client", client.as_bytes())], &held_back.pair()[..]].concat();
        put(&compose(now, "INFO", site, message, &pairs));
    });
}

/// Logs a web server that may not connect, in php-fpm's words; limited as [`refused`] is.
pub fn disallowed(pool: &str, client: &str) {
    WEB_SERVERS.limit(|now, held_back| {
        let message = format!("Connection disallowed: IP address '{client}' has been dropped.");
        put(&compose(now, "ERROR", pool, &message, &held_back.pair()));
    });
}

/// Logs a web server whose bytes were not valid FastCGI; limited as [`refused`] is.
pub fn garbled(site: &str, client: &str, reason: &str) {
    WEB_SERVERS.limit(|now, held_back| {
        let pairs = [&[("client", client.as_bytes())], &held_back.pair()[..]].concat();
        put(&compose(now, "WARN", site, &format!("FastCGI connection closed: {reason}"), &pairs));
    });
}

/// Logs a request that got an error page, with the reason. A client's own mistakes are limited as
/// for [`refused`].
pub fn failed<B>(site: &str, failure: Failure, reason: &str, request: &Request<B>) {
    let now = SystemTime::now();
    let second = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut held_back = HeldBack::NONE;
    let level = match failure.side() {
        Side::Client => match REQUESTS.pass(second) {
            Some(count) => {
                held_back = HeldBack::of(count);
                "INFO"
            }
            None => return,
        },
        Side::Server => "WARN",
        Side::Backend => "ERROR",
    };
    let target = request.uri().path_and_query().map_or("", |target| target.as_str());
    let status = failure.status();
    let mut pairs = vec![
        ("status", status.as_str().as_bytes()),
        ("method", request.method().as_str().as_bytes()),
        ("url", target.as_bytes()),
    ];
    if let Some(referer) = request.headers().get(REFERER) {
        pairs.push(("referer", referer.as_bytes()));
    }
    let trace = trace_of(request).map(|trace| trace.digits());
    pairs.extend(trace.as_ref().map(|trace| ("trace", &trace[..])));
    let id = RequestId::of(request.extensions());
    pairs.extend((!id.is_empty()).then_some(("request_id", id)));
    pairs.extend(held_back.pair());
    put(&compose(now, level, site, reason, &pairs));
}

/// The request that a line is about, after most of it is gone.
#[derive(Clone, Copy)]
pub struct About<'a> {
    /// The name of its site.
    pub site: &'a str,
    /// Its method.
    pub method: &'a str,
    /// Its path and query.
    pub target: &'a str,
    /// The trace that it belongs to.
    pub trace: Option<TraceId>,
}

impl About<'_> {
    /// Logs a message about it, with the status that the client got, if any.
    fn put(&self, level: &str, message: &str, status: Option<StatusCode>) {
        let trace = self.trace.map(|trace| trace.digits());
        let mut pairs = Vec::with_capacity(4);
        pairs.extend(status.as_ref().map(|status| ("status", status.as_str().as_bytes())));
        pairs.push(("method", self.method.as_bytes()));
        pairs.push(("url", self.target.as_bytes()));
        pairs.extend(trace.as_ref().map(|trace| ("trace", &trace[..])));
        put(&compose(SystemTime::now(), level, self.site, message, &pairs));
    }
}

/// Logs a response that ended early, after its status had been sent.
pub fn broken_off(about: &About<'_>, failure: Failure, reason: &str) {
    about.put("ERROR", reason, Some(failure.status()));
}

/// Logs what an application writes to its standard error.
pub fn complained(about: &About<'_>, text: &[u8]) {
    about.put("WARN", &String::from_utf8_lossy(text), None);
}

/// Logs something about a site that the operator may want to know.
pub fn noticed(site: &str, message: &str) {
    put(&compose(SystemTime::now(), "INFO", site, message, &[]));
}

/// Logs that responses for slow clients cannot go to files.
pub fn unspooled(site: &str, reason: &str) {
    let message = format!("responses wait in workers for slow clients: {reason}");
    put(&compose(SystemTime::now(), "WARN", site, &message, &[]));
}

/// Logs a message of a Lua script, or about one.
pub fn script(about: &About<'_>, text: &str) {
    let level = if text.starts_with("(lua-print)") { "INFO" } else { "ERROR" };
    about.put(level, text, None);
}

/// Logs a problem that belongs to no site.
pub fn server(message: &str) {
    put(&warning(message));
}

/// The line for a problem that belongs to no site.
pub fn warning(message: &str) -> Vec<u8> {
    compose(SystemTime::now(), "WARN", "-", message, &[])
}

fn put(line: &[u8]) {
    let is_taken = log().as_ref().map(|log| log.line(line)).is_some();
    if !is_taken {
        // If standard error fails too, there is no other place to report it.
        let _ = write(line);
    }
}

/// Writes lines to standard error, each by itself, so that lines of several processes do not mix.
/// It does not take the standard library's lock, so that a panic can still be reported while this
/// waits.
pub fn write(lines: &[u8]) -> io::Result<()> {
    for mut line in lines.split_inclusive(|byte| *byte == b'\n') {
        while !line.is_empty() {
            match rustix::io::write(rustix::stdio::stderr(), line) {
                Ok(count) => line = &line[count..],
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

fn compose(
    now: SystemTime,
    level: &str,
    site: &str,
    message: &str,
    pairs: &[(&str, &[u8])],
) -> Vec<u8> {
    let mut line = head(now, level, site);
    escape(message.as_bytes(), &mut line);
    for (key, value) in pairs {
        let quoted = value.is_empty() || value.iter().any(|byte| !byte.is_ascii_graphic());
        line.extend_from_slice(format!(" {key}=").as_bytes());
        if quoted {
            line.push(b'"');
        }
        escape(value, &mut line);
        if quoted {
            line.push(b'"');
        }
    }
    line.push(b'\n');
    line
}

fn head(now: SystemTime, level: &str, site: &str) -> Vec<u8> {
    let Some(style) = STYLE.get() else {
        let mut head = Clock::default().rfc3339(now).to_vec();
        head.extend_from_slice(format!(" {level} [{site}] ").as_bytes());
        return head;
    };
    let level = match level {
        "ERROR" => tokamak_fpm::Level::Error,
        "WARN" => tokamak_fpm::Level::Warning,
        _ => tokamak_fpm::Level::Notice,
    };
    format!("{}[pool {site}] ", style.head(now, level)).into_bytes()
}

/// A limit per second over all threads. At the change of a second two threads may let a few more
/// pass, which is harmless.
struct Throttle {
    second: AtomicU64,
    count: AtomicU64,
}

/// How many lines were held back before this one, as text; empty if none were.
struct HeldBack(String);

impl HeldBack {
    const NONE: HeldBack = HeldBack(String::new());

    fn of(count: u64) -> HeldBack {
        if count == 0 { HeldBack::NONE } else { HeldBack(count.to_string()) }
    }

    /// The pair of the line that says it, if there is something to say.
    fn pair(&self) -> Vec<(&str, &[u8])> {
        if self.0.is_empty() { Vec::new() } else { vec![("more", self.0.as_bytes())] }
    }
}

impl Throttle {
    const fn new() -> Throttle {
        Throttle { second: AtomicU64::new(0), count: AtomicU64::new(0) }
    }

    /// Writes a line now, unless too many have been written in this second.
    fn limit(&self, write: impl FnOnce(SystemTime, &HeldBack)) {
        let now = SystemTime::now();
        let second = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if let Some(count) = self.pass(second) {
            write(now, &HeldBack::of(count));
        }
    }

    /// Whether one more may pass. If so, gives the number that were held back in the latest earlier
    /// second with any.
    fn pass(&self, second: u64) -> Option<u64> {
        if self.second.swap(second, Ordering::Relaxed) != second {
            return Some(self.count.swap(1, Ordering::Relaxed).saturating_sub(REFUSALS));
        }
        (self.count.fetch_add(1, Ordering::Relaxed) < REFUSALS).then_some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_shape_of_the_error_log() {
        let now = UNIX_EPOCH + std::time::Duration::from_millis(1_795_176_000_123);
        let line = compose(
            now,
            "ERROR",
            "shop",
            "the worker died",
            &[("url", b"/a"), ("referer", b"x y\n\"")],
        );
        assert_eq!(
            String::from_utf8(line).unwrap(),
            "2026-11-20T12:00:00.123Z ERROR [shop] the worker died url=/a referer=\"x \
                y\\x0A\\x22\"\n"
        );
    }

    #[test]
    fn log_lines_about_garbage_are_limited() {
        let throttle = Throttle::new();
        let passed = (0..100).filter(|_| throttle.pass(7).is_some()).count();
        assert_eq!(passed as u64, REFUSALS);
        assert_eq!(throttle.pass(8), Some(80));
        assert_eq!(throttle.pass(8), Some(0));
    }
}
