//! What clients ask of a site's hub: to publish an update, or to subscribe.
//!
//! Pages of other origins may do so if the configuration names them. A browser sends a cookie along
//! whatever page asks, so a token in a cookie counts only for the site's own pages and for these.

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW,
    CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName,
    HeaderValue, ORIGIN, REFERER, RETRY_AFTER, VARY, WWW_AUTHENTICATE,
};
use http::{Method, Request, Response, StatusCode};
use tokamak_config::Coding;
use tokamak_cost::{Ledger, Phase};
use tokamak_mercure::{Claims, Key, Selector, Wanted, pairs, publication};
use tokamak_upstream::body::Body;

use super::body::gather_within;
use super::phases::RequestParts;
use crate::backend::Arrival;
use crate::clock::epoch;
use crate::failure::{Failure, Retry};
use crate::log;
use crate::push::{Events, Gzip, SiteHub, token_of};
use crate::response::Source;
use crate::response::compression::{count, takes_gzip};
use crate::route::hosts;

/// The methods that a hub knows.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, OPTIONS");

/// Header fields that pages may send.
const FIELDS: HeaderValue =
    HeaderValue::from_static("Authorization, Cache-Control, Content-Type, Last-Event-ID");

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The media type of a stream of events.
const EVENT_STREAM: &str = "text/event-stream";

/// The cookie that has a token.
const TOKEN_COOKIE: &str = "mercureAuthorization";

/// Bytes of a form beside the data of an update, as names, and fields that the hub ignores.
const FORM_REST: usize = 16 * 1024;

/// Why a request is refused: the failure, and the reason for client and log.
struct Refused(Failure, String);

impl Refused {
    fn new(failure: Failure, reason: impl ToString) -> Refused {
        Refused(failure, reason.to_string())
    }
}

/// Answers a request to the hub of its site.
pub async fn respond(
    arrival: Arrival<'_>,
    request: &Request<()>,
    given: RequestParts<'_>,
    ledger: &mut Ledger,
) -> Response<Source> {
    let answer = match &arrival.site.hub {
        // The router has looked.
        None => Err(Refused::new(Failure::NotFound, "the site has no hub")),
        Some(hub) => match *request.method() {
            Method::OPTIONS => Ok(preflight()),
            Method::GET | Method::HEAD => {
                hub.ready().await;
                subscribe(arrival, request, hub)
            }
            Method::POST => publish(arrival, request, given, hub, ledger).await,
            _ => Err(Refused::new(Failure::MethodNotAllowed, "the hub does not know the method")),
        },
    };
    let mut response = answer.unwrap_or_else(|Refused(failure, reason)| {
        log::failed(&arrival.site.config.name, failure, &reason, request);
        refusal(failure, reason)
    });
    if let Some(hub) = &arrival.site.hub {
        share(hub, request, response.headers_mut());
    }
    response
}

fn preflight() -> Response<Source> {
    let mut response = Response::new(Source::Empty);
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ALLOW, METHODS);
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, FIELDS);
    // Browsers ask again after two hours at most.
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("7200"));
    response
}

