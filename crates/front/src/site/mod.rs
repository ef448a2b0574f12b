//! A site as one event loop sees it: its configuration, and the objects that were made from it at
//! the start.

pub mod limits;
pub mod logins;
pub mod quota;
pub mod rules;

use std::path::Path;
use std::sync::Arc;

use http::Request;
use http::request::Parts;
use tokamak_config as config;
use tokamak_lua::LuaState;
use tokamak_upstream::SpoolQuota;
use tokamak_upstream::shm::Gate;

use crate::cache::SiteCachePolicies;
use crate::caller::Caller;
use crate::fpm::{Journal, Overview};
use crate::log::AccessLog;
use crate::lua::SiteHooks;
use crate::push::SiteHub;
use crate::response::edits::SiteEdits;
use crate::route::hosts::{self, strip_port};
use crate::route::{self, Decision, Router, Target};
use limits::SiteLimits;
use logins::SiteLogins;
use rules::{RuleRequest, Rules};

/// A site of one event loop.
pub struct Site {
    /// Its index in the configuration.
    pub index: usize,
    /// Its configuration.
    pub config: Arc<config::Site>,
    /// The scripts that see its requests.
    pub hooks: SiteHooks,
    /// The cache policies of its paths.
    pub caching: SiteCachePolicies,
    /// What the server changes in its responses.
    pub edits: SiteEdits,
    /// The document root, without symbolic links.
    pub root: Vec<u8>,
    /// Finds files and scripts.
    pub router: Router,
    /// What holds for which of its paths.
    pub rules: Rules,
    /// What each of its clients may do, if that is limited.
    pub limits: Option<SiteLimits>,
    /// Which passwords its rules ask for, if any do.
    pub logins: Option<SiteLogins>,
    /// The log of its requests, if one is written.
    pub access_log: Option<Arc<AccessLog>>,
    /// What answers requests for its scripts.
    pub handler: Handler,
    /// The data of the pool's status page, shared by all event loops.
    pub overview: Option<Arc<Overview>>,
    /// The access log of a pool that web servers reach by FastCGI.
    pub journal: Option<Journal>,
    /// What its responses may take in files, because of slow clients; of all event loops together.
    pub quota: Arc<SpoolQuota>,
    /// The hub, if the site has one; shared by all event loops.
    pub hub: Option<Arc<SiteHub>>,
    /// The index of the site whose application gets the requests that this site's workers decline.
    pub fallback: Option<usize>,
}

/// What answers requests for an application.
#[derive(Clone)]
pub enum Handler {
    /// Workers of this server.
    Workers(Arc<Gate>),
    /// A FastCGI application, by its index in the configuration.
    Upstream(usize),
    /// Lua scripts in place of workers; only for requests of web servers.
    Scripts(Arc<LuaState>),
    /// Nothing answers: there are no such pages.
    None,
}

impl Site {
    /// Decides what answers a request, by rules and route.
    pub fn decide(&self, caller: &Caller, request: &Request<()>) -> Decision {
        if self.rules.is_empty() {
            return self.router.find(request.uri());
        }
        let (method, uri, headers) = (request.method(), request.uri(), request.headers());
        let request = RuleRequest { caller, method, uri, headers };
        self.rules.decide(request, None, &self.router)
    }

    /// As [`Site::decide`], for a request whose decoded path a script may have changed.
    pub fn decide_changed(
        &self,
        caller: &Caller,
        parts: &Parts,
        path: Option<Vec<u8>>,
    ) -> Decision {
        let Parts { method, uri, headers, .. } = parts;
        match path {
            _ if !self.rules.is_empty() => {
                self.rules.decide(RuleRequest { caller, method, uri, headers }, path, &self.router)
            }
            Some(path) => self.router.find_decoded(&path, uri.query()),
            None => self.router.find(uri),
        }
    }

    /// Decides what answers for a file that a script has chosen. What the rules refuse below the
    /// root is refused here, too.
    pub fn decide_file(&self, caller: &Caller, parts: &Parts, file: &Path) -> Decision {
        match file.strip_prefix(self.router.root()) {
            Ok(below) if !self.rules.is_empty() => {
                let path = [b"/", below.as_os_str().as_encoded_bytes()].concat();
                match route::clean_decoded(path) {
                    Some(path) => {
                        let Parts { method, uri, headers, .. } = parts;
                        let request = RuleRequest { caller, method, uri, headers };
                        self.rules.decide_located(path, request, &self.router)
                    }
                    None => Decision::of(Target::BadRequest),
                }
            }
            _ => self.router.find_file(file),
        }
    }

    /// The name of the site in the keys of the content cache, if it has its URLs only on some
    /// listening sockets: on others, another site may have them.
    pub fn name_in_keys(&self) -> Option<&str> {
        (!self.config.listen.is_empty()).then_some(&self.config.name)
    }

    /// The name of the site for `SERVER_NAME`: the configured one under which the client reached
    /// it.
    pub fn server_name<'a, B>(&'a self, request: &'a Request<B>) -> &'a str {
        match self.config.hosts.first() {
            Some(name) if !name.starts_with('*') => name,
            other => hosts::host(request)
                .map(strip_port)
                .or(other.map(String::as_str))
                .unwrap_or_default(),
        }
    }
}
