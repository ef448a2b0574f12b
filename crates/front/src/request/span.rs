//! What a request says of itself for its span.

use http::header::USER_AGENT;
use http::{Request, Version};
use tokamak_trace::otlp::RequestSpan;

use crate::client::Client;
use crate::context::Context;
use crate::export::PendingSpan;
use crate::route::hosts::host;
use crate::route::{clean, is_below};
use crate::site::Site;
use crate::trace::Trace;

/// Bytes that are kept of a text of the client at most. Longer ones say little more, and with ten
/// times as many the requests that wait for a collector could take 100 MiB.
const LONGEST: usize = 1024;

/// The span of a request, if its trace is recorded and exported.
pub fn span<B>(
    context: &Context,
    site: &Site,
    client: &dyn Client,
    request: &Request<B>,
) -> Option<PendingSpan> {
    let queue = context.spans.as_ref()?;
    let trace = Trace::of(request.extensions()).filter(|trace| trace.context.is_sampled())?;
    let agent = request.headers().get(USER_AGENT);
    let path = request.uri().path();
    let span = RequestSpan {
        site: site.index,
        state: trace.state().to_owned(),
        method: cut(request.method().as_str().as_bytes()),
        scheme: client.scheme(),
        path: cut(path.as_bytes()),
        route: route(site, path),
        version: match request.version() {
            Version::HTTP_10 => "1.0",
            Version::HTTP_2 => "2",
            _ => "1.1",
        },
        host: cut(host(request).unwrap_or("").as_bytes()),
        client: client.addresses().text().peer.clone(),
        agent: agent.map(|agent| cut(agent.as_bytes())).unwrap_or_default(),
        ..RequestSpan::of(trace.context)
    };
    Some(PendingSpan::new(span, queue))
}

/// The site's route that a path belongs to, as the configuration names it.
fn route(site: &Site, path: &str) -> Option<String> {
    if site.config.routes.is_empty() {
        return None;
    }
    let path = clean(path.as_bytes())?;
    let route = site.config.routes.iter().find(|route| is_below(&path, &route.path))?;
    Some(if route.path.is_empty() { "/".into() } else { route.path.clone() })
}

/// The beginning of a text as UTF-8.
fn cut(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(LONGEST)]).into_owned()
}
