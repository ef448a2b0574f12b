//! What the directives of one block say, with what it inherits.

use std::collections::{BTreeMap, BTreeSet};

use crate::directive::Directive;
use crate::source::Place;
use crate::{unit, validity};

use super::sizes::{self, Size};
use super::{Reader, constants, is_missing, known, limits, target};

/// Directives that hand requests to something else than PHP.
const FOREIGN: &[&str] = &[
    "proxy_pass",
    "grpc_pass",
    "uwsgi_pass",
    "scgi_pass",
    "memcached_pass",
    "empty_gif",
    "flv",
    "mp4",
    "perl",
    "stub_status",
    "status",
    "dav_methods",
    "js_content",
    "content_by_lua",
    "content_by_lua_block",
    "content_by_lua_file",
    "echo",
    "random_index",
    "slice",
    "sub_filter",
    "push_stream_publisher",
    "hls",
    "image_filter",
    "xslt_stylesheet",
];

/// What belongs to [`FOREIGN`], and needs no note of its own.
const OF_FOREIGN: &[&str] = &["proxy_", "grpc_", "uwsgi_", "scgi_", "memcached_"];

/// Parts of names of directives that may guard something. An unknown one of them closes its block.
const GUARDS: &[&str] = &[
    "auth",
    "access",
    "deny",
    "secure",
    "security",
    "verify",
    "referer",
    "jwt",
    "limit_except",
    "rewrite_by_lua",
    "block",
    "waf",
    "naxsi",
    "geoip",
    "client_certificate",
    "crl",
];

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
    pub timeouts: BTreeMap<&'static str, Size>,
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
            locations: Vec::new(),
            closed: Vec::new(),
            listen: Vec::new(),
            names: Vec::new(),
            ..self.clone()
        }
    }
}

impl Block {
    /// Where `try_files` ends with `=404`, the page of `error_page 404 =` answers.
    pub(super) fn settle_missing(&mut self) {
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
}

impl Reader<'_> {
    /// Reads directives into a block, which has what it inherits already.
    pub(super) fn read(&mut self, directives: &[Directive], block: &mut Block) {
        let names = |name: &str| directives.iter().any(|directive| directive.name == name);
        // One of its own replaces all that are inherited.
        if names("allow") || names("deny") {
            block.access.clear();
        }
        if names("add_header") {
            block.headers.clear();
        }
        if names("error_page") {
            block.error_pages.clear();
            block.missing = None;
        }
        if names("fastcgi_param") {
            block.params.clear();
        }
        if names("ssl_certificate") {
            block.certificate.clear();
            block.key.clear();
        }
        if names("limit_req") {
            block.requests.clear();
        }
        if names("limit_conn") {
            block.connections.clear();
        }
        if names("set_real_ip_from") {
            block.proxies.clear();
        }
        if names("access_log") && !self.in_location {
            block.access_log = None;
        }
        for directive in directives {
            self.directive(directive, block);
        }
        let proxy = directives.iter().find(|it| it.name == "set_real_ip_from");
        if let Some(proxy) = proxy.filter(|_| block.client_header.is_none()) {
            self.notes.left(&proxy.place, &proxy.line(), OTHER_HEADER);
        }
        if proxy.is_some() || names("real_ip_header") {
            self.trust(block);
        }
        if let Some(proxy) = proxy.filter(|_| block.names_clients() && !block.names_as_here()) {
            let reason = "without `real_ip_recursive on` the last address counts, also if it is a \
                proxy's; here it is passed over, so name nothing but proxies";
            self.notes.differs(&proxy.place, &proxy.line(), reason);
        }
    }

