//! A request as scripts see and change it, and the response that they make.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use tokamak_cache::{Key, Overrides, UrlOrigin};
use tokamak_lua::{
    Attribute, Call, Host, HttpCall, HttpContext, Item, Other, Piece, RedisServer, Side, Waiting,
    cache,
};
use tokamak_upstream::body::Body;

use super::attributes::{Changes, Origin};
use super::{caching, fetch, head_length, others, spare, time_of_day};
use crate::backend::cgi::Variables;
use crate::backend::response_head::is_interim;
use crate::cache::CachePolicy;
use crate::caller::Caller;
use crate::context::Context;
use crate::log::{self, About};
use crate::lua::{Hooks, SiteHooks};
use crate::request::phases::RequestParts;
use crate::response::Pieces;
use crate::route;
use crate::route::hosts::host_of;
use crate::site::Site;
use crate::trace::Trace;

/// Largest body that a script can read: it must fit into the memory that all scripts share.
const LARGEST: u64 = 8 << 20;

/// A request on its way through the scripts of its site.
pub struct Work {
    pub(super) context: Arc<Context>,
    pub(super) site_index: usize,
    pub(super) caller: Caller,
    /// The request's head.
    pub(super) parts: Parts,
    /// Its place in a trace, for the calls of scripts and the log.
    trace: Option<Trace>,
    /// The original target, if a script has changed it.
    original: Option<Uri>,
    /// Attributes that differ from what the head says.
    pub(super) changes: Changes,
    /// The file that the path means, before scripts change it.
    pub(super) located: Option<Vec<u8>>,
    /// The request's body, once it has been read.
    body: Option<Body>,
    length: Option<u64>,
    wants_body: bool,
    /// CGI variables that scripts have set; an empty one removes the variable.
    variables: Vec<(Vec<u8>, Vec<u8>)>,
    /// Header fields of the response: those that scripts have set or, in the last stage, all of
    /// them.
    pub(super) fields: HeaderMap,
    /// The body that scripts have set; `None` if they have set none.
    pub(super) pieces: Option<Pieces>,
    /// The response's original body, if it is in memory.
    pub(super) present: Option<Bytes>,
    /// The status of a response that is about to be sent.
    pub(super) status: u16,
    /// Whether a script wants the connection closed.
    pub(super) closes: bool,
    /// When it began, by the clock of the ledger.
    began: u64,
    /// The overrides of scripts for the content cache.
    pub(super) overrides: Overrides,
}

impl Work {
    /// A request as it came. `body`: its body, if that has been read or is known to be empty, and
    /// its length, if that is known.
    pub fn new(
        context: Arc<Context>,
        site_index: usize,
        caller: Caller,
        parts: Parts,
        body: Option<Body>,
        length: Option<u64>,
        began: u64,
    ) -> Box<Work> {
        Box::new(Work {
            context,
            site_index,
            caller,
            trace: Trace::of(&parts.extensions).cloned(),
            parts,
            original: None,
            changes: Changes::default(),
            located: None,
            body,
            length,
            wants_body: false,
            variables: Vec::new(),
            fields: spare::take(),
            pieces: None,
            present: None,
            status: 0,
            closes: false,
            began,
            overrides: Overrides::default(),
        })
    }

    /// The original target.
    fn original(&self) -> &Uri {
        self.original.as_ref().unwrap_or(&self.parts.uri)
    }

    /// The site.
    pub fn site(&self) -> &Site {
        &self.context.sites[self.site_index]
    }

