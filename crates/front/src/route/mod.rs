//! Finds what answers a request target: a file, a script, a redirect, or nothing.
//!
//! The rules are those of the usual `try_files $uri $uri/ /index.php` in front of php-fpm:
//!
//! 1. A segment that ends in `.php` and is an existing file is the script; what follows it is
//!    PATH_INFO. Without such a file the answer is 404, unless the front controller is to answer
//!    for it.
//! 2. A file is sent, unless it could be PHP source.
//! 3. A directory answers with its first index file, `/dir` after a redirect to `/dir/`. One
//!    without an index file is not redirected.
//! 4. Everything else goes to the front controller, without PATH_INFO, or is 404.
//!
//! Before all of them come the site's routes: what lies below the path of one with an upstream is
//! that application's. A route also says, like the site, who is asked first whether a request may
//! be served, and who filters files.
//!
//! Hidden files are 404 or the front controller's, and a path cannot leave the root by its text.
//! Symbolic links are followed, also out of the root: a user who may place them may place files
//! too.
//!
//! At most one system call is made for a path that is not a file, and none for a script that was
//! found within the last second.

mod cache;
pub mod hosts;
mod path;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Uri;
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use tokamak_config::{Filter, Leftover, Route, Site, Split};

use crate::response::files::{self, Found, Opened};
use cache::Cache;

/// The characters that are encoded in the path of a redirect: all that could end the path or the
/// header.
const REDIRECT_PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'\\');

/// What answers a request.
#[derive(Debug)]
pub enum Target {
    /// This file, as it is.
    File(Found),
    /// A script.
    Script(Script),
    /// A FastCGI application, by its index, with the script variables for it.
    Application(Script, usize),
    /// The client is redirected to this path and query.
    Redirect(String),
    /// There is no such file, or it is hidden.
    NotFound,
    /// The file exists, but the server may not read it.
    Forbidden,
    /// The target is invalid.
    BadRequest,
}

/// What answers a request, and which other applications take part.
#[derive(Debug)]
pub struct Decision {
    /// What answers.
    pub target: Target,
    /// The path, decoded and clean. Empty if the target is invalid.
    pub path: Vec<u8>,
    /// The application that authorizes the request, by its index in the configuration.
    pub authorizer: Option<usize>,
    /// The application through which a file is sent.
    pub filter: Option<usize>,
}

/// A script that exists and can be read, and what the path says beyond its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// SCRIPT_FILENAME: where it is.
    pub filename: Arc<Path>,
    /// SCRIPT_NAME: its path below the root, with a slash in front.
    pub script_name: Arc<[u8]>,
    /// PATH_INFO: what follows the script's name in the path, decoded; mostly empty.
    pub path_info: Vec<u8>,
}

/// The routes of one site, for one event loop.
#[derive(Debug)]
pub struct Router {
    root: PathBuf,
    index: Vec<String>,
    front_controller: Option<Vec<u8>>,
    /// The paths without a file that it also answers.
    leftovers: Vec<Leftover>,
    /// The longest path first.
    routes: Vec<Route>,
    /// The application that authorizes requests, unless a route names another one.
    authorizer: Option<usize>,
    /// Only the thread of its loop locks it, so nothing ever waits for it. The lock is there
    /// because the router must be `Sync`.
    scripts: Mutex<Cache>,
}

/// The result of looking for a script on the disk.
enum Look {
    Script(Script),
    Directory,
    Missing,
    Forbidden,
}

impl Router {
    /// The routes of `site`. Symbolic links in the root's own path are resolved only now, so that
    /// all requests of one generation see the same release.
    pub fn new(site: &Site) -> Router {
        Router {
            routes: site.routes.clone(),
            authorizer: site.authorizer,
            leftovers: site.front_controller_for.clone(),
            ..Router::below(&site.root, &site.index, site.front_controller.as_deref())
        }
    }

    fn below(root: &Path, index: &[String], front_controller: Option<&str>) -> Router {
        Router {
            root: root.canonicalize().unwrap_or_else(|_| root.to_owned()),
            index: index.to_vec(),
            front_controller: front_controller
                .map(|script| format!("/{}", script.trim_start_matches('/')).into_bytes()),
            leftovers: Vec::new(),
            routes: Vec::new(),
            authorizer: None,
            scripts: Mutex::default(),
        }
    }

