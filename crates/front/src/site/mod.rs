//! A site as one event loop sees it: its configuration, and all that was made of it at the start.

use std::sync::Arc;

use http::Request;
use tokamak_config as config;
use tokamak_lua::LuaState;
use tokamak_upstream::shm::Gate;

use crate::cache::SiteCachePolicies;
use crate::fpm::{Journal, Overview};
use crate::lua::SiteHooks;
use crate::route::Router;
use crate::route::hosts::{self, strip_port};

/// A site.
pub struct Site {
    /// Its position in the configuration.
    pub index: usize,
    /// Its configuration.
    pub config: Arc<config::Site>,
    /// The scripts that see its requests.
    pub hooks: SiteHooks,
    /// Which of its responses are kept in the content cache.
    pub caching: SiteCachePolicies,
    /// The document root, without symbolic links.
    pub root: Vec<u8>,
    /// Finds files and scripts.
    pub router: Router,
    /// Who runs its scripts.
    pub handler: Handler,
    /// What the status page of such a pool shows; shared by all event loops.
    pub overview: Option<Arc<Overview>>,
    /// The access log of a pool that web servers reach by FastCGI.
    pub journal: Option<Journal>,
    /// The site whose application gets what this site's workers are not for.
    pub fallback: Option<usize>,
}

/// Who answers what is for an application.
#[derive(Clone)]
pub enum Handler {
    /// Workers of this server.
    Workers(Arc<Gate>),
    /// A FastCGI application, by its position in the configuration.
    Upstream(usize),
    /// Lua scripts in the place of programs, for web servers alone.
    Scripts(Arc<LuaState>),
    /// Nobody: there is no such page.
    Nobody,
}

impl Site {
    /// The name under which the client reached the site, as `SERVER_NAME` tells it: the configured
    /// one.
    pub fn server_name<'a, B>(&'a self, request: &'a Request<B>) -> &'a str {
        match self.config.hosts.first() {
            Some(name) if !name.starts_with('*') => name,
            _ => hosts::host(request).map_or("", strip_port),
        }
    }
}