    /// The scripts for the request's path.
    pub(super) fn hooks<'a>(&self, all: &'a SiteHooks) -> &'a Hooks {
        all.of(self.parts.uri.path())
    }

    /// Whether a script waits for the request's body, which has not been read.
    pub fn wants_body(&self) -> bool {
        self.wants_body && self.body.is_none()
    }

    /// The request's body has been read.
    pub fn put_body(&mut self, body: Body) {
        self.length = Some(body.left());
        self.body = Some(body);
    }

    /// The request's head as it is now.
    pub fn head(&self) -> Parts {
        let mut request = http::Request::new(());
        *request.method_mut() = self.parts.method.clone();
        *request.uri_mut() = self.original().clone();
        *request.headers_mut() = self.parts.headers.clone();
        request.into_parts().0
    }

    /// Gives the head, the body and the scripts' overrides to the pipeline. [`Work::take_back`]
    /// returns the head.
    pub fn take_parts(&mut self) -> (Parts, RequestParts<'static>) {
        let mut empty = http::Request::new(()).into_parts().0;
        empty.method = self.parts.method.clone();
        empty.uri = self.parts.uri.clone();
        let variable = |(name, value): &(Vec<u8>, Vec<u8>)| {
            Some((str::from_utf8(name).ok()?.to_owned(), HeaderValue::from_bytes(value).ok()?))
        };
        let variables = self.all_variables().iter().filter_map(variable).collect();
        (
            std::mem::replace(&mut self.parts, empty),
            RequestParts { body: self.body.take(), variables, ..RequestParts::default() },
        )
    }

    /// Lends the head as a request.
    pub fn take_request(&mut self) -> http::Request<()> {
        let empty = http::Request::new(()).into_parts().0;
        http::Request::from_parts(std::mem::replace(&mut self.parts, empty), ())
    }

    /// Tells scripts and applications who has logged in.
    pub(super) fn set_user(&mut self, variables: &Variables) {
        for (name, value) in variables {
            self.set_variable(name.as_bytes(), Some(value.as_bytes()));
        }
    }

    /// The cache policy for the request's path.
    pub(super) fn policy(&self) -> Option<Arc<CachePolicy>> {
        let path = route::clean(self.parts.uri.path().as_bytes());
        self.site().caching.of(path.as_deref().unwrap_or_default()).cloned()
    }

    /// Takes the head back.
    pub fn take_back(&mut self, parts: Parts) {
        self.parts = parts;
    }

    /// The overrides for the content cache, with a separate key if scripts have changed the path or
    /// file: the response is not the one for the URL then.
    pub(super) fn cache_overrides(&self, policy: &CachePolicy) -> Overrides {
        let mut overrides = self.overrides.clone();
        let path = self.changes.get(Attribute::UriPath);
        let file = self
            .changes
            .get(Attribute::PhysicalPath)
            .filter(|file| Some(file) != self.located.as_ref());
        if overrides.key.is_none() && (path.is_some() || file.is_some()) {
            let mut key = Vec::new();
            let host = host_of(&self.parts.uri, &self.parts.headers).unwrap_or_default();
            Key::write(
                &mut key,
                UrlOrigin { scheme: self.caller.scheme(), host, site: self.site().name_in_keys() },
                &self.parts.uri,
                &policy.ignored_query,
            );
            // The separator is a byte that no URL contains.
            for part in [path, file].into_iter().flatten() {
                key.push(0);
                key.extend_from_slice(&part);
            }
            overrides.key = Some(key);
        }
        overrides
    }

    /// Prepares the request, with its changes, to be restarted.
    pub fn restart(&mut self) {
        if self.changes.get(Attribute::UriPath).is_some() {
            // The path is dropped as in lighttpd, which does so silently.
            self.log(
                "RESTART_REQUEST begins with request.uri: the assigned uri.path has no effect",
            );
        }
        self.changes.forget_places();
    }

    /// Sends an interim response with the fields that have been set, and clears them.
    pub fn send_interim(&mut self, status: u16) {
        let fields = std::mem::take(&mut self.fields);
        if let Ok(status) = http::StatusCode::from_u16(status)
            && is_interim(status)
        {
            self.caller.send_interim(status, &fields);
        }
    }

    fn fields_of(&self, side: Side) -> &HeaderMap {
        match side {
            Side::Request => &self.parts.headers,
            Side::Response => &self.fields,
        }
    }

    fn fields_of_mut(&mut self, side: Side) -> &mut HeaderMap {
        match side {
            Side::Request => &mut self.parts.headers,
            Side::Response => &mut self.fields,
        }
    }

    /// The additional variables for the application: those that scripts have set, and those that
    /// follow from changed attributes.
    fn all_variables(&self) -> Cow<'_, [(Vec<u8>, Vec<u8>)]> {
        let implied = self.changes.variables();
        if implied.is_empty() {
            return self.variables.as_slice().into();
        }
        let is_set = |name: &[u8]| self.variables.iter().any(|(set, _)| set == name);
        let implied = implied.into_iter().filter(|(name, _)| !is_set(name));
        self.variables.iter().cloned().chain(implied).collect()
    }

    fn origin(&self) -> Origin<'_> {
        let addresses = self.caller.addresses();
        Origin {
            site: self.site(),
            scheme: self.caller.scheme(),
            addresses,
            parts: &self.parts,
            original: self.original(),
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        spare::give(std::mem::take(&mut self.parts.headers));
    }
}

