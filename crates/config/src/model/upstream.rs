//! Applications behind connections: their addresses, processes, limits and checks.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use regex_lite::Regex;

use super::{CertificateFiles, Secret};

/// An application behind connections: where it listens, what it speaks, and how much it may be
/// asked at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Upstream {
    /// Name in the configuration and in logs.
    pub name: String,
    /// Where it listens; each address takes a share of the requests. Empty beside
    /// [`Upstream::spawn`]: the supervisor makes the sockets.
    pub addresses: Vec<Address>,
    /// What it speaks.
    pub protocol: Protocol,
    /// How it is started, if the server does that.
    pub spawn: Option<Spawn>,
    /// How requests are spread over the addresses.
    pub balance: Balance,
    /// What binds a request to an address: the first of these that it has.
    pub affinity: Vec<Affinity>,
    /// Whether a request that is bound to a busy address goes to another one instead of waiting.
    pub spill: bool,
    /// How often names are resolved again; absent: when the answer has had its time.
    pub resolve: Option<Duration>,
    /// When an address is left out.
    pub health: Health,
    /// How its addresses are checked beside requests, if they are.
    pub check: Option<Check>,
    /// Most connections to each address.
    pub connections: usize,
    /// Whether it is asked if it takes several requests on a connection.
    pub multiplex: Multiplex,
    /// Requests after which a connection is closed; 0: never, 1: none is kept.
    pub requests: u64,
    /// How long an unused connection is kept.
    pub idle: Duration,
    /// Which requests may use a kept connection.
    pub reuse: Reuse,
    /// Requests that wait for a connection; one more is answered 503.
    pub queue: usize,
    /// How long the parts of an exchange may take.
    pub timeouts: UpstreamTimeouts,
    /// Most bytes of a response's headers.
    pub head: usize,
    /// Added to each request's parameters; an empty value removes one.
    pub params: BTreeMap<String, Secret>,
    /// Directories whose files the application may have sent, by the URL path under which it names
    /// them.
    pub internal: BTreeMap<String, PathBuf>,
}

/// Whether an application is asked if it takes several requests on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multiplex {
    /// It is not.
    Never,
    /// Before the first request.
    First,
    /// When it has kept a connection. The number of connections is then that of its kind.
    WhenKept,
}

/// What an application speaks.
#[derive(Clone, Debug, PartialEq)]
pub enum Protocol {
    /// FastCGI.
    FastCgi,
    /// HTTP.
    Http(HttpProxy),
}

impl Protocol {
    /// Its name.
    pub fn name(&self) -> ProtocolName {
        match self {
            Protocol::Http(HttpProxy { http2: true, .. }) => ProtocolName::Http2,
            Protocol::FastCgi => ProtocolName::FastCgi,
            Protocol::Http(HttpProxy { tls: None, .. }) => ProtocolName::Http,
            Protocol::Http(HttpProxy { tls: Some(_), .. }) => ProtocolName::Https,
        }
    }

    /// What its addresses begin with.
    pub fn scheme(&self) -> Scheme {
        match self {
            Protocol::FastCgi => Scheme::FastCgi,
            Protocol::Http(HttpProxy { tls: None, .. }) => Scheme::Http,
            Protocol::Http(HttpProxy { tls: Some(_), .. }) => Scheme::Https,
        }
    }
}

/// What an application speaks, by its name in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolName {
    /// FastCGI.
    FastCgi,
    /// HTTP/1.1.
    Http,
    /// The same over TLS.
    Https,
    /// HTTP/2, over TLS if the addresses say so.
    Http2,
}

/// What is spoken at an address, as it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// FastCGI.
    FastCgi,
    /// HTTP.
    Http,
    /// The same over TLS.
    Https,
}

/// What requests over HTTP tell an application.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HttpProxy {
    /// Whether HTTP/2 is spoken, and not HTTP/1.1.
    pub http2: bool,
    /// Its name in `Host`; absent: that which the client has sent.
    pub host: Option<String>,
    /// Fields that are set, by their names in small letters; an empty value removes one.
    pub headers: BTreeMap<String, Secret>,
    /// How it learns of the client.
    pub forwarded: Forwarded,
    /// Whether it gets a request only when its body has come.
    pub request_buffering: bool,
    /// How it is asked over TLS, if it is.
    pub tls: Option<UpstreamTls>,
}

/// How an application is asked over TLS.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpstreamTls {
    /// A file with the authorities whose certificates are believed; absent: those of the system.
    pub ca: Option<PathBuf>,
    /// Whom its certificates have to name; absent: the host of the address.
    pub name: Option<String>,
    /// The certificate that it is shown.
    pub certificate: Option<CertificateFiles>,
}

