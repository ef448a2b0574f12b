//! Sites as all three languages describe them, in the terms of `tokamak.toml`.

mod route;
mod scope;

use std::collections::BTreeMap;

use crate::pattern;
use crate::source::Place;

pub(crate) use route::{Route, Upstream};
pub(crate) use scope::Scope;

/// What a configuration says, before its sites are fitted together.
#[derive(Debug, Default)]
pub(crate) struct Description {
    /// Sites in the order of the file.
    pub sites: Vec<Site>,
    /// Applications that routes of sites name.
    pub upstreams: Vec<Upstream>,
    /// Whether each site is served on addresses of its own.
    pub divides_addresses: bool,
    /// Largest request body, in bytes.
    pub body: Option<u64>,
    /// Seconds, by keys of `timeouts`.
    pub timeouts: BTreeMap<&'static str, u64>,
    /// Networks of proxies that name the client.
    pub trusted_proxies: Vec<String>,
    /// Whether they do so by `X-Forwarded-For`, and not by the PROXY protocol alone.
    pub names_by_field: bool,
    /// The user that the server runs as.
    pub user: Option<String>,
    /// The group to go with it.
    pub group: Option<String>,
    /// Whether only TLS 1.3 is spoken.
    pub only_tls13: bool,
    /// Whether certificates are got for the names of sites that have none.
    pub automatic: bool,
    /// Files of users that are written beside the configuration: their names and their texts.
    pub files: Vec<(String, String)>,
    /// The access log of sites that say nothing else, with the shape of its lines, and the error
    /// log.
    pub access_log: Option<(String, String)>,
    pub error_log: Option<String>,
}

/// The shape of access log lines that needs no word.
pub(crate) const COMBINED: &str = "combined";

/// An address that a site listens on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Listen {
    /// As in `listen` of `tokamak.toml`.
    pub address: String,
    pub tls: bool,
    pub proxy_protocol: bool,
}

/// A site that does nothing but redirect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// To the same host by `https`.
    Secure,
    /// To this URL, which ends before the path; the scheme is empty if it stays.
    Host { scheme: &'static str, host: String, status: u16 },
}

/// The value of `Strict-Transport-Security`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hsts {
    /// Seconds.
    pub lifetime: u64,
    pub subdomains: bool,
    pub preload: bool,
}

impl Hsts {
    /// The time as a duration of `tokamak.toml`.
    pub(crate) fn duration(&self) -> String {
        match self.lifetime % 3600 {
            0 => format!("{}h", self.lifetime / 3600),
            _ => format!("{}s", self.lifetime),
        }
    }
}

/// One site, or one that is mounted in another.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Site {
    pub place: Place,
    /// Names; empty for unknown ones.
    pub hosts: Vec<String>,
    /// Whether it answers for unknown names.
    pub is_default: bool,
    /// The addresses for which it says that itself.
    pub default_on: Vec<String>,
    pub listen: Vec<Listen>,
    /// The path under which it is mounted.
    pub path: Option<String>,
    pub root: Option<String>,
    pub index: Option<Vec<String>>,
    /// Whether folders without an index file are listed.
    pub index_listing: bool,
    /// The charset of its text files.
    pub charset: Option<String>,
    /// The file of its own access log, and the shape of its lines, if it has one.
    pub access_log: Option<(String, String)>,
    pub front_controller: Option<String>,
    pub front_controller_for: Vec<&'static str>,
    pub https_redirect: bool,
    /// The value of `Strict-Transport-Security`.
    pub hsts: Option<Hsts>,
    pub certificate: Vec<String>,
    pub key: Vec<String>,
    pub internal: BTreeMap<String, String>,
    pub error_pages: BTreeMap<String, String>,
    /// Whether they also replace what scripts answer.
    pub intercept_errors: bool,
    pub php_value: BTreeMap<String, String>,
    pub php_admin_value: BTreeMap<String, String>,
    pub env: BTreeMap<String, String>,
    /// Largest request body, in bytes, until [`crate::combine`] finds out for how many sites it is.
    pub body: Option<u64>,
    pub rules: Vec<Rule>,
    /// The paths that applications answer, and those within them that the site keeps.
    pub routes: Vec<Route>,
    /// Whether no PHP is started for it.
    pub runs_no_php: bool,
    pub mounts: Vec<Site>,
    /// Whether the headers of the site around a mounted one are not its own.
    pub owns_headers: bool,
    pub moved: Option<Moved>,
}

