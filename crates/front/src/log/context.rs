//! Remembers for the error log which request a line is about, after the request itself is gone.

use std::sync::Arc;

use http::{Method, Request, Uri};
use tokamak_config::Site;
use tokamak_trace::TraceId;

use super::errors::{self, About};
use crate::failure::Failure;
use crate::trace::trace_of;

/// The request that the log's lines are about. Nothing is copied from the request.
#[derive(Clone, Debug)]
pub struct LogContext {
    site: Arc<Site>,
    method: Method,
    uri: Uri,
    trace: Option<TraceId>,
}

impl LogContext {
    /// The context of this request.
    pub fn new<B>(site: &Arc<Site>, request: &Request<B>) -> LogContext {
        LogContext {
            site: site.clone(),
            method: request.method().clone(),
            uri: request.uri().clone(),
            trace: trace_of(request),
        }
    }

    /// Logs and counts that the response ended early, after its status had been sent.
    pub fn broken_off(&self, failure: Failure, reason: &str) {
        failure.note();
        errors::broken_off(&self.about(), failure, reason);
    }

    /// Logs a message of the application, or about it.
    pub fn complained(&self, text: &[u8]) {
        errors::complained(&self.about(), text);
    }

    fn about(&self) -> About<'_> {
        About {
            site: &self.site.name,
            method: self.method.as_str(),
            target: self.uri.path_and_query().map_or("", |target| target.as_str()),
            trace: self.trace,
        }
    }
}
