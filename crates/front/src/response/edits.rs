//! What the server changes in the responses to clients: one list, in the order in which it is done.
//!
//! What depends on the site alone is made once, in [`SiteEdits`]; what a request asks for is chosen
//! when it comes, in [`Edits`], and done when its response is there, by [`Edits::apply`].

use http::header::{ALT_SVC, HeaderValue, STRICT_TRANSPORT_SECURITY};
use http::{Request, Response};
use tokamak_config as config;
use tokamak_cost::Ledger;

use super::compression::{Negotiated, Policy, SiteCompression};
use super::headers::HeaderChanges;
use super::https;
use super::source::Source;
use crate::request_id::RequestId;
use crate::timing;

/// What the responses of one site get.
pub struct SiteEdits {
    /// Which of them are compressed.
    compression: SiteCompression,
    /// Their `Strict-Transport-Security`.
    hsts: Option<HeaderValue>,
    /// Their `Alt-Svc`, for clients that could use HTTP/3.
    alt_svc: Option<HeaderValue>,
    /// Whether they have the names of their requests.
    names_requests: bool,
}

impl SiteEdits {
    /// As the configuration of server and site says.
    pub fn new(server: &config::Server, site: &config::Site) -> SiteEdits {
        SiteEdits {
            compression: SiteCompression::new(site),
            hsts: https::hsts(site),
            alt_svc: https::alt_svc(server, site),
            names_requests: server.request_ids,
        }
    }

    /// How responses may be compressed that are no route's; `None`: they may not be.
    pub fn compression(&self) -> Option<&Policy> {
        self.compression.of(|| None).map(|policy| &**policy)
    }
}

/// What the response to one request gets.
#[derive(Default)]
pub struct Edits {
    /// What rules change in its head.
    pub changes: Option<Box<HeaderChanges>>,
    /// How it may be compressed, where it may be at all.
    compression: Option<Negotiated>,
    /// Whether the client gets `Server-Timing`.
    pub is_timed: bool,
    /// Its `Strict-Transport-Security`.
    hsts: Option<HeaderValue>,
    /// Its `Alt-Svc`.
    alt_svc: Option<HeaderValue>,
    /// The request's name, if the response has it.
    request_id: Option<RequestId>,
}

impl Edits {
    /// Chooses what this request of the site asks for, besides `changes` and `is_timed`. `route`
    /// finds its route, and is called only if that makes a difference.
    pub fn choose<B>(
        &mut self,
        site: &SiteEdits,
        request: &Request<B>,
        is_https: bool,
        route: impl FnOnce() -> Option<usize>,
    ) {
        self.compression = site.compression.of(route).map(|it| Negotiated::of(it, request));
        if is_https {
            self.hsts.clone_from(&site.hsts);
        }
        if site.names_requests {
            self.request_id = request.extensions().get().cloned();
        }
    }

    /// Tells the client that it may use HTTP/3 from now on.
    pub fn offer_http3(&mut self, site: &SiteEdits) {
        self.alt_svc.clone_from(&site.alt_svc);
    }

    /// Changes the response.
    pub fn apply(&mut self, response: &mut Response<Source>, ledger: &mut Ledger) {
        if let Some(changes) = &self.changes {
            changes.apply(response);
        }
        if let Some(negotiated) = self.compression.take() {
            negotiated.apply(response, ledger);
        }
        if self.is_timed {
            timing::add_header(ledger, response.headers_mut());
        }
        if let Some(hsts) = self.hsts.take() {
            response.headers_mut().entry(STRICT_TRANSPORT_SECURITY).or_insert(hsts);
        }
        if let Some(alt_svc) = self.alt_svc.take() {
            response.headers_mut().entry(ALT_SVC).or_insert(alt_svc);
        }
        if let Some(id) = self.request_id.take() {
            id.add_header(response.headers_mut());
        }
    }
}
