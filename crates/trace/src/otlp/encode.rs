//! Spans from requests, by OpenTelemetry's semantic conventions for HTTP servers.

use crate::{SpanId, TraceContext};
use prost::Message;
use tokamak_cost::{CallKind, Calls, Step};

use super::RequestSpan;
use super::message::{
    AnyValue, ERROR, ExportTraceServiceRequest, INTERNAL, IS_REMOTE, InstrumentationScope,
    KNOWS_REMOTE, KeyValue, Resource, ResourceSpans, SERVER, ScopeSpans, Span, Status, Value,
};

/// The methods that the conventions know. Others would make as many names as clients can invent.
const METHODS: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// Where spans come from.
#[derive(Clone, Debug)]
pub struct Source {
    /// The names of the sites, by their indexes: each is a service.
    pub sites: Vec<String>,
    /// Identifies this process.
    pub instance: String,
    /// The version of this program.
    pub version: &'static str,
}

impl Source {
    /// The body of a request to a collector with the spans of these requests. `epoch`: nanoseconds
    /// since 1970 when the clock of [`tokamak_cost::now`] was zero.
    pub fn encode<'a>(
        &self,
        requests: impl IntoIterator<Item = &'a RequestSpan>,
        epoch: u64,
    ) -> Vec<u8> {
        let mut sites: Vec<Vec<Span>> = vec![Vec::new(); self.sites.len()];
        for request in requests {
            add(request, epoch, &mut sites[request.site]);
        }
        let resource_spans = sites.into_iter().enumerate().filter(|(_, spans)| !spans.is_empty());
        let resource_spans = resource_spans.map(|(site, spans)| self.site(site, spans)).collect();
        ExportTraceServiceRequest { resource_spans }.encode_to_vec()
    }

    fn site(&self, site: usize, spans: Vec<Span>) -> ResourceSpans {
        let attributes = vec![
            text("service.name", &self.sites[site]),
            text("service.instance.id", &self.instance),
            text("telemetry.sdk.name", "tokamak"),
            text("telemetry.sdk.language", "rust"),
            text("telemetry.sdk.version", self.version),
        ];
        let scope = InstrumentationScope { name: "tokamak".into(), version: self.version.into() };
        ResourceSpans {
            resource: Some(Resource { attributes }),
            scope_spans: vec![ScopeSpans { scope: Some(scope), spans }],
        }
    }
}

/// Adds the span of a request, and those of its steps below it.
fn add(request: &RequestSpan, epoch: u64, spans: &mut Vec<Span>) {
    let TraceContext { trace, span, parent, .. } = request.context;
    let known = METHODS.iter().find(|known| **known == request.method);
    let method = known.copied().unwrap_or("HTTP");
    let name = match &request.route {
        Some(route) => format!("{method} {route}"),
        None => method.to_owned(),
    };
    let flags = u32::from(request.context.flags()) | KNOWS_REMOTE;
    let is_error = request.status >= 500 || request.error.is_some();
    spans.push(Span {
        trace_id: trace.bytes().to_vec(),
        span_id: span.bytes().to_vec(),
        trace_state: request.state.clone(),
        parent_span_id: parent.map(|parent| parent.bytes().to_vec()).unwrap_or_default(),
        name,
        kind: SERVER,
        start_time_unix_nano: epoch + request.begin,
        end_time_unix_nano: epoch + request.end,
        attributes: attributes(request, known.copied()),
        status: is_error.then_some(Status { code: ERROR }),
        flags: if parent.is_some() { flags | IS_REMOTE } else { flags },
    });
    spans.extend(request.steps.iter().map(|&Step { phase, begin, end }| Span {
        trace_id: trace.bytes().to_vec(),
        span_id: SpanId::random().bytes().to_vec(),
        parent_span_id: span.bytes().to_vec(),
        name: phase.name().to_owned(),
        kind: INTERNAL,
        start_time_unix_nano: epoch + begin,
        end_time_unix_nano: epoch + end,
        flags,
        ..Span::default()
    }));
}

