//! Reads the directives of a block.

use crate::directive::Directive;
use crate::{unit, validity};

use super::block::{Block, Expires, Header, NAMING_CLIENTS};
use super::parse::is_missing;
use super::reader::Reader;
use super::{constants, known, sizes, target, zones};

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
const OF_FOREIGN: &[&str] = &["grpc_", "uwsgi_", "scgi_", "memcached_"];

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

const OTHER_HEADER: &str = "clients are named by `X-Forwarded-For` or the PROXY protocol; see \
    `trusted_proxies`";

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
        if names("proxy_set_header") {
            block.service_fields.clear();
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
            "limit_req_zone" | "limit_conn_zone" if zones::is_by_address(directive) => {}
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
            "proxy_pass" if self.in_location => block.proxy = Some(directive.clone()),
            "proxy_set_header" => block.service_fields.push(directive.clone()),
            name if name.starts_with("proxy_") && name != "proxy_pass" => {
                block.service_settings.push(directive.clone());
            }
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
