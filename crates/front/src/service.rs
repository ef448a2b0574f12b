//! A connection's conversation: each request passes the phases in order and becomes one response.

use std::convert::Infallible;
use std::sync::Arc;

use http::header::{self, HeaderMap, HeaderValue};
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::service::service_fn;
use tokamak_cost::{Ledger, Phase};
use tokamak_upstream::body::Body;
use tokio::net::TcpStream;

use crate::access::{self, Entry};
use crate::application::{self, Arrival, Handler};
use crate::cgi::Variables;
use crate::connection::{Link, Wire};
use crate::failure::Failure;
use crate::fastcgi::Verdict;
use crate::files;
use crate::lua;
use crate::pages;
use crate::response::{Receipt, Reply, Source};
use crate::route::{Decision, Target};
use crate::server::{Loop, OpenConnection, Place};

/// Serves the requests of one connection, one after the other, until it ends.
pub async fn converse(home: Arc<Loop>, wire: Wire, link: Arc<Link>, _open: OpenConnection) {
    let limits = &home.server.limits;
    let mut http = hyper::server::conn::http1::Builder::new();
    // The sweeper looks after time limits, for all connections at once.
    http.header_read_timeout(None).max_buf_size(limits.head.max(8192) + 4096);
    if limits.headers > 100 {
        http.max_headers(limits.headers);
    }
    let service = {
        let (home, link) = (home.clone(), link.clone());
        service_fn(move |request| {
            let (home, link) = (home.clone(), link.clone());
            async move { Ok::<_, Infallible>(serve(home, link, request).await) }
        })
    };
    let mut connection = http.serve_connection(wire, service);
    let result = (&mut connection).await;
    let wire = connection.into_parts().io;
    if let Some(violation) = link.violation() {
        access::refused(&link.peer, violation.failure().status().as_u16(), violation.reason());
        wire.part().await;
    } else if let Err(error) = result
        && error.is_parse()
    {
        // The screen lets nothing pass that the library refuses; should it do so all the same, one sees it here.
        access::refused(&link.peer, 400, &error.to_string());
    }
}

/// Answers a client for which there is no room.
pub fn turn_away(stream: TcpStream) {
    // The socket's buffer is empty, so the page goes out whole or not at all.
    let _ = stream.try_write(&pages::raw(Failure::TooManyConnections));
}

/// The host that the request names: in its target, else in its `Host` header.
pub fn host(request: &Request<Incoming>) -> Option<&str> {
    host_of(request.uri(), request.headers())
}

/// As [`host`], of a request that is taken apart.
pub fn host_of<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let authority = uri.authority().map(|authority| authority.as_str());
    authority.or_else(|| headers.get(header::HOST)?.to_str().ok())
}

async fn serve(home: Arc<Loop>, link: Arc<Link>, request: Request<Incoming>) -> Response<Reply> {
    let now = tokamak_cost::now();
    home.attend(now);
    let mut ledger = Ledger::begin(link.serve(now));
    ledger.stamp(Phase::Head, now);
    let mut receipt = Receipt::new(home.clone(), link.clone(), ledger);
    if home.wants_entries() {
        receipt.entry = Some(Box::new(Entry::new(&link.text.peer, &request, host(&request))));
    }
    let head_only = request.method() == http::Method::HEAD;
    let place = home.place_of(host(&request));
    let answer = if place.hooks.is_empty() {
        dispatch(&home, place, &link, request, &mut receipt).await
    } else {
        lua::serve(&home, place, &link, request, &mut receipt).await
    };
    let mut response = match answer {
        Ok(response) => response,
        Err(failure) => failed(failure),
    };
    if home.is_draining() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if let Some(entry) = &mut receipt.entry {
        entry.status = response.status().as_u16();
    }
    // The length of what a GET would have brought is known; its bytes are not wanted. PHP leaves them out itself
    // though, and then nothing is known.
    if head_only
        && let Source::Whole(bytes) = response.body()
        && !bytes.is_empty()
    {
        let length = HeaderValue::from(bytes.len());
        response.headers_mut().entry(header::CONTENT_LENGTH).or_insert(length);
        *response.body_mut() = Source::Empty;
    }
    Reply::respond(response, receipt)
}

async fn dispatch(
    home: &Arc<Loop>,
    place: &Place,
    link: &Link,
    mut request: Request<Incoming>,
    receipt: &mut Receipt,
) -> Result<Response<Source>, Failure> {
    let decision = place.router.find(request.uri());
    receipt.ledger.stamp(Phase::Route, tokamak_cost::now());
    pursue(Arrival { home, place, link }, &mut request, Given::default(), decision, receipt).await
}

/// What is there already of a request that is pursued.
#[derive(Default)]
pub struct Given {
    /// Its body, if it has been read.
    pub body: Option<Body>,
    /// Variables for whoever answers.
    pub variables: Variables,
}

/// Has a request answered by whom or what was decided.
///
/// # Errors
/// The failure that the client is to be told. The operator has been told.
pub async fn pursue(
    arrival: Arrival<'_>,
    request: &mut Request<Incoming>,
    Given { body, mut variables }: Given,
    decision: Decision,
    receipt: &mut Receipt,
) -> Result<Response<Source>, Failure> {
    let place = arrival.place;
    let Decision { target, path, authorizer, filter } = decision;
    if let Some(index) = authorizer {
        match application::authorize(arrival, request, &path, index, receipt).await? {
            // What the authorizer says counts.
            Verdict::Allowed(given) => {
                variables.retain(|(name, _)| !given.iter().any(|(other, _)| other == name));
                variables.extend(given);
            }
            Verdict::Refused(response) => return Ok(response),
        }
    }
    let failure = match target {
        Target::Script(script) => {
            return application::serve(
                arrival,
                request,
                body,
                (&script, &place.handler),
                &variables,
                receipt,
            )
            .await;
        }
        Target::Application(script, upstream) => {
            let handler = Handler::Upstream(upstream);
            return application::serve(arrival, request, body, (&script, &handler), &variables, receipt)
                .await;
        }
        Target::File(file) => {
            if let Some(index) = filter.filter(|_| application::is_safe(request)) {
                let file = (&path[..], file);
                return application::filter(arrival, request, file, index, &variables, receipt).await;
            }
            match files::respond(file, request) {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            }
        }
        Target::Redirect(to) => return Ok(redirect(&to)),
        Target::NotFound => Failure::NotFound,
        Target::Forbidden => Failure::Forbidden,
        Target::BadRequest => Failure::BadRequest,
    };
    access::failed(&place.site.name, failure, failure.text(), request);
    Err(failure)
}

fn redirect(to: &str) -> Response<Source> {
    let mut response = Response::new(Source::Whole(pages::page(
        http::StatusCode::MOVED_PERMANENTLY,
        "The page is elsewhere.",
    )));
    *response.status_mut() = http::StatusCode::MOVED_PERMANENTLY;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    if let Ok(to) = HeaderValue::from_str(to) {
        headers.insert(header::LOCATION, to);
    }
    response
}

/// The answer to a request that failed.
pub fn failed(failure: Failure) -> Response<Source> {
    let (status, headers, body) = pages::answer(failure);
    let mut response = Response::new(Source::Whole(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    // A body that was not read to its end would be taken for the next request.
    if matches!(
        failure,
        Failure::BodyTooLarge | Failure::BodySlow | Failure::BadRequest | Failure::NotImplemented
    ) {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