impl Host for Work {
    fn http(&mut self) -> Option<&mut dyn HttpContext> {
        Some(self)
    }

    fn variable(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        let variables = self.all_variables();
        if let Some((_, value)) = variables.iter().find(|(key, _)| key == name) {
            return (!value.is_empty()).then(|| value.clone());
        }
        let mut found = None;
        self.origin().variables(&mut |key, value| {
            if key == name {
                found = Some(value.to_vec());
            }
        });
        found
    }

    fn log(&mut self, text: &str) {
        let target = self.original().path_and_query().map_or("", |target| target.as_str());
        let about = About {
            site: &self.site().config.name,
            method: self.parts.method.as_str(),
            target,
            trace: self.trace.as_ref().map(|trace| trace.context.trace),
        };
        log::script(&about, text);
    }

    fn sleep(&mut self, time: Duration) -> Waiting {
        self.context.calls.sleep(time)
    }

    fn call(&mut self, call: Call<'_>) -> Waiting {
        let (context, caller) = (&self.context, &self.caller);
        let (host, trace) = (self.parts.headers.get(HOST), self.trace.as_ref());
        let ask = |call: HttpCall<'_>| fetch::begin(context, caller, host, trace, call);
        context.calls.begin(call, trace, ask)
    }

    fn redis(&mut self, server: RedisServer) -> Result<u32, String> {
        self.context.calls.redis(server)
    }
}

impl HttpContext for Work {
    fn values(&self, side: Side, name: &[u8], each: &mut dyn FnMut(&[u8])) {
        if let Ok(name) = str::from_utf8(name) {
            self.fields_of(side).get_all(name).iter().for_each(|value| each(value.as_bytes()));
        }
    }

    fn fields(&self, side: Side, each: &mut dyn FnMut(&[u8], &[u8])) {
        for (name, value) in self.fields_of(side) {
            each(name.as_str().as_bytes(), value.as_bytes());
        }
    }

    fn set_field(&mut self, side: Side, name: &[u8], value: Option<&[u8]>) {
        let Ok(name) = HeaderName::from_bytes(name) else { return };
        match value.map(HeaderValue::from_bytes) {
            Some(Ok(value)) => drop(self.fields_of_mut(side).insert(name, value)),
            Some(Err(_)) => {}
            None => drop(self.fields_of_mut(side).remove(name)),
        }
    }

    fn add_field(&mut self, side: Side, name: &[u8], value: &[u8]) {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        {
            self.fields_of_mut(side).append(name, value);
        }
    }

    fn attribute(&self, attribute: Attribute) -> Option<Vec<u8>> {
        self.changes.get(attribute).or_else(|| self.origin().attribute(attribute))
    }

    fn set_attribute(&mut self, attribute: Attribute, value: &[u8]) -> Result<(), String> {
        self.original.get_or_insert_with(|| self.parts.uri.clone());
        self.changes.set(&mut self.parts, attribute, value)
    }