impl Site {
    /// A site without anything.
    pub(crate) fn new(place: Place) -> Site {
        Site { place, ..Site::default() }
    }

    /// Whether it refuses everybody everything.
    pub(crate) fn refuses_all(&self) -> bool {
        self.rules.iter().any(|rule| {
            let all = Rule::at(&rule.place, Scope::default());
            *rule == all.clone().refuse_all(403) || *rule == all.refuse_all(404)
        })
    }

    /// The paths that applications answer; one that is all of the site is empty.
    pub(crate) fn applications(&self) -> impl Iterator<Item = &str> {
        self.routes.iter().filter(|route| route.upstream.is_some()).map(|route| &*route.path)
    }

    /// Refuses all of it, for the reason that a note gives.
    pub(crate) fn refuse(&mut self, place: &Place) {
        self.rules.insert(0, Rule::at(place, Scope::default()).refuse_all(403));
    }

    /// Adds a rule for the paths that clients ask for, whatever these are rewritten to: behind a
    /// rewrite only the new path is looked at.
    pub(crate) fn guard(&mut self, rule: Rule) {
        let is_rewrite = |rule: &Rule| matches!(rule.action, Some(Action::Rewrite(_)));
        let at = self.rules.iter().position(is_rewrite).unwrap_or(self.rules.len());
        self.rules.insert(at, rule);
    }
}

/// What a rule does with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Redirect { to: String, status: u16 },
    Rewrite(String),
    Refuse { allow: Vec<String>, deny: Vec<String>, status: u16 },
    Login(Login),
}

/// Whose name and password is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Login {
    /// The file of users.
    pub users: String,
    /// What browsers say that it is for.
    pub realm: Option<String>,
    /// Networks whose clients need no password.
    pub free: Vec<String>,
}

/// What one client may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub most: Most,
    /// Whether more is only logged.
    pub dry_run: bool,
}

/// The most of a [`Limit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Most {
    /// Requests in a time, as `rate` of a rule, and how many more at once.
    Rate { rate: String, burst: u32 },
    /// Requests at the same time.
    Connections(u32),
}

/// What is served; the later, the less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Serve {
    #[default]
    All,
    Existing,
    Files,
}

/// Changes of response headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Headers {
    pub set: BTreeMap<String, String>,
    pub add: BTreeMap<String, String>,
    pub remove: Vec<String>,
    pub cache_control: Option<String>,
    /// Seconds.
    pub expires: Option<u64>,
    /// Whether these two are only for responses that do not say it themselves.
    pub keeps_own: bool,
    pub always: bool,
}

impl Headers {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Headers { always: self.always, ..Headers::default() }
    }
}

/// The conditions of a rule that are not of its path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conditions {
    pub method: Option<String>,
    pub query: Option<String>,
    pub headers: BTreeMap<String, String>,
}

impl Conditions {
    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Conditions::default()
    }
}

/// One `[[site.rule]]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rule {
    pub place: Place,
    pub scope: Scope,
    pub content_types: Vec<String>,
    /// Paths for which it does not hold.
    pub except: Vec<String>,
    pub unless_file: bool,
    pub if_file: bool,
    /// Whether a folder is there for these two.
    pub folders_are_files: bool,
    /// What else requests have to be.
    pub conditions: Conditions,
    pub action: Option<Action>,
    pub scripts: Vec<String>,
    pub serve: Serve,
    /// Whether folders without an index file are listed, if it says so.
    pub index_listing: Option<bool>,
    /// Whether it is for files and scripts alone, and not for the paths of services, until
    /// [`crate::service::leave_out`] has said so.
    pub is_of_files: bool,
    /// Whether it is not for sites that are mounted, as what refuses the scripts that no location
    /// runs: they have rules of their own.
    pub is_of_scripts: bool,
    pub limit: Option<Limit>,
    /// Largest request body, in bytes.
    pub body: Option<u64>,
    /// Whether requests are kept out of the access log.
    pub is_unlogged: bool,
    /// Whether only the path that a client asks for is refused.
    pub internal: bool,
    /// Whether headers go by the path of what answers.
    pub of_answer: bool,
    /// Whether no later rule that goes by it holds where this one does.
    pub is_last: bool,
    pub headers: Headers,
}

