//! Lua: the engine of the server, the state of each event loop, the scripts of a site by their
//! stages, and the clients for other services. How a request passes its scripts is in
//! [`request::script`](crate::request::script).

mod calls;
mod timers;

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokamak_config as config;
use tokamak_lua::{Engine, Limits, LuaState, ScriptError, ScriptId, Stage};

use crate::failure::Failure;
use crate::route;

pub use calls::{Calls, received};

/// The Lua engine of the server, for the scripts of a folder or of the sites; `None` if there are
/// no scripts.
pub fn engine(server: &config::Server, folder: Option<&Path>) -> Option<Engine> {
    let config::Lua { time, total, memory, ref shared } = server.lua;
    let limits = Limits { stretch: time, total, memory };
    if let Some(folder) = folder {
        return Some(Engine::below(limits, shared, folder));
    }
    let scripts: Vec<_> = server.sites.iter().flat_map(|site| site.scripts()).collect();
    if scripts.is_empty() {
        return None;
    }
    Some(Engine::new(limits, shared, &scripts))
}

/// The Lua state of one event loop.
///
/// # Errors
/// Fails if there is not enough memory.
pub fn state(engine: &Engine) -> io::Result<Arc<LuaState>> {
    LuaState::new(engine).map(Arc::new).map_err(io::Error::other)
}

/// The scripts of a site and of its routes.
pub struct SiteHooks {
    own: Hooks,
    /// By the routes' paths, the longest first.
    routes: Vec<(String, Hooks)>,
}

impl SiteHooks {
    /// The scripts of a site. The engine must have been made for its server.
    pub fn new(engine: Option<&Engine>, site: &config::Site) -> SiteHooks {
        let of_route = |route: &config::Route| (route.path.clone(), Hooks::new(engine, &route.lua));
        SiteHooks {
            own: Hooks::new(engine, &site.lua),
            routes: site.routes.iter().map(of_route).collect(),
        }
    }

    /// Whether there are no scripts.
    pub fn is_empty(&self) -> bool {
        self.own.is_empty() && self.routes.iter().all(|(_, hooks)| hooks.is_empty())
    }

    /// The scripts for a path, still percent-encoded.
    pub fn of(&self, path: &str) -> &Hooks {
        self.on(self.route(path))
    }

    /// The index of the route for a path, still percent-encoded.
    pub fn route(&self, path: &str) -> Option<usize> {
        if self.routes.is_empty() {
            return None;
        }
        let path = route::clean(path.as_bytes()).unwrap_or_default();
        self.routes.iter().position(|(route, _)| route::is_below(&path, route))
    }

    /// The scripts of a route.
    pub fn on(&self, route: Option<usize>) -> &Hooks {
        route.map_or(&self.own, |index| &self.routes[index].1)
    }
}

/// Scripts by their stage.
#[derive(Default)]
pub struct Hooks {
    raw_url: Vec<ScriptId>,
    physical: Vec<ScriptId>,
    content: Vec<ScriptId>,
    response: Vec<ScriptId>,
    store: Vec<ScriptId>,
}

impl Hooks {
    fn new(engine: Option<&Engine>, scripts: &config::Scripts) -> Hooks {
        let ids = |paths: &[std::path::PathBuf]| {
            let known = paths.iter().filter_map(|path| engine?.script(path));
            known.collect::<Vec<ScriptId>>()
        };
        Hooks {
            raw_url: ids(&scripts.raw_url),
            physical: ids(&scripts.physical),
            content: ids(&scripts.content),
            response: ids(&scripts.response),
            store: ids(&scripts.store),
        }
    }

    fn is_empty(&self) -> bool {
        self.raw_url.is_empty()
            && self.physical.is_empty()
            && self.content.is_empty()
            && self.response.is_empty()
            && self.store.is_empty()
    }

    /// The scripts of a stage.
    pub fn at(&self, stage: Stage) -> &[ScriptId] {
        match stage {
            Stage::RawUrl => &self.raw_url,
            Stage::Physical => &self.physical,
            Stage::Content => &self.content,
            Stage::Response => &self.response,
            Stage::Store => &self.store,
        }
    }
}

/// The failure for a request whose script failed.
pub fn failure(error: ScriptError) -> Failure {
    match error {
        ScriptError::Error => Failure::Internal,
        ScriptError::TooLong | ScriptError::NoMemory => Failure::ScriptEnded,
    }
}
