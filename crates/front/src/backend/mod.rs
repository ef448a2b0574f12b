//! Has an application answer a request, whatever kind of application it is. The operator's log gets
//! the full reason of a failure, the client only a short page.

pub mod cgi;
mod internal;
pub mod php;
pub mod response_head;
pub mod upstream;

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use http::{HeaderValue, Method, Request, Response, header};
use tokamak_config::Protocol;
use tokamak_cost::{Ledger, Phase};
use tokamak_upstream::body::Body;
use tokamak_upstream::live::LiveBody;

use crate::caller::Caller;
use crate::context::Context;
use crate::failure::Failure;
use crate::log;
use crate::response::Source;
use crate::response::files::OpenFile;
use crate::route::Script;
use crate::site::{Handler, Site};
use cgi::Variables;
use upstream::Authorization;

pub use upstream::request_trailers;

/// Where a request came in.
#[derive(Clone, Copy)]
pub struct Arrival<'a> {
    /// What all requests of this event loop share.
    pub context: &'a Arc<Context>,
    /// The site.
    pub site: &'a Site,
    /// The client, or the server itself.
    pub caller: &'a Caller,
}

/// A request to an application.
#[derive(Clone, Copy)]
pub struct BackendRequest<'a> {
    /// Where it came in.
    pub arrival: Arrival<'a>,
    /// The request; its body has been taken.
    pub request: &'a Request<()>,
    /// The script that it asks for.
    pub script: &'a Script,
    /// The variables that the authorizer gave it.
    pub variables: &'a [(String, HeaderValue)],
    /// Whether the request may be sent twice without harm.
    pub is_repeatable: bool,
    /// Its body, if the client still sends it.
    pub live: Option<&'a Arc<LiveBody>>,
}

/// An error: the failure for the client, and the reason for the log.
#[derive(Debug)]
pub struct BackendError {
    /// The response to the client.
    pub failure: Failure,
    /// What the log says.
    pub reason: Cow<'static, str>,
}

impl From<Failure> for BackendError {
    fn from(failure: Failure) -> BackendError {
        BackendError { failure, reason: failure.text().into() }
    }
}

/// The body of a request.
pub enum RequestBody {
    /// It has come.
    Whole(Body),
    /// The client still sends it.
    Live(Arc<LiveBody>),
}

/// Serves `request`, which has this body, by asking `handler` for `script`.
///
/// # Errors
/// Fails with the failure for the client. The log has been written.
pub async fn serve(
    arrival: Arrival<'_>,
    request: &Request<()>,
    body: RequestBody,
    variables: &Variables,
    script: &Script,
    handler: &Handler,
    ledger: &mut Ledger,
) -> Result<Response<Source>, Failure> {
    let (body, live) = match body {
        RequestBody::Whole(body) => (body, None),
        RequestBody::Live(live) => (Body::Empty, Some(live)),
    };
    let is_repeatable = is_safe(request) && matches!(body, Body::Empty) && live.is_none();
    let live = live.as_ref();
    let call = BackendRequest { is_repeatable, live, ..arrival.call(request, script, variables) };
    answer(&call, handler, body, ledger).await.map_err(|error| arrival.log_failure(error, request))
}

/// Asks the application number `index` whether a request for `path` may be served.
///
/// # Errors
/// Fails if the authorizer gives no valid answer; otherwise as [`serve`].
pub async fn authorize(
    arrival: Arrival<'_>,
    request: &Request<()>,
    path: &[u8],
    index: usize,
    ledger: &mut Ledger,
) -> Result<Authorization, Failure> {
    let script = Script::named(Path::new("").into(), path);
    let call = arrival.call(request, &script, &[]);
    let verdict = upstream::authorize(index, &call).await;
    ledger.mark(Phase::Authorize);
    verdict.map_err(|error| arrival.log_failure(error, request))
}

/// Sends a file through the application number `index`.
///
/// # Errors
/// As [`serve`].
pub async fn filter(
    arrival: Arrival<'_>,
    request: &Request<()>,
    path: &[u8],
    file: OpenFile,
    index: usize,
    variables: &Variables,
    ledger: &mut Ledger,
) -> Result<Response<Source>, Failure> {
    let filename = file.path.as_path().into();
    let script = Script::named(filename, path);
    let call = arrival.call(request, &script, variables);
    upstream::filter(index, &call, file, ledger)
        .await
        .map_err(|error| arrival.log_failure(error, request))
}

/// Whether this handler wants the body of the request as it comes.
pub fn takes_live_bodies(arrival: Arrival<'_>, request: &Request<()>, handler: &Handler) -> bool {
    let Handler::Upstream(index) = handler else { return false };
    match &arrival.context.config.upstreams[*index].protocol {
        Protocol::Http(proxy) => !proxy.request_buffering || proxy.http2 && is_grpc(request),
        Protocol::FastCgi => false,
    }
}

/// Whether the request is one of gRPC. Its client may wait for an answer before it ends the body.
fn is_grpc<B>(request: &Request<B>) -> bool {
    const TYPE: &[u8] = b"application/grpc";
    let kind = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    kind.and_then(|kind| kind.strip_prefix(TYPE))
        .is_some_and(|rest| rest.is_empty() || matches!(rest[0], b'+' | b';' | b' '))
}

/// Whether the request may be repeated without harm if it has no body.
pub fn is_safe<B>(request: &Request<B>) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD)
}

impl<'a> Arrival<'a> {
    /// A request that may be repeated.
    pub fn call(
        self,
        request: &'a Request<()>,
        script: &'a Script,
        variables: &'a [(String, HeaderValue)],
    ) -> BackendRequest<'a> {
        BackendRequest {
            arrival: self,
            request,
            script,
            variables,
            is_repeatable: true,
            live: None,
        }
    }

    /// Writes the full reason into the log, and gives the failure for the client.
    pub fn log_failure(self, error: BackendError, request: &Request<()>) -> Failure {
        log::failed(&self.site.config.name, error.failure, &error.reason, request);
        error.failure
    }
}

/// Asks `handler`. If its workers decline the request, asks the site's fallback.
async fn answer(
    call: &BackendRequest<'_>,
    mut handler: &Handler,
    mut body: Body,
    ledger: &mut Ledger,
) -> Result<Response<Source>, BackendError> {
    let mut fallback = match handler {
        Handler::Workers(_) => {
            call.arrival.site.fallback.map(|index| &call.arrival.context.sites[index].handler)
        }
        Handler::Upstream(_) | Handler::Scripts(_) | Handler::None => None,
    };
    // A request that may not be repeated goes straight to a backend that cannot decline it.
    if !call.is_repeatable {
        handler = fallback.take().unwrap_or(handler);
    }
    loop {
        // Only repeatable requests are declined, and they have no body that could be lost.
        let body = std::mem::take(&mut body);
        return match handler {
            Handler::Workers(gate) => {
                match (
                    php::ask(gate, call, body, fallback.is_some(), ledger).await?,
                    fallback.take(),
                ) {
                    (Some(response), _) => Ok(response),
                    (None, Some(next)) => {
                        handler = next;
                        continue;
                    }
                    (None, None) => Err(Failure::WorkerBroken.into()),
                }
            }
            Handler::Upstream(index) => upstream::ask(*index, call, body, ledger).await,
            Handler::Scripts(_) | Handler::None => Err(Failure::NotFound.into()),
        };
    }
}