    /// DOCUMENT_ROOT: the root without symbolic links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The route that a URL belongs to, by its index in the configuration. Scripts may have the
    /// request answered by another one.
    pub fn route_of(&self, uri: &Uri) -> Option<usize> {
        if self.routes.is_empty() {
            return None;
        }
        let path = path::resolved(uri.path().as_bytes()).ok()?;
        self.routes.iter().position(|route| is_below(&path, &route.path))
    }

    /// Decides what answers a request for `uri`.
    pub fn find(&self, uri: &Uri) -> Decision {
        self.find_at(uri.path().as_bytes(), uri.query(), tokamak_cost::coarse())
    }

    /// As [`Router::find`], for a decoded path.
    pub fn find_decoded(&self, path: &[u8], query: Option<&str>) -> Decision {
        let encoded = percent_encode(path, REDIRECT_PATH).to_string();
        self.find_at(encoded.as_bytes(), query, tokamak_cost::coarse())
    }

    /// Decides what answers a request for a file anywhere on the disk. A file below the root is
    /// treated as if its path had been requested. Elsewhere only a file that exists and is not PHP
    /// source is sent.
    pub fn find_file(&self, file: &Path) -> Decision {
        if let Ok(below) = file.strip_prefix(&self.root) {
            return self.find_decoded(&[b"/", below.as_os_str().as_bytes()].concat(), None);
        }
        let target = match files::open(file) {
            Ok(Opened::Regular(_)) if path::is_source(file.as_os_str().as_bytes()) => {
                Target::NotFound
            }
            Ok(Opened::Regular(found)) => Target::File(found),
            Err(error) if is_denied(&error) => Target::Forbidden,
            Ok(_) | Err(_) => Target::NotFound,
        };
        Decision { target, path: Vec::new(), authorizer: self.authorizer, filter: None }
    }

    /// Decides what answers for a [clean] path, without regard to the routes.
    ///
    /// [clean]: clean
    pub fn find_plain(&self, path: &[u8]) -> Target {
        match path::refuse_hidden(path) {
            Ok(()) => self.decide(path, None, tokamak_cost::coarse()),
            Err(_) => Target::NotFound,
        }
    }

    fn find_at(&self, encoded: &[u8], query: Option<&str>, now: u64) -> Decision {
        let nothing =
            |target| Decision { target, path: Vec::new(), authorizer: None, filter: None };
        let Ok(path) = path::resolved(encoded) else { return nothing(Target::BadRequest) };
        let is_hidden = path::refuse_hidden(&path).is_err();
        if is_hidden && !self.leftovers.contains(&Leftover::Hidden) {
            return nothing(Target::NotFound);
        }
        let Some(route) = self.routes.iter().find(|route| is_below(&path, &route.path)) else {
            let target =
                if is_hidden { self.front_controller(now) } else { self.decide(&path, query, now) };
            return Decision { authorizer: self.authorizer, path, ..nothing(target) };
        };
        let target = match route.upstream {
            // Hidden names stay hidden, whatever application they are below.
            Some(_) if is_hidden => Target::NotFound,
            None if is_hidden => self.front_controller(now),
            Some(upstream) => self.application(&path, route, upstream),
            None => self.decide(&path, query, now),
        };
        let filter = match (&target, &route.filter) {
            (Target::File(found), Some(filter)) if is_filtered(&found.path, filter) => {
                Some(filter.upstream)
            }
            _ => None,
        };
        Decision { target, path, authorizer: route.authorizer, filter }
    }

    /// The target for a path of a route with an upstream.
    fn application(&self, path: &[u8], route: &Route, upstream: usize) -> Target {
        if route.files
            && !path::is_source(path)
            && let Ok(Opened::Regular(found)) = files::open(&self.full(path))
        {
            return Target::File(found);
        }
        let end = match &route.split {
            Split::Path => route.path.len(),
            Split::Whole => path.len(),
            Split::Extension(extension) => {
                match path::extension_ends(path, extension.as_bytes()).next() {
                    Some(end) => end,
                    None => return Target::NotFound,
                }
            }
        };
        let (script_name, path_info) = path.split_at(end);
        let filename = route.script.clone().unwrap_or_else(|| self.full(script_name));
        let script = Script {
            filename: filename.into(),
            script_name: script_name.into(),
            path_info: path_info.to_vec(),
        };
        Target::Application(script, upstream)
    }