fn attributes(request: &RequestSpan, method: Option<&str>) -> Vec<KeyValue> {
    let mut attributes = vec![
        text("http.request.method", method.unwrap_or("_OTHER")),
        text("url.scheme", request.scheme),
        text("url.path", &request.path),
        text("network.protocol.version", request.version),
    ];
    if method.is_none() {
        attributes.push(text("http.request.method_original", &request.method));
    }
    let (host, port) = host_and_port(&request.host);
    for (key, value) in [
        ("server.address", host),
        ("client.address", &request.client),
        ("user_agent.original", &request.agent),
    ] {
        if !value.is_empty() {
            attributes.push(text(key, value));
        }
    }
    attributes.extend(port.map(|port| number("server.port", port)));
    attributes.extend(request.route.as_ref().map(|route| text("http.route", route)));
    if request.status > 0 {
        attributes.push(number("http.response.status_code", request.status));
        attributes.push(number(
            "http.response.body.size",
            i64::try_from(request.sent).unwrap_or(i64::MAX),
        ));
    }
    if let Some(error) = request.error {
        attributes.push(text("error.type", error));
    } else if request.status >= 500 {
        attributes.push(text("error.type", &request.status.to_string()));
    }
    attributes.extend(request.request.map(|id| text("tokamak.request.id", &id.to_string())));
    let of = |calls: Calls| CallKind::ALL.map(|kind| (kind.name(), calls.of(kind)));
    for (name, sum) in request.calls.into_iter().flat_map(of) {
        attributes.push(number(&format!("tokamak.{name}.calls"), sum.count));
        let nanoseconds = i64::try_from(sum.nanos).unwrap_or(i64::MAX);
        attributes.push(number(&format!("tokamak.{name}.nanoseconds"), nanoseconds));
    }
    if request.steps_left_out > 0 {
        attributes.push(number("tokamak.steps_left_out", request.steps_left_out));
    }
    attributes
}

/// Takes the port off a host. An address of IPv6 stands in brackets, which are no part of it.
fn host_and_port(host: &str) -> (&str, Option<u16>) {
    if let Some((address, rest)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (address, rest.strip_prefix(':').and_then(|port| port.parse().ok()));
    }
    match host.rsplit_once(':') {
        Some((name, port)) => (name, port.parse().ok()),
        None => (host, None),
    }
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::Text(value.to_owned()))
}

fn number(key: &str, value: impl Into<i64>) -> KeyValue {
    attribute(key, Value::Number(value.into()))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
}

#[cfg(test)]
mod tests {
    use crate::{Parent, Sampling};
    use tokamak_cost::{CallSum, Phase};

    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn request(parent: Option<&str>) -> RequestSpan {
        let sampling = Sampling { takes_parents: true, share: 1_000_000 };
        let parent = parent.and_then(|parent| Parent::read(parent.as_bytes()));
        RequestSpan {
            site: 1,
            state: "a=1".into(),
            method: "GET".into(),
            path: "/a".into(),
            host: "shop.example:8080".into(),
            client: "192.0.2.1".into(),
            status: 200,
            sent: 7,
            begin: 100,
            end: 400,
            steps: vec![
                Step { phase: Phase::Head, begin: 100, end: 150 },
                Step { phase: Phase::Php, begin: 150, end: 400 },
            ],
            ..RequestSpan::of(TraceContext::new(parent, &sampling))
        }
    }

    fn decoded(requests: &[RequestSpan]) -> Vec<ResourceSpans> {
        let sites = vec!["first".into(), "shop".into(), "third".into()];
        let source = Source { sites, instance: "i".into(), version: "1" };
        let body = source.encode(requests, 1_000_000);
        ExportTraceServiceRequest::decode(&body[..]).unwrap().resource_spans
    }

    /// The attributes as texts.
    fn shown(attributes: &[KeyValue]) -> Vec<String> {
        let show = |attribute: &KeyValue| match &attribute.value.as_ref().unwrap().value {
            Some(Value::Text(text)) => format!("{}={text}", attribute.key),
            Some(Value::Number(number)) => format!("{}={number}", attribute.key),
            None => attribute.key.clone(),
        };
        attributes.iter().map(show).collect()
    }