    fn directive(&mut self, directive: &Directive, block: &mut Block) {
        let first = directive.arg(0);
        match &*directive.name {
            "listen" => block.listen.push(directive.clone()),
            "server_name" => block.names.extend(directive.args.iter().cloned()),
            "root" => block.root = Some(self.folder(first)),
            "alias" => block.alias = Some(self.path(first)),
            "index" => block.index = Some(directive.args.clone()),
            "allow" | "deny" => {
                block.access.push((directive.name == "allow", first.to_owned()));
            }
            "satisfy" => block.satisfies_any = first == "any",
            "auth_basic" => block.auth = (first != "off").then(|| directive.clone()),
            "auth_basic_user_file" => block.users = Some(directive.clone()),
            "limit_req" => block.requests.push(directive.clone()),
            "limit_conn" => block.connections.push(directive.clone()),
            "limit_req_status" => block.requests_status = Some(first.to_owned()),
            "limit_conn_status" => block.connections_status = Some(first.to_owned()),
            "limit_req_dry_run" => block.requests_dry_run = first == "on",
            "limit_conn_dry_run" => block.connections_dry_run = first == "on",
            "limit_req_zone" | "limit_conn_zone" if limits::is_by_address(directive) => {}
            "add_header" => self.header(directive, block),
            "expires" => self.expires(directive, block),
            "error_page" => self.error_page(directive, block),
            "fastcgi_intercept_errors" => block.intercepts = first == "on",
            "ssl_certificate" => block.certificate.push(self.path(first)),
            "ssl_certificate_key" => block.key.push(self.path(first)),
            "ssl_protocols" => {
                self.description.only_tls13 |= directive.args == ["TLSv1.3"];
                let is_old = |it: &String| !matches!(&**it, "TLSv1.2" | "TLSv1.3");
                if directive.args.iter().any(is_old) {
                    let reason = "TLS 1.2 is the oldest version that is spoken";
                    self.notes.left(&directive.place, &directive.line(), reason);
                }
            }
            "fastcgi_param" => {
                let value = directive.arg(1).to_owned();
                block.params.insert(first.to_owned(), (directive.place.clone(), value));
            }
            "fastcgi_split_path_info" => block.split = Some(first.to_owned()),
            "fastcgi_hide_header" => block.hidden_headers.push(first.to_owned()),
            "client_max_body_size" => self.body_size(directive, block),
            name if sizes::timeout(name).is_some() => self.timeout(directive, block),
            "set_real_ip_from" => {
                if validity::network(first).is_none() {
                    let reason =
                        "only addresses and networks are translated; see `trusted_proxies`";
                    self.notes.left(&directive.place, &directive.line(), reason);
                }
                block.proxies.insert(first.to_owned());
            }
            "real_ip_header" => {
                let header = first.to_ascii_lowercase();
                if !NAMING_CLIENTS.contains(&&*header) {
                    self.notes.left(&directive.place, &directive.line(), OTHER_HEADER);
                }
                block.client_header = Some(header);
            }
            "real_ip_recursive" => block.is_recursive = first == "on",
            "types" => block.has_no_types = directive.inner().is_empty(),
            "default_type" => block.default_type = Some(first.to_owned()),
            "internal" => block.is_internal = true,
            "try_files" => block.try_files = Some(directive.clone()),
            // It only serves `fastcgi_param PATH_INFO`, which PHP gets anyway.
            "set" if directive.arg(1) == "$fastcgi_path_info" => {}
            "rewrite" => block.steps.push(target::numbered(directive)),
            "return" | "if" | "break" | "set" => block.steps.push(directive.clone()),
            "fastcgi_pass" => block.fastcgi = Some(directive.clone()),
            "location" if directive.block.is_some() => block.locations.push(directive.clone()),
            "access_log" => {
                block.is_unlogged = first == "off";
                self.access_log(directive, block);
            }
            "log_format" => drop(self.log_formats.insert(first.to_owned(), directive.clone())),
            "error_log" => self.error_log(directive),
            "autoindex" => block.index_listing = first == "on",
            "charset" if !first.starts_with('$') => block.charset = Some(first.to_owned()),
            "disable_symlinks" if first == "off" => {}
            "disable_symlinks" => {
                let reason = "it may refuse requests, and there is no such rule";
                block.closed.push((directive.clone(), reason.to_owned()));
            }
            "ssl_verify_client" | "ssl_reject_handshake" if first == "off" => {}
            "ssl_reject_handshake" => {
                let reason = "the handshake cannot be refused for one name";
                block.closed.push((directive.clone(), reason.to_owned()));
            }
            _ => self.other(directive, block),
        }
    }

    fn other(&mut self, directive: &Directive, block: &mut Block) {
        let (name, line) = (&*directive.name, directive.line());
        if is_missing(directive) {
            block.closed.push((directive.clone(), "what it includes is missing".to_owned()));
        } else if FOREIGN.contains(&name) {
            block.closed.push((directive.clone(), known::instead(name).to_owned()));
        } else if known::is_silent(directive) || OF_FOREIGN.iter().any(|it| name.starts_with(it)) {
        } else if GUARDS.iter().any(|part| name.contains(part)) {
            block.closed.push((directive.clone(), known::guard(name).to_owned()));
        } else {
            self.notes.left(&directive.place, &line, known::advice(name));
        }
    }

    fn header(&mut self, directive: &Directive, block: &mut Block) {
        let name = directive.arg(0);
        let value = &*self.header_value(directive);
        let problem = match validity::field(name, value) {
            _ if value.contains('$') => Some("variables are not translated; write its value"),
            Err(problem) => Some(problem),
            // An empty value adds nothing.
            Ok(()) if value.is_empty() => return,
            Ok(()) => None,
        };
        if let Some(problem) = problem {
            self.notes.left(&directive.place, &directive.line(), problem);
            return;
        }
        block.headers.push(Header {
            place: directive.place.clone(),
            name: name.to_owned(),
            value: value.to_owned(),
            always: directive.arg(2) == "always",
        });
    }

