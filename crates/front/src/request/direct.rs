//! The common request to workers: it has no body and nothing else to wait for. It is one small
//! future, where the phases of other requests are futures within futures.

use std::sync::Arc;
use std::task::{self, Poll};

use http::{Method, Request, Response};
use tokamak_upstream::body::Body;

use super::phases::{Application, Content, Deferred};
use super::respond::{Gone, finish, respond};
use crate::backend::cgi::Variables;
use crate::backend::php::WorkerCall;
use crate::backend::{Arrival, BackendRequest, is_safe};
use crate::caller::Caller;
use crate::context::Context;
use crate::failure::Failure;
use crate::response::{Reply, RequestGuard, pages};
use crate::site::Handler;

/// A request of a site without scripts.
pub struct Plain {
    /// The index of its site.
    pub site_index: usize,
    /// The request; its body has been taken.
    pub request: Request<()>,
    /// Its body, if it has been read.
    pub body: Option<Body>,
    /// What is to be done for it.
    pub remaining: Deferred,
    /// The variables of its login for the application.
    pub variables: Variables,
}

/// A client's request that goes to workers and nowhere else.
pub struct Direct {
    context: Arc<Context>,
    caller: Caller,
    plain: Box<Plain>,
    worker_call: WorkerCall,
    /// Taken by the response.
    guard: Option<Box<RequestGuard>>,
}

/// Whether a request has to wait for nothing but workers: not for an authorizer, its body or the
/// content cache, nor for another application that may have to answer in the end.
pub fn is_direct(context: &Context, plain: &Plain) -> bool {
    let site = &context.sites[plain.site_index];
    let Deferred::Content(Content::Application(application)) = &plain.remaining else {
        return false;
    };
    application.upstream.is_none()
        && matches!(plain.body, Some(Body::Empty))
        && matches!(site.handler, Handler::Workers(_))
        && site.fallback.is_none()
        && site.config.error_pages.is_empty()
        && site.caching.of(&application.path).is_none()
}

impl Direct {
    /// A request for which [`is_direct`] holds.
    pub fn new(
        context: Arc<Context>,
        caller: Caller,
        plain: Box<Plain>,
        guard: Box<RequestGuard>,
    ) -> Direct {
        let worker_call = WorkerCall::new(Body::Empty);
        Direct { context, caller, plain, worker_call, guard: Some(guard) }
    }

    /// Queues the request and waits for the response. Gives up if the client goes before.
    pub fn poll(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<Response<Reply>, Gone>> {
        let Direct { context, caller, plain, worker_call, guard } = self;
        let site = &context.sites[plain.site_index];
        let (
            Deferred::Content(Content::Application(Application { script, .. })),
            Handler::Workers(gate),
            Some(waiting),
        ) = (&plain.remaining, &site.handler, guard.as_mut())
        else {
            unreachable!("`is_direct` holds, and there has been no response")
        };
        let (arrival, request) = (Arrival { context, site, caller }, &plain.request);
        let is_repeatable = is_safe(request);
        let call =
            BackendRequest { is_repeatable, ..arrival.call(request, script, &plain.variables) };
        let Poll::Ready(answer) = worker_call.poll(gate, &call, false, &mut waiting.ledger, cx)
        else {
            return caller.poll_gone(cx).map(|()| Err(Gone));
        };
        let response = answer
            .and_then(|response| response.ok_or_else(|| Failure::WorkerBroken.into()))
            .unwrap_or_else(|error| pages::failed(arrival.log_failure(error, request)));
        let response = finish(response, request.method() == Method::HEAD);
        Poll::Ready(guard.take().map(|guard| respond(response, guard)).ok_or(Gone))
    }
}