    #[test]
    fn a_request_is_a_span_with_its_steps_below() {
        let request = request(Some(PARENT));
        let sites = decoded(std::slice::from_ref(&request));
        let [site] = &sites[..] else { panic!("{sites:?}") };
        assert!(
            shown(&site.resource.as_ref().unwrap().attributes)
                .contains(&"service.name=shop".into())
        );
        let [server, head, php] = &site.scope_spans[0].spans[..] else { panic!("{site:?}") };
        assert_eq!(server.span_id, request.context.span.bytes());
        assert_eq!(server.parent_span_id, request.context.parent.unwrap().bytes());
        assert_eq!((server.kind, server.flags, &server.trace_state[..]), (SERVER, 0x301, "a=1"));
        assert_eq!(
            (server.start_time_unix_nano, server.end_time_unix_nano),
            (1_000_100, 1_000_400)
        );
        for (step, name, times) in
            [(head, "head", (1_000_100, 1_000_150)), (php, "php", (1_000_150, 1_000_400))]
        {
            assert_eq!((&step.name[..], step.kind, step.flags), (name, INTERNAL, 0x101));
            assert_eq!((step.start_time_unix_nano, step.end_time_unix_nano), times);
            assert_eq!((&step.trace_id, &step.parent_span_id), (&server.trace_id, &server.span_id));
        }
        assert_ne!(head.span_id, php.span_id);
        let expected = [
            "http.request.method=GET",
            "url.scheme=http",
            "url.path=/a",
            "network.protocol.version=1.1",
            "server.address=shop.example",
            "client.address=192.0.2.1",
            "server.port=8080",
            "http.response.status_code=200",
            "http.response.body.size=7",
        ];
        assert_eq!(shown(&server.attributes), expected);
    }

    #[test]
    fn calls_are_exported_if_they_are_counted() {
        let sums = [CallSum { count: 3, nanos: 1_234_567 }, CallSum { count: 0, nanos: u64::MAX }];
        let sites = decoded(&[RequestSpan { calls: Some(Calls { sums }), ..request(None) }]);
        let attributes = shown(&sites[0].scope_spans[0].spans[0].attributes);
        let calls: Vec<_> = attributes.iter().filter(|it| it.starts_with("tokamak.")).collect();
        let expected = [
            "tokamak.sql.calls=3",
            "tokamak.sql.nanoseconds=1234567",
            "tokamak.http.calls=0",
            "tokamak.http.nanoseconds=9223372036854775807",
        ];
        assert_eq!(calls, expected);
    }

    #[test]
    fn errors_of_the_server_are_errors() {
        for (status, error, expected) in [
            (200, None, None),
            (404, None, None),
            (503, None, Some("error.type=503")),
            (200, Some("broken_off"), Some("error.type=broken_off")),
            (0, Some("client_gone"), Some("error.type=client_gone")),
        ] {
            let sites = decoded(&[RequestSpan { status, error, ..request(None) }]);
            let span = &sites[0].scope_spans[0].spans[0];
            assert_eq!(span.status.is_some(), expected.is_some(), "{status} {error:?}");
            assert!(span.parent_span_id.is_empty() && span.flags == 0x103);
            let attributes = shown(&span.attributes);
            let found = attributes.iter().find(|text| text.starts_with("error.type"));
            assert_eq!(found.map(String::as_str), expected);
            let has_status = attributes.iter().any(|text| text.starts_with("http.response"));
            assert_eq!(has_status, status > 0);
        }
    }

    #[test]
    fn clients_cannot_invent_names() {
        let route = Some("/shop".to_owned());
        let invented = RequestSpan { method: "BREW".into(), ..request(None) };
        let routed = RequestSpan { route, ..request(None) };
        let sites = decoded(&[invented, routed]);
        let spans = &sites[0].scope_spans[0].spans;
        assert_eq!((&spans[0].name[..], &spans[3].name[..]), ("HTTP", "GET /shop"));
        let attributes = shown(&spans[0].attributes);
        assert!(attributes.contains(&"http.request.method=_OTHER".into()));
        assert!(attributes.contains(&"http.request.method_original=BREW".into()));
    }

    #[test]
    fn ports_are_no_part_of_addresses() {
        for (host, expected) in [
            ("a.example", ("a.example", None)),
            ("a.example:81", ("a.example", Some(81))),
            ("a.example:x", ("a.example", None)),
            ("[::1]:81", ("::1", Some(81))),
            ("[::1]", ("::1", None)),
            ("", ("", None)),
        ] {
            assert_eq!(host_and_port(host), expected, "{host}");
        }
    }
}