    fn item(&self, item: Item) -> (i64, i64) {
        let number = match item {
            Item::StartTime => return time_of_day(self.began),
            Item::BytesIn | Item::RequestHeaderLen => head_length(&self.parts, self.original()),
            Item::KeepAlive => u64::from(!self.closes),
            // A subrequest has no connection of its own.
            Item::RequestCount => self.caller.client().map_or(1, |client| client.requests().into()),
            Item::HttpStatus => self.status.into(),
            Item::BytesOut | Item::StreamId | Item::ResponseHeaderLen => 0,
        };
        (number as i64, 0)
    }

    fn set_keep_alive(&mut self, _: i64) {
        self.closes = true;
    }

    fn variables(&mut self, each: &mut dyn FnMut(&[u8], &[u8])) {
        let variables = self.all_variables();
        self.origin().variables(&mut |name, value| {
            if !variables.iter().any(|(key, _)| key == name) {
                each(name, value);
            }
        });
        variables.iter().for_each(|(name, value)| each(name, value));
    }

    fn set_variable(&mut self, name: &[u8], value: Option<&[u8]>) {
        self.variables.retain(|(key, _)| key != name);
        self.variables.push((name.to_vec(), value.unwrap_or_default().to_vec()));
    }

    fn request_length(&self) -> Option<u64> {
        self.length
    }

    fn request_body(&self) -> Option<Vec<u8>> {
        let body = self.body.as_ref()?;
        if body.left() > LARGEST {
            return None;
        }
        body.read_at(0, LARGEST as usize).ok().map(|bytes| bytes.to_vec())
    }

    fn collect_body(&mut self) -> bool {
        self.wants_body = true;
        self.body.is_some()
    }

    fn set_request_body(&mut self, body: Vec<u8>) {
        self.length = Some(body.len() as u64);
        if self.parts.headers.contains_key(CONTENT_LENGTH) {
            self.parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
        self.body = Some(if body.is_empty() { Body::Empty } else { Body::Memory(body.into()) });
    }

    fn response_body(&self) -> Option<Vec<u8>> {
        let Some(pieces) = &self.pieces else {
            return self.present.as_ref().map(|bytes| bytes.to_vec());
        };
        let mut all = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Bytes(bytes) => all.extend_from_slice(bytes),
                Piece::File { file, offset, length } => {
                    if *length > LARGEST {
                        return None;
                    }
                    let mut part = vec![0; *length as usize];
                    std::os::unix::fs::FileExt::read_exact_at(file, &mut part, *offset).ok()?;
                    all.extend_from_slice(&part);
                }
            }
        }
        Some(all)
    }

    fn response_length(&self) -> Option<u64> {
        let Some(pieces) = &self.pieces else {
            return self.present.as_ref().map(|bytes| bytes.len() as u64);
        };
        let length = |piece: &Piece| match piece {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::File { length, .. } => *length,
        };
        Some(pieces.iter().map(length).sum())
    }

    fn clear_body(&mut self) {
        self.pieces = Some(Pieces::new());
    }

    fn add_piece(&mut self, piece: Piece) {
        if self.pieces.is_none() {
            let present = self.present.iter().map(|bytes| Piece::Bytes(bytes.to_vec()));
            self.pieces = Some(present.collect());
        }
        self.pieces.get_or_insert_default().push(piece);
    }

    fn content_type(&self, path: &Path) -> Option<String> {
        Some(crate::response::files::content_type(path, &self.site().config.charset).into_owned())
    }

    fn others(&self) -> Vec<Other> {
        others::others(&self.context, self.caller.addresses())
    }

    fn override_cache(&mut self, with: cache::Override) {
        caching::put(&mut self.overrides, with);
    }

    fn kept(&mut self, key: Option<&[u8]>) -> Option<cache::CachedResponse> {
        caching::kept(self, key)
    }

    fn send_kept(&mut self, key: &[u8]) -> Option<u16> {
        caching::send(self, key)
    }

    fn purge(&mut self, what: cache::Purge) -> Result<u64, String> {
        caching::purge(self.context.cache.as_deref(), what)
    }

    fn uptime(&self) -> u64 {
        self.context.began.elapsed().as_secs()
    }

    fn clients(&self) -> u64 {
        self.context.connections() as u64
    }
}