    /// The value of a header, with that of each `map` for requests that lack what it looks at.
    fn header_value(&mut self, directive: &Directive) -> String {
        let value = directive.arg(1);
        let maps = self.maps.iter().filter_map(|(name, map)| Some((name, map.of_absent()?)));
        let values = maps.map(|(name, value)| (name.clone(), value.clone())).collect();
        let plain = constants::replaced(value, &values);
        if plain == value || plain.contains('$') {
            return value.to_owned();
        }
        let plain = plain.trim_end_matches([',', ' ']).to_owned();
        let reason = format!(
            "for all requests it is `{plain}`, which nginx sends where what the \
            `map` looks at is missing"
        );
        self.notes.differs(&directive.place, &directive.line(), reason);
        plain
    }

    fn expires(&mut self, directive: &Directive, block: &mut Block) {
        let text = directive.args.join(" ");
        block.expires = match &*text {
            "off" => None,
            "max" => Some(Expires::Seconds(10 * 365 * 86_400)),
            "epoch" => Some(Expires::Never),
            negative if negative.starts_with('-') => Some(Expires::Never),
            time => match unit::nginx_time(time.strip_prefix('+').unwrap_or(time)) {
                Some(0) => Some(Expires::Never),
                Some(seconds) => Some(Expires::Seconds(seconds)),
                None => {
                    let reason = "only a duration from now is translated";
                    self.notes.left(&directive.place, &directive.line(), reason);
                    None
                }
            },
        };
    }

    fn error_page(&mut self, directive: &Directive, block: &mut Block) {
        let Some((page, statuses)) = directive.args.split_last() else { return };
        if statuses == ["404", "="] {
            let args = ["$uri", "$uri/", page].map(str::to_owned).to_vec();
            block.missing = Some(Directive { args, ..directive.clone() });
            return;
        }
        let (page, _) = target::without_query(page);
        let is_status = |text: &String| {
            text.parse::<u16>().is_ok_and(|status| (400..600).contains(&status) && status != 497)
        };
        let is_page = page.starts_with('/') && !page.contains(['$', '?']);
        if statuses.is_empty() || !statuses.iter().all(is_status) || !is_page {
            let reason = "only a page of the site, with the status kept, is translated; see \
                `error_pages`";
            self.notes.left(&directive.place, &directive.line(), reason);
            return;
        }
        for status in statuses {
            let page = (directive.place.clone(), page.to_owned());
            block.error_pages.insert(status.clone(), page);
        }
    }

    /// Takes the proxies of a block over, if they name clients by a header that is translated.
    fn trust(&mut self, block: &Block) {
        if block.names_clients() {
            self.description.names_by_field |= !block.has_proxy_header();
            for network in block.proxies.iter().filter_map(|proxy| validity::network(proxy)) {
                if !self.description.trusted_proxies.contains(&network) {
                    self.description.trusted_proxies.push(network);
                }
            }
        }
    }
}

/// How a proxy may name clients.
const NAMING_CLIENTS: [&str; 2] = ["x-forwarded-for", PROXY_HEADER];

const PROXY_HEADER: &str = "proxy_protocol";

const OTHER_HEADER: &str = "clients are named by `X-Forwarded-For` or the PROXY protocol; see \
    `trusted_proxies`";

impl Block {
    /// Whether its proxies name the client as Tokamak knows it.
    fn names_clients(&self) -> bool {
        self.client_header.as_ref().is_some_and(|header| NAMING_CLIENTS.contains(&&**header))
    }

    fn has_proxy_header(&self) -> bool {
        self.client_header.as_deref() == Some(PROXY_HEADER)
    }

    /// Whether it makes no difference that Tokamak passes over all proxies at the end of a chain:
    /// nobody but a single one could stand there.
    fn names_as_here(&self) -> bool {
        let is_single = |proxy: &String| !proxy.contains('/');
        self.is_recursive
            || self.has_proxy_header()
            || (self.proxies.len() == 1 && self.proxies.iter().all(is_single))
    }

    /// Whether another address than the client's own may be meant by `allow` and `deny`. `proxies`
    /// are those of the whole configuration, which are trusted for all sites.
    pub(super) fn hides_clients(&self, proxies: &BTreeSet<String>) -> bool {
        let are_known = self.proxies.iter().all(|proxy| validity::network(proxy).is_some());
        let is_told =
            self.proxies.is_empty() || (self.names_clients() && self.names_as_here() && are_known);
        !is_told || self.proxies != *proxies
    }
}
