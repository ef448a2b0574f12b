//! Remembers for the error log which request a line is about, after the request itself is gone.

use std::sync::Arc;

use http::{Method, Request, Uri};
use tokamak_config::Site;

use super::errors;
use crate::failure::Failure;

/// The request that the log's lines are about. Nothing is copied from the request.
#[derive(Clone, Debug)]
pub struct LogContext {
    site: Arc<Site>,
    method: Method,
    uri: Uri,
}

impl LogContext {
    /// The context of this request.
    pub fn new<B>(site: &Arc<Site>, request: &Request<B>) -> LogContext {
        LogContext {
            site: site.clone(),
            method: request.method().clone(),
            uri: request.uri().clone(),
        }
    }

    /// Logs that the response ended early, after its status had been sent.
    pub fn broken_off(&self, failure: Failure, reason: &str) {
        errors::broken_off(&self.site.name, failure, reason, self.method.as_str(), self.target());
    }

    /// Logs a message of the application, or about it.
    pub fn complained(&self, text: &[u8]) {
        errors::complained(&self.site.name, text, self.method.as_str(), self.target());
    }

    fn target(&self) -> &str {
        self.uri.path_and_query().map_or("", |target| target.as_str())
    }
}
