//! What the directives of one block say, with what it inherits.

use std::collections::{BTreeMap, BTreeSet};

use crate::directive::Directive;
use crate::source::Place;
use crate::validity;

/// A number that a directive says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Size {
    pub place: Place,
    pub line: String,
    /// Bytes, or seconds.
    pub most: u64,
}

/// What a server says of each key of `timeouts`.
pub(super) type Timeouts = BTreeMap<&'static str, Size>;

/// How a proxy may name clients.
pub(super) const NAMING_CLIENTS: [&str; 2] = ["x-forwarded-for", PROXY_HEADER];

const PROXY_HEADER: &str = "proxy_protocol";

/// A header that is added.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Header {
    pub place: Place,
    pub name: String,
    pub value: String,
    pub always: bool,
}

/// How long responses may be kept.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expires {
    Seconds(u64),
    Never,
}

/// The directives of a block. Those that inner blocks inherit come first.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    pub root: Option<String>,
    pub index: Option<Vec<String>>,
    pub index_listing: bool,
    pub charset: Option<String>,
    /// `allow` and `deny` in their order, or a reason to refuse all.
    pub access: Vec<(bool, String)>,
    pub auth: Option<Directive>,
    pub users: Option<Directive>,
    pub satisfies_any: bool,
    /// `limit_req` and `limit_conn`, the statuses of what is too much, and whether that is served.
    pub requests: Vec<Directive>,
    pub connections: Vec<Directive>,
    pub requests_status: Option<String>,
    pub connections_status: Option<String>,
    pub requests_dry_run: bool,
    pub connections_dry_run: bool,
    pub headers: Vec<Header>,
    pub expires: Option<Expires>,
    pub error_pages: BTreeMap<String, (Place, String)>,
    /// What answers for paths without a file, with its own status: as the `try_files` that says so.
    pub missing: Option<Directive>,
    /// Whether they also replace what scripts answer.
    pub intercepts: bool,
    pub certificate: Vec<String>,
    pub key: Vec<String>,
    pub params: BTreeMap<String, (Place, String)>,
    pub hidden_headers: Vec<String>,
    /// `proxy_set_header`, and all else that begins with `proxy_` but `proxy_pass` itself.
    pub service_fields: Vec<Directive>,
    pub service_settings: Vec<Directive>,
    /// The expression of `fastcgi_split_path_info`, which takes what goes on behind the name of a
    /// script off `$fastcgi_script_name`.
    pub split: Option<String>,
    /// The proxies that name the client, and by which header: `X-Real-IP` if nothing says another.
    pub proxies: BTreeSet<String>,
    pub client_header: Option<String>,
    /// Whether an address that is a proxy's is passed over.
    pub is_recursive: bool,
    /// Whether the name of a file says nothing of its type, which is `default_type` then.
    pub has_no_types: bool,
    pub default_type: Option<String>,
    /// The largest body of a request, if a directive says it.
    pub body: Option<Size>,
    /// How long clients are waited for, by the keys of `timeouts`.
    pub timeouts: Timeouts,
    /// Whether requests are not logged.
    pub is_unlogged: bool,
    /// Where they are logged, if that is translated.
    pub access_log: Option<(String, String)>,

    pub alias: Option<String>,
    pub is_internal: bool,
    pub try_files: Option<Directive>,
    /// `rewrite`, `return`, `if`, in their order.
    pub steps: Vec<Directive>,
    pub fastcgi: Option<Directive>,
    pub proxy: Option<Directive>,
    pub locations: Vec<Directive>,
    /// What is not understood and may guard, or answer: with the reason.
    pub closed: Vec<(Directive, String)>,
    pub listen: Vec<Directive>,
    pub names: Vec<String>,
}

impl Block {
    /// What an inner block begins with.
    pub(super) fn inherited(&self) -> Block {
        Block {
            alias: None,
            is_internal: false,
            try_files: None,
            steps: Vec::new(),
            fastcgi: None,
            proxy: None,
            locations: Vec::new(),
            closed: Vec::new(),
            listen: Vec::new(),
            names: Vec::new(),
            ..self.clone()
        }
    }

    /// Where `try_files` ends with `=404`, the page of `error_page 404 =` answers.
    pub(super) fn resolve_missing(&mut self) {
        let page = self.missing.as_ref().and_then(|missing| missing.args.last());
        let last = self.try_files.as_mut().and_then(|own| own.args.last_mut());
        if let (Some(page), Some(last)) = (page, last.filter(|last| *last == "=404")) {
            last.clone_from(page);
        }
    }

    /// Whether nothing but files answers.
    pub(super) fn sends_files(&self) -> bool {
        let tried = self.try_files.as_ref().or(self.missing.as_ref());
        let fallback = tried.and_then(|it| it.args.last());
        self.fastcgi.is_none() && fallback.is_none_or(|last| last.starts_with('='))
    }

    /// Whether index files and lists answer for folders, and not scripts or what `try_files` says.
    pub(super) fn serves_folders(&self) -> bool {
        let tried = self.try_files.as_ref().and_then(|it| it.args.split_last());
        self.fastcgi.is_none()
            && tried.is_none_or(|(_, files)| files.iter().any(|file| file.ends_with('/')))
    }

    /// Whether its proxies name the client as Tokamak knows it.
    pub(super) fn names_clients(&self) -> bool {
        self.client_header.as_ref().is_some_and(|header| NAMING_CLIENTS.contains(&&**header))
    }

    pub(super) fn has_proxy_header(&self) -> bool {
        self.client_header.as_deref() == Some(PROXY_HEADER)
    }

    /// Whether it makes no difference that Tokamak passes over all proxies at the end of a chain:
    /// only a single one could stand there.
    pub(super) fn names_as_here(&self) -> bool {
        let is_single = |proxy: &String| !proxy.contains('/');
        self.is_recursive
            || self.has_proxy_header()
            || (self.proxies.len() == 1 && self.proxies.iter().all(is_single))
    }

    /// Whether another address than the client's own may be meant by `allow` and `deny`. `proxies`
    /// are those of the whole configuration, which are trusted for all sites.
    pub(super) fn hides_clients(&self, proxies: &BTreeSet<String>) -> bool {
        let are_known = self.proxies.iter().all(|proxy| validity::network(proxy).is_some());
        let names_clients_alike =
            self.proxies.is_empty() || (self.names_clients() && self.names_as_here() && are_known);
        !names_clients_alike || self.proxies != *proxies
    }
}

/// The index files without a line that names any.
pub(super) fn default_index() -> Vec<String> {
    vec!["index.html".to_owned()]
}
