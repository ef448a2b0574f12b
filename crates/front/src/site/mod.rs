//! A site as one event loop sees it: its configuration, and the objects that were made from it at
//! the start.

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
    /// The document root, without symbolic links.
    pub root: Vec<u8>,
    /// Finds files and scripts.
    pub router: Router,
    /// What answers requests for its scripts.
    pub handler: Handler,
    /// The data of the pool's status page, shared by all event loops.
    pub overview: Option<Arc<Overview>>,
    /// The access log of a pool that web servers reach by FastCGI.
    pub journal: Option<Journal>,
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
    Nobody,
}

impl Site {
    /// The name of the site for `SERVER_NAME`: the configured one under which the client reached
    /// it.
    pub fn server_name<'a, B>(&'a self, request: &'a Request<B>) -> &'a str {
        match self.config.hosts.first() {
            Some(name) if !name.starts_with('*') => name,
            _ => hosts::host(request).map_or("", strip_port),
        }
    }
}
