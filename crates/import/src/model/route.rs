//! Applications of HTTP, and the paths that they answer.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::source::Place;

/// One `[[upstream]]` that speaks HTTP.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Upstream {
    pub place: Place,
    pub name: String,
    /// The addresses, with the share of each.
    pub addresses: Vec<(String, u32)>,
    /// Whether the address with the fewest requests is asked.
    pub asks_least_busy: bool,
    /// What binds requests to an address, as `affinity` says it.
    pub affinity: Option<String>,
    /// What it is told as `Host`, if that is not what the client says.
    pub host: Option<String>,
    /// Header fields that are set, or removed by an empty value.
    pub headers: BTreeMap<String, String>,
    /// Whether it is not told who the client is.
    pub hides_clients: bool,
    /// Whether it gets the bodies of requests as they come.
    pub gets_bodies_at_once: bool,
    /// The path that each address is asked for every now and then.
    pub check: Option<String>,
    /// Whom it believes and what it shows over TLS, by the keys of `[[upstream]]`.
    pub tls: BTreeMap<&'static str, String>,
    /// Numbers, by the keys of `[[upstream]]`.
    pub numbers: BTreeMap<&'static str, u32>,
    /// Durations, by the keys of `[[upstream]]`.
    pub timeouts: BTreeMap<&'static str, Duration>,
}

impl Upstream {
    /// Whether requests go the same way, whatever the names are.
    pub(crate) fn is_same(&self, other: &Upstream) -> bool {
        let (place, name) = (other.place.clone(), other.name.clone());
        Upstream { place, name, ..self.clone() } == *other
    }
}

/// One `[[site.route]]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Route {
    pub place: Place,
    /// The path, without a slash at its end, so that all of a site is empty.
    pub path: String,
    /// The name of the upstream that answers; without one, the site has what is there.
    pub upstream: Option<String>,
    /// What stands in place of `path` in its requests.
    pub upstream_path: Option<String>,
    /// Whether files below the root are sent first.
    pub files: bool,
}

impl Route {
    /// Whether a path is the one of this route or below it.
    pub(crate) fn has(&self, path: &str) -> bool {
        let rest = path.strip_prefix(&*self.path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}
