//! The hub of a site: its keys, the task that gives updates out on an event loop, and the stream of
//! a subscriber. What requests ask of it is in [`request::hub`](crate::request::hub).

mod gzip;
mod line;
mod nodes;
mod stream;

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::uri::{PathAndQuery, Uri};
use http::{HeaderMap, Request};
use rustix::rand::{GetRandomFlags, getrandom};
use tokamak_config as config;
use tokamak_mercure::{Algorithm, Draft, Hub, Key, Limits, Update, pairs, uuid};
use tokamak_sys::channel::Channel;
use tokio::task::yield_now;
use tokio::time::{MissedTickBehavior, interval};

pub use gzip::Gzip;
pub use line::HubThread;
use nodes::Nodes;
pub use stream::Events;

/// The path of a site's hub, which is that of the protocol.
pub const PATH: &str = "/.well-known/mercure";

/// The parameter of a query that has a token.
const TOKEN: &str = "authorization";

/// Subscribers that are woken before others take a turn. Each takes some microseconds to send an
/// update; ten times more would be felt by other requests, a tenth would only cost more turns.
const AT_ONCE: usize = 64;

/// How often it is looked who has been silent, and whose token has expired. A tenth would only cost
/// time; ten times more would let tokens live that much longer.
const LOOK: Duration = Duration::from_secs(1);

/// The hub of a site, shared by all event loops.
pub struct SiteHub {
    /// The hub itself.
    pub hub: Arc<Hub>,
    /// What is set for it.
    pub config: Box<config::Mercure>,
    /// The key of publishers.
    pub publisher: Option<Key>,
    /// The key of subscribers.
    pub subscriber: Option<Key>,
    /// How many event loops there are.
    loops: usize,
    /// The line by which the site's workers publish, if there are any.
    line: Option<Channel>,
    /// By what it is one hub with those of other nodes, if it is.
    nodes: Option<Nodes>,
}

impl SiteHub {
    /// The hub of a site, if it is to have one, for so many event loops. `line` is that of its
    /// workers.
    ///
    /// # Errors
    /// Fails if a key is none.
    pub fn new(
        site: &config::Site,
        loops: usize,
        line: Option<Channel>,
    ) -> io::Result<Option<Arc<SiteHub>>> {
        let Some(config) = &site.mercure else { return Ok(None) };
        let key = |name: &str, key: &Option<config::TokenKey>| -> io::Result<Option<Key>> {
            let Some(config::TokenKey { key, algorithm }) = key else { return Ok(None) };
            let algorithm = Algorithm::named(algorithm.name())
                .ok_or_else(|| io::Error::other(format!("{} is unknown", algorithm.name())))?;
            let wrong = |problem| format!("site {}: site.mercure.{name} {problem}", site.name);
            Key::new(algorithm, key.reveal()).map(Some).map_err(wrong).map_err(io::Error::other)
        };
        let limits = Limits {
            history: config.history,
            history_bytes: config.history_size,
            subscribers: config.subscribers,
            topics: config.topics,
            update: config.update_size,
        };
        Ok(Some(Arc::new(SiteHub {
            hub: Arc::new(Hub::new(limits, loops)),
            publisher: key("publisher_key", &config.publisher)?,
            subscriber: key("subscriber_key", &config.subscriber)?,
            config: config.clone(),
            loops,
            line,
            nodes: Nodes::new(&site.name, config, loops),
        })))
    }

    /// Publishes an update. Returns its name. `index` is that of the caller's event loop, or their
    /// number outside of them.
    ///
    /// # Errors
    /// Fails with the reason if other nodes cannot be told.
    pub async fn publish(&self, index: usize, mut draft: Draft) -> Result<String, String> {
        let id = draft.id.take().unwrap_or_else(random_name);
        draft.id = Some(id.clone());
        match &self.nodes {
            Some(nodes) => nodes.publish(index, &draft).await?,
            None => self.hub.publish(Update::new(draft, random_name)),
        }
        Ok(id)
    }

    /// Waits until it knows what other nodes have published, but not for long.
    pub async fn ready(&self) {
        if let Some(nodes) = &self.nodes {
            nodes.ready().await;
        }
    }

    /// Takes in what other nodes publish, if there are any, for as long as this runs.
    pub async fn follow(self: Arc<SiteHub>) {
        if let Some(nodes) = &self.nodes {
            nodes.follow(&self.hub).await;
        }
    }

