//! The rules of a site without a server: what a request would get, for tests that invent both.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderMap, Method, Response, StatusCode, Uri};
use tokamak_config as config;
use tokamak_upstream::Flow;

use super::{RuleRequest, Rules};
use crate::caller::Caller;
use crate::client::{Addresses, Client};
use crate::failure::Failure;
use crate::response::Source;
use crate::route::{Router, Target};

/// A client that only asks.
pub(super) struct PlainClient(Arc<Addresses>);

impl PlainClient {
    /// One with this address, over plain HTTP.
    pub(super) fn caller(client: IpAddr) -> Caller {
        let [peer, local] = [client, IpAddr::from([127, 0, 0, 1])].map(|ip| (ip, 1).into());
        let client = Arc::new(PlainClient(Arc::new(Addresses::new(peer, local, 0))));
        Caller::Client { client, takes_interim: false }
    }
}

impl Client for PlainClient {
    fn addresses(&self) -> &Arc<Addresses> {
        &self.0
    }

    fn scheme(&self) -> &'static str {
        "http"
    }

    fn requests(&self) -> u32 {
        1
    }

    fn flow(&self) -> Option<Flow> {
        None
    }

    fn poll_gone(&self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn takes_websocket(&self) -> bool {
        false
    }

    fn send_interim(&self, _: StatusCode, _: &HeaderMap) {}

    fn violation(&self) -> Option<Failure> {
        None
    }

    fn served(&self, _: u64) {}

    fn take_received(&self) -> u64 {
        0
    }
}

/// What a request gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// `Location`, and the status.
    Redirect(String, StatusCode),
    /// A file.
    File(PathBuf),
    /// A script, or an application, with what is behind its name.
    Script(PathBuf, Vec<u8>),
    /// A page that lists this folder.
    Listing(PathBuf),
    /// What the hub of the site answers.
    Hub,
    /// A page that says why not.
    Refused(StatusCode),
}

/// The rules of a site, with its files.
pub struct RuleBook {
    rules: Rules,
    router: Router,
}

impl RuleBook {
    /// Those of this site.
    pub fn new(site: &config::Site) -> RuleBook {
        RuleBook { rules: Rules::new(site), router: Router::new(site) }
    }

    /// What a GET of this client gets, who is not asked for a password.
    pub fn decide(&self, client: IpAddr, uri: &Uri, headers: &HeaderMap) -> Ruling {
        let (caller, method) = (PlainClient::caller(client), &Method::GET);
        let request = RuleRequest { caller: &caller, method, uri, headers };
        match self.rules.decide(request, None, &self.router).target {
            Target::Redirect(to, status) => Ruling::Redirect(to, status),
            Target::File(found) => Ruling::File(found.path.to_path_buf()),
            Target::Script(script) | Target::Application(script, _) => {
                Ruling::Script(script.filename.to_path_buf(), script.path_info().to_vec())
            }
            Target::Listing(folder) => Ruling::Listing(folder),
            Target::Hub => Ruling::Hub,
            Target::NotFound => Ruling::Refused(StatusCode::NOT_FOUND),
            Target::Gone => Ruling::Refused(StatusCode::GONE),
            Target::Forbidden => Ruling::Refused(StatusCode::FORBIDDEN),
            Target::BadRequest => Ruling::Refused(StatusCode::BAD_REQUEST),
            Target::Unreadable(failure, _) => Ruling::Refused(failure.status()),
        }
    }

    /// The header fields of a response after the changes of the rules.
    pub fn head(&self, uri: &Uri, status: StatusCode, headers: HeaderMap) -> HeaderMap {
        let mut response = Response::new(Source::Empty);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        if let Some(changes) = self.rules.changes(uri, &self.router, None) {
            changes.apply(&mut response);
        }
        std::mem::take(response.headers_mut())
    }
}
