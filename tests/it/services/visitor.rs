//! Somebody with a browser's manners: one connection that is kept, cookies that are remembered.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::harness::{Connection, Request, Response, get};

/// A visitor of one site.
pub struct Visitor {
    address: SocketAddr,
    host: String,
    keeps: bool,
    connection: Option<Connection>,
    cookies: BTreeMap<String, String>,
}

impl Visitor {
    /// A visitor without cookies, not yet connected.
    pub fn of(address: SocketAddr) -> Visitor {
        Visitor {
            address,
            host: address.to_string(),
            keeps: true,
            connection: None,
            cookies: BTreeMap::new(),
        }
    }

    /// Makes a connection for each request: a server that renews itself may close an idle one at
    /// any time.
    pub fn keep_no_connection(&mut self) {
        self.keeps = false;
    }

    /// Uses this host name from now on. Cookies go there too: a browser sends them if the names
    /// have one address.
    pub fn call(&mut self, host: &str) {
        self.host = host.to_owned();
    }

    /// The cookies, by name.
    pub fn cookies(&self) -> &BTreeMap<String, String> {
        &self.cookies
    }

    /// Asks for a page; redirections are not followed.
    pub fn get(&mut self, target: &str) -> Response {
        self.send(get(target))
    }

    /// Sends a request with the cookies and the site's own address as `Host`, unless another was
    /// chosen.
    pub fn send(&mut self, mut request: Request) -> Response {
        request = request.header("Host", &self.host);
        if !self.cookies.is_empty() {
            let pairs: Vec<String> =
                self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
            request = request.header("Cookie", &pairs.join("; "));
        }
        let connection = self.connection.get_or_insert_with(|| Connection::open(self.address));
        let response = connection.exchange(&request);
        let closes = |value: &str| value.eq_ignore_ascii_case("close");
        if !self.keeps || response.header("connection").is_some_and(closes) {
            self.connection = None;
        }
        for cookie in response.head.all("set-cookie") {
            let pair = cookie.split(';').next().unwrap_or_default();
            if let Some((name, value)) = pair.split_once('=') {
                self.cookies.insert(name.trim().to_owned(), value.trim().to_owned());
            }
        }
        response
    }
}
