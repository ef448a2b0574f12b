//! What is kept of a request for its span.

use crate::TraceContext;
use tokamak_cost::{Calls, RequestId, Step};

/// A request, from which a span is made when it is over.
///
/// Texts are as the client sent them, and may be cut: the front bounds them.
#[derive(Clone, Debug)]
pub struct RequestSpan {
    /// The index of its site.
    pub site: usize,
    /// Its place in its trace.
    pub context: TraceContext,
    /// The `tracestate` that is passed on.
    pub state: String,
    /// Its method.
    pub method: String,
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The path of its URL, without the query.
    pub path: String,
    /// The path of the site's route that it belongs to, if it belongs to one.
    pub route: Option<String>,
    /// The version of HTTP, such as `1.1`.
    pub version: &'static str,
    /// The host that it named, with the port if it named one.
    pub host: String,
    /// The address of its client.
    pub client: String,
    /// `User-Agent`.
    pub agent: String,
    /// The status of its response; 0: there was none.
    pub status: u16,
    /// Why there is no whole response, if there is none.
    pub error: Option<&'static str>,
    /// Bytes of the response's body.
    pub sent: u64,
    /// The name by which PHP's lines in the error log call it.
    pub request: Option<RequestId>,
    /// What PHP has called for it, if calls are counted.
    pub calls: Option<Calls>,
    /// When it began, in nanoseconds of [`tokamak_cost::now`].
    pub begin: u64,
    /// When it ended.
    pub end: u64,
    /// Its steps.
    pub steps: Vec<Step>,
    /// Steps that were not kept.
    pub steps_left_out: u32,
}

impl RequestSpan {
    /// Of a request in this place of a trace, of which nothing else is known.
    pub fn of(context: TraceContext) -> RequestSpan {
        RequestSpan {
            site: 0,
            context,
            state: String::new(),
            method: String::new(),
            scheme: "http",
            path: String::new(),
            route: None,
            version: "1.1",
            host: String::new(),
            client: String::new(),
            agent: String::new(),
            status: 0,
            error: None,
            sent: 0,
            request: None,
            calls: None,
            begin: 0,
            end: 0,
            steps: Vec::new(),
            steps_left_out: 0,
        }
    }

    /// The number of spans that are made of it: its own and one for each step.
    pub fn spans(&self) -> u64 {
        1 + self.steps.len() as u64
    }
}
