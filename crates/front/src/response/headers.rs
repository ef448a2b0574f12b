//! Changes of the heads of responses by rules: fields that are set, added and removed.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::header::{CACHE_CONTROL, CONTENT_TYPE, EXPIRES, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use smallvec::SmallVec;
use tokamak_config as config;

use super::Source;

/// The changes of one rule.
#[derive(Debug)]
pub struct HeaderRule {
    /// Media types of the responses that are changed; none: all.
    content_types: Vec<String>,
    set: Vec<(HeaderName, HeaderValue)>,
    cache_control: Option<HeaderValue>,
    add: Vec<(HeaderName, HeaderValue)>,
    remove: Vec<HeaderName>,
    /// How long a browser may keep the response.
    expires: Option<Duration>,
    /// Whether a response that says by itself how long it may be kept is left so.
    keeps_own: bool,
    /// Whether responses with a status from 400 are changed, too.
    always: bool,
}

impl HeaderRule {
    /// The changes that a rule makes. The configuration has been checked: an invalid field is left
    /// out.
    pub fn new(rule: &config::Rule) -> HeaderRule {
        let changes = &rule.headers;
        let field = |(name, value): (&String, &String)| {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            Some((name, HeaderValue::from_str(value).ok()?))
        };
        let max_age = |expires: Duration| format!("max-age={}", expires.as_secs());
        let cache_control = changes.cache_control.clone().or(changes.expires.map(max_age));
        let name = |name: &String| HeaderName::from_bytes(name.as_bytes()).ok();
        HeaderRule {
            content_types: rule.content_types.clone(),
            set: changes.set.iter().filter_map(field).collect(),
            cache_control: cache_control.and_then(|value| HeaderValue::from_str(&value).ok()),
            add: changes.add.iter().filter_map(field).collect(),
            remove: changes.remove.iter().filter_map(name).collect(),
            expires: changes.expires,
            keeps_own: changes.keeps_own,
            always: changes.always,
        }
    }

    fn is_for(&self, headers: &HeaderMap) -> bool {
        if self.content_types.is_empty() {
            return true;
        }
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
        let kind = kind.split(';').next().unwrap_or("").trim();
        self.content_types.iter().any(|wanted| match wanted.strip_suffix('*') {
            // The part that is left ends with the slash.
            Some(start) => {
                kind.get(..start.len()).is_some_and(|own| own.eq_ignore_ascii_case(start))
            }
            None => kind.eq_ignore_ascii_case(wanted),
        })
    }

    /// `has_own`: the response says by itself how long it may be kept.
    fn apply(&self, status: StatusCode, has_own: bool, headers: &mut HeaderMap) {
        for name in &self.remove {
            headers.remove(name);
        }
        if !self.always && status.as_u16() >= 400 {
            return;
        }
        for (name, value) in &self.set {
            headers.insert(name, value.clone());
        }
        for (name, value) in &self.add {
            headers.append(name, value.clone());
        }
        if self.keeps_own && has_own {
            return;
        }
        if let Some(value) = &self.cache_control {
            headers.insert(CACHE_CONTROL, value.clone());
        }
        if let Some(expires) = self.expires {
            let date = httpdate::fmt_http_date(SystemTime::now() + expires);
            if let Ok(date) = HeaderValue::from_str(&date) {
                headers.insert(EXPIRES, date);
            }
        }
    }
}

/// The changes of the response to one request.
pub struct HeaderChanges {
    rules: Arc<[HeaderRule]>,
    /// The indexes of the rules that fit the request.
    fitting: SmallVec<[u16; 12]>,
}

impl HeaderChanges {
    /// The changes of the rules with these indexes.
    pub fn new(rules: Arc<[HeaderRule]>, fitting: SmallVec<[u16; 12]>) -> HeaderChanges {
        HeaderChanges { rules, fitting }
    }

    /// Changes a response, rule after rule.
    pub fn apply(&self, response: &mut Response<Source>) {
        let status = response.status();
        let headers = response.headers();
        let has_own = headers.contains_key(CACHE_CONTROL) || headers.contains_key(EXPIRES);
        for index in &self.fitting {
            let rule = &self.rules[usize::from(*index)];
            if rule.is_for(response.headers()) {
                rule.apply(status, has_own, response.headers_mut());
            }
        }
    }
}
