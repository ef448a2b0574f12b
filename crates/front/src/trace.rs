//! The trace context of requests: taken from their headers, written into those that are passed on.
//!
//! Programs that answer a request see its headers as they are after [`Tracer::take`]: PHP, FastCGI
//! applications, scripts. What this server itself needs of it is an extension of the request, since
//! a header may have been sent by anyone.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Extensions, Request};
use tokamak_config::{self as config, TraceMode};
use tokamak_trace::{Parent, Sampling, TraceContext, TraceId, trace_state};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Gives each request its place in a trace.
pub struct Tracer {
    sampling: Sampling,
}

/// The place of a request in its trace, and what it passes on.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Its place.
    pub context: TraceContext,
    parent: HeaderValue,
    state: Option<HeaderValue>,
}

impl Tracer {
    /// What the configuration asks for; `None`: traces are nothing to this server.
    pub fn new(config: &config::Trace) -> Option<Tracer> {
        let takes_parents = match config.context {
            TraceMode::Off => return None,
            TraceMode::Begin => false,
            TraceMode::Continue => true,
        };
        Some(Tracer { sampling: Sampling { takes_parents, share: config.sample } })
    }

    /// Takes the trace context out of a client's request, and writes that of this server into it.
    pub fn take<B>(&self, request: &mut Request<B>) -> TraceContext {
        let headers = request.headers_mut();
        let mut values = headers.get_all(TRACEPARENT).iter();
        let parent = match (values.next(), values.next()) {
            (Some(value), None) => Parent::read(value.as_bytes()),
            _ => None,
        };
        let context = TraceContext::new(parent, &self.sampling);
        // The state belongs to the trace that is gone on with.
        let states = headers.get_all(TRACESTATE).iter().map(HeaderValue::as_bytes);
        let state = context.parent.and_then(|_| trace_state(states));
        headers.remove(TRACESTATE);
        let trace = Trace {
            context,
            parent: HeaderValue::from_bytes(&context.traceparent())
                .unwrap_or_else(|_| unreachable!("digits and dashes are a value")),
            state: state.and_then(|state| HeaderValue::from_bytes(&state).ok()),
        };
        trace.put(headers);
        request.extensions_mut().insert(trace);
        context
    }
}

impl Trace {
    /// That of a request; `None` if traces are off.
    pub fn of(extensions: &Extensions) -> Option<&Trace> {
        extensions.get()
    }

    /// The `tracestate` that is passed on; empty if there is none.
    pub fn state(&self) -> &str {
        self.state.as_ref().and_then(|state| state.to_str().ok()).unwrap_or("")
    }

    /// The headers of requests that are made for this one.
    pub fn headers(&self) -> impl Iterator<Item = (HeaderName, &HeaderValue)> {
        let state = self.state.iter().map(|state| (TRACESTATE, state));
        std::iter::once((TRACEPARENT, &self.parent)).chain(state)
    }

    /// Whether a script says itself which trace its call belongs to: then the server adds nothing,
    /// since the parent of one trace beside the state of another would join the two.
    pub fn is_own(name: &[u8]) -> bool {
        [TRACEPARENT, TRACESTATE]
            .iter()
            .any(|own| name.eq_ignore_ascii_case(own.as_str().as_bytes()))
    }

    /// Writes them, in place of others.
    pub fn put(&self, headers: &mut HeaderMap) {
        for (name, value) in self.headers() {
            headers.insert(name, value.clone());
        }
    }
}

/// The trace that a request belongs to, for the logs.
pub fn trace_of<B>(request: &Request<B>) -> Option<TraceId> {
    Trace::of(request.extensions()).map(|trace| trace.context.trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    const OTHER: &str = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn take(context: TraceMode, headers: &[(&'static str, &str)]) -> (TraceContext, HeaderMap) {
        let tracer = Tracer::new(&config::Trace { context, ..config::Trace::default() }).unwrap();
        let mut request = Request::new(());
        for (name, value) in headers {
            request.headers_mut().append(*name, HeaderValue::from_str(value).unwrap());
        }
        let context = tracer.take(&mut request);
        assert_eq!(trace_of(&request), Some(context.trace));
        (context, std::mem::take(request.headers_mut()))
    }

    #[test]
    fn one_valid_parent_is_gone_on_with() {
        let headers = [("traceparent", PARENT), ("tracestate", "a=1"), ("tracestate", "b=2")];
        let (context, passed) = take(TraceMode::Continue, &headers);
        assert_eq!(context.trace.to_string(), PARENT[3..35]);
        let expected = format!("{}{}-00", &PARENT[..36], context.span);
        assert_eq!(passed.get_all("traceparent").iter().collect::<Vec<_>>(), [&expected]);
        assert_eq!(passed.get_all("tracestate").iter().collect::<Vec<_>>(), ["a=1,b=2"]);
    }

    #[test]
    fn otherwise_a_trace_begins_without_a_state() {
        let state = ("tracestate", "a=1");
        for (mode, headers) in [
            (TraceMode::Continue, &[state][..]),
            (TraceMode::Continue, &[("traceparent", "00-x"), state]),
            (TraceMode::Continue, &[("traceparent", PARENT), ("traceparent", OTHER), state]),
            (TraceMode::Continue, &[("traceparent", PARENT), ("traceparent", PARENT), state]),
            (TraceMode::Begin, &[("traceparent", PARENT), state]),
        ] {
            let (context, passed) = take(mode, headers);
            assert_eq!((context.parent, context.is_sampled()), (None, true), "{headers:?}");
            assert!(!headers.iter().any(|(_, sent)| sent.contains(&context.trace.to_string())));
            assert_eq!(passed.get_all("traceparent").iter().count(), 1);
            assert!(!passed.contains_key("tracestate"), "{headers:?}");
        }
    }
}