/// How an application learns for whom a request is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forwarded {
    /// By `X-Forwarded-For`, `X-Forwarded-Proto`, `X-Forwarded-Host` and `X-Real-IP`.
    #[default]
    Fields,
    /// By `Forwarded` (RFC 7239).
    Standard,
    /// Not at all.
    None,
}

/// An application that the server starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Spawn {
    /// The program, absolute.
    pub program: PathBuf,
    /// What follows it.
    pub arguments: Vec<String>,
    /// How many of it run.
    pub processes: usize,
    /// Whether they share one socket.
    pub shared: bool,
    /// Where they start.
    pub directory: PathBuf,
    /// Their environment.
    pub env: BTreeMap<String, Secret>,
    /// Whether they see the server's own environment beside [`Spawn::env`].
    pub inherit_env: bool,
    /// User that they run as, when the server was started as root; [`crate::Server::user`] if
    /// absent.
    pub user: Option<String>,
    /// Group that goes with [`Spawn::user`].
    pub group: Option<String>,
    /// The signal that ends a process.
    pub stop_signal: StopSignal,
    /// How long it may take then.
    pub stop_timeout: Duration,
}

impl Spawn {
    /// How many sockets the processes have.
    pub fn sockets(&self) -> usize {
        if self.shared { 1 } else { self.processes }
    }
}

/// The signal that ends an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    /// `SIGTERM`
    Terminate,
    /// `SIGUSR1`
    User1,
    /// `SIGINT`
    Interrupt,
    /// `SIGQUIT`
    Quit,
}

/// One address of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// What is spoken there.
    pub scheme: Scheme,
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Its share of the requests, at least 1.
    pub weight: u32,
}

/// How requests are spread over the addresses of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// Each in turn, as often as its weight says.
    RoundRobin,
    /// The one with the fewest requests for its weight.
    LeastBusy,
}

/// Which requests may use a connection that was kept, and that the application may close just then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Those that may be repeated.
    Repeatable,
    /// All, and some may be lost.
    All,
}

/// Information in a request that binds it to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// A cookie's value.
    Cookie(String),
    /// A header's value.
    Header(String),
    /// The value of an argument in the query.
    Query(String),
    /// A segment of the path, counted from 1.
    Segment(usize),
    /// What a regular expression finds at the start of the path.
    Prefix(Pattern),
    /// The value of a CGI variable that a script or an authorizer has set.
    Variable(String),
    /// The user's name, as in the `Authorization` header.
    User,
    /// The client's IP address.
    Client,
}

/// A regular expression that is looked for at the start of a text.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    anchored: Regex,
}

impl Pattern {
    /// From its text.
    ///
    /// # Errors
    /// Fails with a message if the expression is invalid.
    pub fn new(text: &str) -> Result<Pattern, String> {
        let anchored = Regex::new(text).and_then(|_| Regex::new(&format!(r"\A(?:{text})")));
        let anchored = anchored.map_err(|error| error.to_string())?;
        Ok(Pattern { text: text.to_owned(), anchored })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The start of `path` that it matches.
    pub fn find<'a>(&self, path: &'a str) -> Option<&'a str> {
        self.anchored.find(path).map(|found| found.as_str())
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

/// A request that is made at an interval, to find out whether an address is well.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// What is asked for: a path, perhaps with a query.
    pub path: String,
    /// How often.
    pub interval: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// The status of a good answer.
    pub status: u16,
    /// Good answers in a row that bring an address back.
    pub rise: u32,
    /// Bad ones in a row that take it out.
    pub fall: u32,
    /// Added to [`Upstream::params`]; an empty value removes one.
    pub params: BTreeMap<String, Secret>,
}

/// When an address is left out, because requests to it failed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Health {
    /// So many failures within the window; 0: never.
    pub failures: u32,
    /// The window.
    pub window: Duration,
    /// The first pause; each further one is twice as long.
    pub pause: Duration,
}

/// How long the parts of an exchange with an application may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpstreamTimeouts {
    /// Waiting for a connection that is free.
    pub queue: Duration,
    /// Opening one.
    pub connect: Duration,
    /// Between two writes of the request.
    pub send: Duration,
    /// From the request's last byte to the response's first one.
    pub first_byte: Duration,
    /// Between two reads of the response.
    pub read: Duration,
}

/// Where something listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `host:port`; a name stands for all its addresses.
    Tcp(String),
    /// A service's name, whose SRV records have hosts, ports and weights.
    Srv(String),
    /// A Unix socket.
    Unix(PathBuf),
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Endpoint::Tcp(address) => f.write_str(address),
            Endpoint::Srv(name) => write!(f, "srv:{name}"),
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
