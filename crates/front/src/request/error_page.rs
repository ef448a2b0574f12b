//! The site's own pages for requests that are refused or fail, and, if the site wants that, for
//! those of which an application says so. The status is that of the failure, and a page that fails
//! itself is replaced by the plain one, so that there is no loop.

use std::future::poll_fn;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use tokamak_config::FileCharset;
use tokamak_cost::Ledger;
use tokamak_upstream::body::Body;

use crate::backend::{self, Arrival, RequestBody};
use crate::failure::Failure;
use crate::response::{Source, files, pages};
use crate::route::{Script, Target};
use crate::site::Site;

/// Header fields of a request that are about its body, or that would make a page partial.
const NOT_FOR_PAGES: [HeaderName; 10] = [
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::EXPECT,
    header::IF_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_NONE_MATCH,
    header::IF_RANGE,
    header::IF_UNMODIFIED_SINCE,
    header::RANGE,
];

/// Header fields of a file that are about a page of its own URL.
const OF_FILES: [HeaderName; 3] = [header::ACCEPT_RANGES, header::ETAG, header::LAST_MODIFIED];

/// Header fields of an application's response that stay when a page replaces it: without them, the
/// client could not do what the status tells it to. nginx keeps the first one; the others are those
/// that the server's own failures have. `Connection` is what a script has said.
const KEPT: [HeaderName; 5] = [
    header::WWW_AUTHENTICATE,
    header::PROXY_AUTHENTICATE,
    header::ALLOW,
    header::RETRY_AFTER,
    header::CONNECTION,
];

/// Bytes of a replaced body that are read before the page is made, so that the script comes to its
/// end, and its worker is free for a page that is a script, too. It is more than any page about an
/// error has; with ten times more, a script that never ends would keep its client waiting longer.
const MOST_UNSENT: usize = 1 << 20;

/// What a refused or failed request is answered with.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The failure.
    pub failure: Failure,
    /// A header field that the response must have, whatever page it is.
    pub header: Option<(HeaderName, HeaderValue)>,
}

impl Refusal {
    /// The client may come again after these nanoseconds.
    pub fn later(failure: Failure, wait: u64) -> Refusal {
        let seconds = wait.div_ceil(1_000_000_000).max(1);
        Refusal { failure, header: Some((header::RETRY_AFTER, seconds.into())) }
    }

    fn plain(self) -> Response<Source> {
        let mut response = pages::failed(self.failure);
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        Refusal { failure, header: None }
    }
}

/// The response to a failed request.
pub async fn failed(
    arrival: Arrival<'_>,
    request: &Request<()>,
    refusal: Refusal,
    ledger: &mut Ledger,
) -> Response<Source> {
    in_place_of(arrival, request, refusal.plain(), ledger).await
}

/// The site's page in place of a plain one. That stays if there is no page, or if the page fails.
async fn in_place_of(
    arrival: Arrival<'_>,
    request: &Request<()>,
    plain: Response<Source>,
    ledger: &mut Ledger,
) -> Response<Source> {
    let status = plain.status();
    let Some(path) = arrival.site.config.error_page(status.as_u16()) else { return plain };
    let own = match arrival.site.router.find_plain(path.as_bytes()) {
        Target::File(found) => of_found(found, &arrival.site.config.charset),
        Target::Script(script) => of_script(arrival, request, status, &script, ledger).await,
        _ => None,
    };
    match own {
        Some(own) => merged(own, plain),
        None => plain,
    }
}

/// Whether a page of the site replaces what an application answers with this status.
pub fn is_intercepted(site: &Site, status: StatusCode) -> bool {
    site.config.intercept_errors && site.config.error_page(status.as_u16()).is_some()
}

/// The site's page in place of an application's response, whose status
/// [is intercepted](is_intercepted).
pub async fn intercepted(
    arrival: Arrival<'_>,
    request: &Request<()>,
    response: Response<Source>,
    ledger: &mut Ledger,
) -> Response<Source> {
    let (head, mut body) = response.into_parts();
    let mut plain = pages::plain(head.status);
    for name in &KEPT {
        for value in head.headers.get_all(name) {
            plain.headers_mut().append(name, value.clone());
        }
    }
    let mut unsent = 0;
    while unsent < MOST_UNSENT
        && let Some(Ok(piece)) = poll_fn(|cx| body.poll_piece(ledger, cx)).await
    {
        unsent += piece.len();
    }
    drop(body);
    in_place_of(arrival, request, plain, ledger).await
}

/// The response to a failed request without running anything: the site's page, if that is a file.
pub fn at_once(site: &Site, refusal: Refusal) -> Response<Source> {
    let path = site.config.error_page(refusal.failure.status().as_u16());
    let plain = refusal.plain();
    let own = match path.map(|path| site.router.find_plain(path.as_bytes())) {
        Some(Target::File(found)) => of_found(found, &site.config.charset),
        _ => None,
    };
    match own {
        Some(own) => merged(own, plain),
        None => plain,
    }
}

fn of_found(found: files::OpenFile, charset: &FileCharset) -> Option<Response<Source>> {
    files::plan(found, &Method::GET, &HeaderMap::new(), charset).ok().map(of_file)
}

fn of_file(plan: files::FileResponse) -> Response<Source> {
    let files::FileResponse { headers, body, .. } = plan;
    let mut response = Response::new(Source::from(body));
    *response.headers_mut() = headers;
    for name in &OF_FILES {
        response.headers_mut().remove(name);
    }
    response
}

/// What the site's script says. It sees the request with the method `GET` and without a body, and
/// the status as `REDIRECT_STATUS`, as under Apache.
async fn of_script(
    arrival: Arrival<'_>,
    request: &Request<()>,
    status: StatusCode,
    script: &Script,
    ledger: &mut Ledger,
) -> Option<Response<Source>> {
    let mut own = Request::new(());
    *own.uri_mut() = request.uri().clone();
    *own.version_mut() = request.version();
    *own.headers_mut() = request.headers().clone();
    for name in &NOT_FOR_PAGES {
        own.headers_mut().remove(name);
    }
    let status = HeaderValue::from(status.as_u16());
    let variables = vec![("REDIRECT_STATUS".to_owned(), status)];
    let handler = &arrival.site.handler;
    backend::serve(
        arrival,
        &own,
        RequestBody::Whole(Body::Empty),
        &variables,
        script,
        handler,
        ledger,
    )
    .await
    .ok()
}

/// The site's page with the status and the headers that the failure must have.
fn merged(mut own: Response<Source>, plain: Response<Source>) -> Response<Source> {
    *own.status_mut() = plain.status();
    for name in plain.headers().keys() {
        // Retry-After, Allow, Connection: what the page itself cannot know.
        if *name != header::CONTENT_LENGTH
            && *name != header::CONTENT_TYPE
            && !own.headers().contains_key(name)
        {
            for value in plain.headers().get_all(name) {
                own.headers_mut().append(name, value.clone());
            }
        }
    }
    own
}