impl Rule {
    /// A rule that does nothing yet.
    pub(crate) fn at(place: &Place, scope: Scope) -> Rule {
        Rule { place: place.clone(), scope, folders_are_files: true, ..Rule::default() }
    }

    /// Asks for a password.
    pub(crate) fn login(mut self, login: Login) -> Rule {
        self.action = Some(Action::Login(login));
        self
    }

    /// Limits what one client asks for.
    pub(crate) fn limit(mut self, limit: Limit) -> Rule {
        self.limit = Some(limit);
        self
    }

    /// Takes folders for paths without a file, as nginx's `-f` and `$uri` of `try_files` do.
    pub(crate) fn ignore_folders(&mut self) {
        self.folders_are_files &= !self.unless_file;
    }

    /// Whether it is for a path, if it refuses.
    pub(crate) fn is_for(&self, path: &str) -> bool {
        let is_in = |own: &String| Scope::path(own.clone()).fits(path);
        self.scope.fits(path) && !self.except.iter().any(is_in)
    }

    /// Whether it keeps clients out: by their address, or by a password.
    pub(crate) fn guards(&self) -> bool {
        matches!(self.action, Some(Action::Refuse { .. } | Action::Login(_)))
    }

    /// The password that it asks for.
    pub(crate) fn asks(&self) -> Option<&Login> {
        match &self.action {
            Some(Action::Login(login)) => Some(login),
            _ => None,
        }
    }

    /// Refuses everybody.
    pub(crate) fn refuse_all(self, status: u16) -> Rule {
        self.refuse(Vec::new(), vec!["all".to_owned()], status)
    }

    /// Refuses some.
    pub(crate) fn refuse(mut self, allow: Vec<String>, deny: Vec<String>, status: u16) -> Rule {
        self.action = Some(Action::Refuse { allow, deny, status });
        self
    }

    /// Redirects.
    pub(crate) fn redirect(mut self, to: impl Into<String>, status: u16) -> Rule {
        self.action = Some(Action::Redirect { to: to.into(), status });
        self
    }

    /// Serves another path.
    pub(crate) fn rewrite(mut self, to: impl Into<String>) -> Rule {
        self.action = Some(Action::Rewrite(to.into()));
        self
    }

    /// Restricts what is served.
    pub(crate) fn serve(mut self, serve: Serve) -> Rule {
        self.serve = serve;
        self
    }

    /// Lists folders, or does not.
    pub(crate) fn list(mut self, lists: bool) -> Rule {
        self.index_listing = Some(lists);
        self
    }

    /// Whether it is for all requests.
    pub(crate) fn is_for_all(&self) -> bool {
        let Scope { path, pattern, and } = &self.scope;
        let finds_all = pattern.as_deref().is_none_or(|own| pattern::ANY.contains(&own));
        finds_all
            && path.is_none()
            && and.is_empty()
            && self.except.is_empty()
            && !self.unless_file
            && !self.if_file
            && self.conditions.is_empty()
    }

    /// Whether it does nothing.
    pub(crate) fn is_idle(&self) -> bool {
        self.action.is_none()
            && self.scripts.is_empty()
            && self.serve == Serve::All
            && self.index_listing.is_none()
            && self.limit.is_none()
            && self.body.is_none()
            && !self.is_unlogged
            && !self.is_last
            && self.headers.is_empty()
    }
}