    /// Gives updates out to the subscribers of the event loop on which this runs, as long as that
    /// runs.
    pub async fn give_out(self: Arc<SiteHub>, index: usize) {
        let heartbeat = self.config.heartbeat.as_nanos() as u64;
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let mut woken = tokio::select! {
                woken = poll_fn(|cx| self.hub.poll_give_out(index, cx)) => woken,
                _ = look.tick() => self.hub.tick(index, tokamak_cost::now(), heartbeat),
            };
            while !woken.is_empty() {
                woken.drain(..woken.len().min(AT_ONCE)).for_each(Waker::wake);
                yield_now().await;
            }
        }
    }
}

/// A name for an update that has none.
fn random_name() -> String {
    let mut random = [0; 16];
    // The kernel gives so few bytes always, and whole.
    let _ = getrandom(&mut random, GetRandomFlags::empty());
    uuid(random)
}

/// The token that a query had.
#[derive(Clone)]
struct QueryToken(String);

/// Takes the token of a request to the hub out of its query, before anything sees its URL: logs,
/// traces and scripts would show it.
pub fn hide_token<B>(request: &mut Request<B>) {
    let Some(query) = request.uri().query().filter(|_| request.uri().path() == PATH) else {
        return;
    };
    let is_token = |part: &str| name_of(part) == TOKEN;
    let Some(part) = query.split('&').find(|part| is_token(part)) else { return };
    let token = pairs(part.as_bytes()).ok().and_then(|pairs| pairs.into_iter().next());
    let token = token.map(|(_, token)| QueryToken(token.into_owned()));
    let rest: Vec<_> = query.split('&').filter(|part| !is_token(part)).collect();
    let target = format!("{PATH}?{}", rest.join("&"));
    if let Some(uri) = with_target(request.uri(), &target) {
        *request.uri_mut() = uri;
    }
    if let Some(token) = token {
        request.extensions_mut().insert(token);
    }
}

/// The name of a parameter, decoded.
fn name_of(part: &str) -> String {
    let read = pairs(part.as_bytes()).ok().and_then(|pairs| pairs.into_iter().next());
    read.map_or_else(String::new, |(name, _)| name.into_owned())
}

fn with_target(uri: &Uri, target: &str) -> Option<Uri> {
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(target).ok()?);
    Uri::from_parts(parts).ok()
}

/// The token of a request, beside cookies: that in its field `Authorization`, or that of its query.
pub fn token_of<B>(request: &Request<B>) -> Option<&[u8]> {
    let of_query = || request.extensions().get().map(|QueryToken(token)| token.as_bytes());
    bearer(request.headers()).or_else(of_query)
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_token_leaves_the_query() {
        for (given, field, target, token) in [
            (
                "/.well-known/mercure?topic=a&authorization=x.y.z&topic=b",
                None,
                "/.well-known/mercure?topic=a&topic=b",
                Some("x.y.z"),
            ),
            (
                "/.well-known/mercure?%61uthorization=x%2Ey&authorization=other",
                None,
                "/.well-known/mercure?",
                Some("x.y"),
            ),
            (
                "/.well-known/mercure?authorization=x",
                Some("bearer own"),
                "/.well-known/mercure?",
                Some("own"),
            ),
            (
                "/.well-known/mercure?authorization=x",
                Some("Basic YTpi"),
                "/.well-known/mercure?",
                Some("x"),
            ),
            ("/.well-known/mercure?topic=a", None, "/.well-known/mercure?topic=a", None),
            ("/other?authorization=x", None, "/other?authorization=x", None),
            ("/.well-known/mercure", None, "/.well-known/mercure", None),
        ] {
            let mut request = Request::get(given);
            if let Some(field) = field {
                request = request.header(AUTHORIZATION, field);
            }
            let mut request = request.body(()).unwrap();
            hide_token(&mut request);
            let found = token_of(&request).map(|token| std::str::from_utf8(token).unwrap());
            assert_eq!((&*request.uri().to_string(), found), (target, token), "{given}");
        }
    }

    #[test]
    fn the_scheme_of_a_token_is_bearer() {
        for (field, expected) in [
            ("Bearer abc", Some("abc")),
            ("bearer  abc ", Some("abc")),
            ("Basic abc", None),
            ("Bearer", None),
            ("", None),
        ] {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(field))]);
            assert_eq!(bearer(&headers), expected.map(str::as_bytes), "{field}");
        }
    }
}