/// The response to a refused request. Its clients are programs: they get the reason as text.
fn refusal(failure: Failure, mut reason: String) -> Response<Source> {
    failure.note();
    reason.push('\n');
    let mut response = text(reason);
    *response.status_mut() = failure.status();
    let headers = response.headers_mut();
    match failure {
        Failure::Unauthorized => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        Failure::MethodNotAllowed => _ = headers.insert(ALLOW, METHODS),
        // The unread rest of a body would be taken for the next request.
        Failure::BodyTooLarge | Failure::BodySlow | Failure::BadRequest => {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        _ => {}
    }
    if failure.retry() == Retry::Later {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
    }
    response
}

fn text(text: String) -> Response<Source> {
    let mut response = Response::new(Source::Whole(text.into()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Allows pages of the configured origins to see a response (the Fetch standard, "CORS protocol").
fn share(hub: &SiteHub, request: &Request<()>, headers: &mut HeaderMap) {
    if hub.config.origins.is_empty() {
        return;
    }
    headers.append(VARY, HeaderValue::from_static("Origin"));
    let Some(origin) = request.headers().get(ORIGIN) else { return };
    let name = origin.as_bytes().to_ascii_lowercase();
    if hub.config.origins.iter().any(|it| it.as_bytes() == name) {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        let yes = HeaderValue::from_static("true");
        headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, yes);
    } else if hub.config.origins.iter().any(|it| it == "*") {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    } else {
        return;
    }
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("Last-Event-ID"));
}

/// What the token of a request says; `None`: it has none.
fn claims(
    arrival: Arrival<'_>,
    request: &Request<()>,
    hub: &SiteHub,
    key: Option<&Key>,
) -> Result<Option<Claims>, Refused> {
    let token = match token_of(request) {
        Some(token) => token,
        None => match cookie(request.headers()) {
            Some(token) if is_own_page(arrival, request, hub) => token,
            Some(_) => {
                let reason = "the token in the cookie counts only for pages of the site and of \
                              `origins` (site.mercure)";
                return Err(Refused::new(Failure::Forbidden, reason));
            }
            None => return Ok(None),
        },
    };
    let Some(key) = key else {
        return Err(Refused::new(Failure::Forbidden, "the hub has no key for such tokens"));
    };
    key.verify(token).map(Some).map_err(|invalid| Refused::new(Failure::Unauthorized, invalid))
}

fn cookie(headers: &HeaderMap) -> Option<&[u8]> {
    let cookies =
        headers.get_all(COOKIE).iter().flat_map(|it| it.as_bytes().split(|it| *it == b';'));
    let own =
        cookies.filter_map(|cookie| cookie.trim_ascii().strip_prefix(TOKEN_COOKIE.as_bytes()));
    own.filter_map(|value| value.strip_prefix(b"=")).next()
}

/// Whether a request comes from a page of the site itself, or of one of the configured origins. A
/// page that says nothing of itself may only read: what it asks for so, it could not see if it were
/// of another origin.
fn is_own_page(arrival: Arrival<'_>, request: &Request<()>, hub: &SiteHub) -> bool {
    let headers = request.headers();
    let origin = match headers.get(ORIGIN) {
        Some(origin) => origin.as_bytes(),
        None => match headers.get(REFERER) {
            Some(page) => origin_of(page.as_bytes()),
            None => return *request.method() != Method::POST,
        },
    };
    let origin = origin.to_ascii_lowercase();
    let host = hosts::host(request).unwrap_or_default();
    let own = format!("{}://{host}", arrival.caller.scheme()).to_ascii_lowercase();
    origin == own.as_bytes() || hub.config.origins.iter().any(|it| it.as_bytes() == origin)
}

/// Scheme and host of a URL.
fn origin_of(url: &[u8]) -> &[u8] {
    let begin = url.windows(3).position(|bytes| bytes == b"://").map_or(url.len(), |at| at + 3);
    let end = url[begin..].iter().position(|byte| b"/?#".contains(byte));
    &url[..end.map_or(url.len(), |end| begin + end)]
}

/// Begins the stream of a subscriber.
fn subscribe(
    arrival: Arrival<'_>,
    request: &Request<()>,
    hub: &SiteHub,
) -> Result<Response<Source>, Refused> {
    // One for a script would never end.
    let Some(client) = arrival.caller.client() else {
        let reason = "only clients subscribe, not scripts of the server";
        return Err(Refused::new(Failure::Forbidden, reason));
    };
    let mut wanted = wanted(request, hub)?;
    match claims(arrival, request, hub, hub.subscriber.as_ref())? {
        Some(claims) => {
            wanted.private = claims.subscribe;
            // The clock of the ledgers is that of the hub.
            let nanoseconds = |seconds: u64| seconds.saturating_mul(1_000_000_000);
            wanted.until = claims.until.map(|until| nanoseconds(until).saturating_sub(epoch()));
        }
        None if hub.config.anonymous => {}
        None => return Err(Refused::new(Failure::Unauthorized, "a token is needed to subscribe")),
    }
    let policy = arrival.site.edits.compression();
    let is_packed = policy.is_some_and(|it| takes_gzip(it, request, EVENT_STREAM.as_bytes()));
    let mut response = Response::new(Source::Empty);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    if policy.is_some() {
        headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    if is_packed {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    // What is between would need an encoder for each subscriber.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
    // nginx in front would gather events otherwise.
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    if *request.method() == Method::HEAD {
        return Ok(response);
    }
    let (index, now) = (arrival.context.index, tokamak_cost::now());
    let subscription = hub
        .hub
        .subscribe(index, wanted, now)
        .map_err(|full| Refused::new(Failure::TooManyConnections, full))?;
    if let Some(before) = subscription.before().and_then(|it| HeaderValue::from_str(it).ok()) {
        response.headers_mut().insert(LAST_EVENT_ID, before);
    }
    let (site, client) = (arrival.site.config.clone(), client.addresses().clone());
    let gzip = is_packed.then(|| Gzip::new(|before, after| count(Coding::Gzip, before, after)));
    let events = Events::new(subscription, gzip, site, client);
    *response.body_mut() = Source::Events(Box::new(events));
    Ok(response)
}

/// What a subscriber asks for.
fn wanted(request: &Request<()>, hub: &SiteHub) -> Result<Wanted, Refused> {
    let bad = |reason: String| Refused(Failure::BadRequest, reason);
    let query = request.uri().query().unwrap_or_default().as_bytes();
    let query =
        pairs(query).map_err(|malformed| bad(format!("the query is malformed: {malformed}")))?;
    let mut wanted = Wanted::default();
    for (name, value) in query {
        match &*name {
            "topic" => {
                let selector = Selector::new(&value);
                let selector = selector.map_err(|problem| bad(format!("`topic` {problem}")))?;
                wanted.selectors.push(selector);
            }
            "lastEventID" | "Last-Event-ID" => wanted.last = Some(value.into_owned()),
            _ if name.to_ascii_lowercase().starts_with("match") => {
                let reason = "the hub speaks the protocol up to draft 07: name topics by `topic`";
                return Err(bad(reason.into()));
            }
            _ => {}
        }
    }
    let most = hub.hub.limits().topics;
    if wanted.selectors.is_empty() || wanted.selectors.len() > most {
        return Err(bad(format!("1 to {most} parameters `topic` are needed")));
    }
    if let Some(last) = request.headers().get(LAST_EVENT_ID) {
        wanted.last = Some(String::from_utf8_lossy(last.as_bytes()).into_owned());
    }
    wanted.last = wanted.last.filter(|last| !last.is_empty());
    Ok(wanted)
}

/// Publishes an update. The answer is its name.
async fn publish(
    arrival: Arrival<'_>,
    request: &Request<()>,
    given: RequestParts<'_>,
    hub: &SiteHub,
    ledger: &mut Ledger,
) -> Result<Response<Source>, Refused> {
    let claims = claims(arrival, request, hub, hub.publisher.as_ref())?;
    let Some(claims) = claims else {
        return Err(Refused::new(Failure::Unauthorized, "a token is needed to publish"));
    };
    let kind = request.headers().get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if !kind.eq_ignore_ascii_case(b"application/x-www-form-urlencoded") {
        let reason =
            "an update is a form: Content-Type has to be application/x-www-form-urlencoded";
        return Err(Refused::new(Failure::BadRequest, reason));
    }
    let limits = hub.hub.limits();
    // A byte of data takes three in a form at most.
    let most = limits.update.saturating_mul(3).saturating_add(FORM_REST);
    let too_large = |failure: Failure| match failure {
        Failure::BodyTooLarge => {
            Refused(failure, format!("the update has more than {} bytes", limits.update))
        }
        failure => Refused::new(failure, failure.text()),
    };
    let body = match (given.body, given.incoming) {
        (Some(body), _) => body,
        (None, None) => Body::Empty,
        (None, Some(incoming)) => {
            let body = gather_within(&arrival.context.config, arrival.caller, incoming, most).await;
            ledger.mark(Phase::Body);
            body.map_err(too_large)?
        }
    };
    if body.left() > most as u64 {
        return Err(too_large(Failure::BodyTooLarge));
    }
    // It is in memory, unless a script had it read before.
    let form = body.read_at(0, most).map_err(|_| too_large(Failure::Internal))?;
    let draft = publication(&form, limits).map_err(|refused| {
        let is_large = refused.is_too_large();
        Refused::new(if is_large { Failure::BodyTooLarge } else { Failure::BadRequest }, refused)
    })?;
    if !claims.may_publish(&draft.topics) {
        let reason = "the token does not allow to publish for all of these topics";
        return Err(Refused::new(Failure::Forbidden, reason));
    }
    let published = hub.publish(arrival.context.index, draft).await;
    published.map(text).map_err(|reason| Refused::new(Failure::HubUnreachable, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_of_a_url_is_its_scheme_and_host() {
        for (url, origin) in [
            ("https://a.example/b?c#d", "https://a.example"),
            ("https://a.example:8443", "https://a.example:8443"),
            ("https://a.example?https://b.example/", "https://a.example"),
            ("http://[::1]:80/", "http://[::1]:80"),
            ("nonsense", "nonsense"),
            ("", ""),
        ] {
            assert_eq!(origin_of(url.as_bytes()), origin.as_bytes(), "{url}");
        }
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        for (field, expected) in [
            ("mercureAuthorization=x.y.z", Some("x.y.z")),
            ("a=b; mercureAuthorization=x=; c=d", Some("x=")),
            ("mercureAuthorizationX=x", None),
            ("a=mercureAuthorization=x", None),
            ("", None),
        ] {
            let headers = HeaderMap::from_iter([(COOKIE, HeaderValue::from_static(field))]);
            assert_eq!(cookie(&headers), expected.map(str::as_bytes), "{field}");
        }
    }
}