    fn decide(&self, path: &[u8], query: Option<&str>, now: u64) -> Target {
        for end in path::script_ends(path) {
            match self.script(&path[..end], now) {
                Look::Script(script) => {
                    return Target::Script(Script { path_info: path[end..].to_vec(), ..script });
                }
                Look::Directory => {}
                Look::Missing if self.leftovers.contains(&Leftover::Php) => {
                    return self.front_controller(now);
                }
                Look::Missing => return Target::NotFound,
                Look::Forbidden => return Target::Forbidden,
            }
        }
        if path.ends_with(b"/") {
            return match self.index(path, now) {
                Target::NotFound => self.front_controller(now),
                found => found,
            };
        }
        match files::open(&self.full(path)) {
            // Not the front controller, which is for paths without a file.
            Ok(Opened::Regular(_)) if path::is_source(path) => Target::NotFound,
            Ok(Opened::Regular(found)) => Target::File(found),
            Ok(Opened::Directory) => self.directory(path, query, now),
            Ok(Opened::Special) => Target::NotFound,
            Err(error) if is_denied(&error) => Target::Forbidden,
            Err(_) => self.front_controller(now),
        }
    }

    /// The target for a directory whose path lacks the slash at its end. Without an index file
    /// there is no redirect, because the front controller might redirect back.
    fn directory(&self, path: &[u8], query: Option<&str>, now: u64) -> Target {
        let slashed = [path, b"/"].concat();
        match self.index(&slashed, now) {
            Target::NotFound => self.front_controller(now),
            Target::Forbidden => Target::Forbidden,
            // Encoded anew from the clean path: the raw one could be `//evil.example/..`.
            _ => {
                let mut to = percent_encode(&slashed, REDIRECT_PATH).to_string();
                if let Some(query) = query {
                    to.push('?');
                    to.extend(percent_encode(query.as_bytes(), CONTROLS));
                }
                Target::Redirect(to)
            }
        }
    }

    /// The target for a directory's first index file. The directory's path ends with a slash.
    fn index(&self, directory: &[u8], now: u64) -> Target {
        for name in &self.index {
            let path = [directory, name.as_bytes()].concat();
            if path.ends_with(b".php") {
                match self.script(&path, now) {
                    Look::Script(script) => return Target::Script(script),
                    Look::Forbidden => return Target::Forbidden,
                    Look::Directory | Look::Missing => {}
                }
            } else if !path::is_source(&path) {
                match files::open(&self.full(&path)) {
                    Ok(Opened::Regular(found)) => return Target::File(found),
                    Err(error) if is_denied(&error) => return Target::Forbidden,
                    Ok(_) | Err(_) => {}
                }
            }
        }
        Target::NotFound
    }

    fn front_controller(&self, now: u64) -> Target {
        let Some(path) = &self.front_controller else { return Target::NotFound };
        match self.script(path, now) {
            Look::Script(script) => Target::Script(script),
            Look::Directory | Look::Missing => Target::NotFound,
            Look::Forbidden => Target::Forbidden,
        }
    }

    fn script(&self, path: &[u8], now: u64) -> Look {
        if let Some(script) = self.scripts().get(path, now) {
            return Look::Script(script);
        }
        let full = self.full(path);
        match files::open(&full) {
            Ok(Opened::Regular(_)) => {
                let script = Script {
                    filename: full.into(),
                    script_name: path.into(),
                    path_info: Vec::new(),
                };
                self.scripts().put(script.clone(), now);
                Look::Script(script)
            }
            Ok(Opened::Directory) => Look::Directory,
            Ok(Opened::Special) => Look::Missing,
            Err(error) if is_denied(&error) => Look::Forbidden,
            Err(_) => Look::Missing,
        }
    }

    fn scripts(&self) -> MutexGuard<'_, Cache> {
        // A panic under the lock cannot leave the cache half changed.
        self.scripts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn full(&self, path: &[u8]) -> PathBuf {
        let root = self.root.as_os_str().as_bytes();
        PathBuf::from(OsString::from_vec([root.strip_suffix(b"/").unwrap_or(root), path].concat()))
    }
}

/// Decodes and cleans a path as [`Router::find`] does, hidden or not; `None` for an invalid one.
pub fn clean(encoded: &[u8]) -> Option<Vec<u8>> {
    path::resolved(encoded).ok()
}

fn is_filtered(path: &Path, filter: &Filter) -> bool {
    let name = path.as_os_str().as_bytes();
    filter.extensions.is_empty()
        || filter.extensions.iter().any(|end| name.ends_with(end.as_bytes()))
}

/// Whether a path is a route's own, or below it.
pub fn is_below(path: &[u8], route: &str) -> bool {
    let rest = path.strip_prefix(route.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}
