//! Finds what answers a request target: a file, a script, a redirect, or nothing.
//!
//! The rules are those of the usual `try_files $uri $uri/ /index.php` in front of php-fpm:
//!
//! 1. A segment that ends in `.php` and is an existing file is the script; what follows it is
//!    PATH_INFO. Without such a file the answer is 404, unless the front controller is to answer
//!    for it.
//! 2. A file is sent, unless it could be PHP source.
//! 3. A directory answers with its first index file, `/dir` after a redirect to `/dir/`. One
//!    without an index file is not redirected, unless the front controller may not answer or the
//!    directory is listed.
//! 4. Everything else goes to the front controller, without PATH_INFO. Without one a directory is
//!    listed, if the site wants that; all else is 404.
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
pub mod canonical;
pub mod hosts;
mod path;
pub mod reading;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{StatusCode, Uri};
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use tokamak_config::{Filter, Leftover, Route, Serve, Site, Split};
use tokamak_upstream::unopened::{self, Unopened};

use crate::failure::Failure;
use crate::push;
use crate::response::files::{self, OpenFile, Opened};
use cache::Cache;

/// The characters that are encoded in the path of a redirect: all that could end the path or the
/// header.
pub const REDIRECT_PATH: &AsciiSet = &CONTROLS
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
    File(OpenFile),
    /// A script.
    Script(Script),
    /// A FastCGI application, by its index, with the script variables for it.
    Application(Script, usize),
    /// The hub of the site.
    Hub,
    /// A page that lists this folder.
    Listing(PathBuf),
    /// The client is redirected to this URL, or path and query, with this status.
    Redirect(String, StatusCode),
    /// There is no such file, or it is hidden.
    NotFound,
    /// A rule says that there is nothing any more.
    Gone,
    /// A folder that is not listed, or what a rule forbids.
    Forbidden,
    /// The file may not be read, cannot be opened now, or is broken: the failure, and the reason
    /// for the log.
    Unreadable(Failure, String),
    /// The target is invalid.
    BadRequest,
}

/// How much of a path is served.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Whether the front controller and scripts are.
    pub serve: Serve,
    /// Whether folders without an index file are listed.
    pub lists: bool,
}

impl Extent {
    /// Files and scripts alone, to see what is there.
    const EXISTING: Extent = Extent { serve: Serve::Existing, lists: false };
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
    /// The rules of the site that ask for a password before, by their positions among these.
    pub login: LoginSet,
    /// The application through which a file is sent.
    pub filter: Option<usize>,
    /// Whether the rules of the site have ended the request: scripts may choose nothing else.
    pub is_final: bool,
}

impl Decision {
    /// This target, without a path and other applications.
    pub fn of(target: Target) -> Decision {
        let (path, authorizer, filter) = (Vec::new(), None, None);
        Decision { target, path, authorizer, login: LoginSet::default(), filter, is_final: false }
    }

    /// The same, by the rules of the site.
    pub fn final_target(target: Target) -> Decision {
        Decision { is_final: true, ..Decision::of(target) }
    }
}

/// Rules that ask for a password, as bits, so that a [`Decision`] stays small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoginSet(u32);

impl LoginSet {
    /// Adds the rule at this position. The configuration has at most 32 of them.
    pub fn insert(&mut self, position: u32) {
        self.0 |= 1 << position.min(u32::BITS - 1);
    }

    /// Whether no rule asks for a password.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of them are also in another set.
    pub fn is_within(self, other: LoginSet) -> bool {
        self.0 & !other.0 == 0
    }

    /// The positions.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..u32::BITS).filter(move |position| self.0 >> position & 1 == 1).map(|it| it as usize)
    }
}

/// A script that exists and can be read, and what the path says beyond its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// SCRIPT_FILENAME: where it is.
    pub filename: Arc<Path>,
    /// SCRIPT_NAME: its path below the root, with a slash in front.
    pub script_name: Arc<[u8]>,
    /// What most requests do not have. It is apart so that a [`Decision`] stays small.
    rest: Option<Box<Rest>>,
}

/// Further variables of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rest {
    path_info: Vec<u8>,
    query: Option<String>,
    upstream_path: Option<String>,
}

impl Script {
    /// A script by its file and its name, without PATH_INFO.
    pub fn named(filename: Arc<Path>, name: &[u8]) -> Script {
        Script { filename, script_name: name.into(), rest: None }
    }

    /// The same with this PATH_INFO.
    pub fn with_path_info(mut self, path_info: &[u8]) -> Script {
        if !path_info.is_empty() {
            self.rest.get_or_insert_default().path_info = path_info.to_vec();
        }
        self
    }

    /// Gives it another query than that of the request's target.
    pub fn set_query(&mut self, query: String) {
        self.rest.get_or_insert_default().query = Some(query);
    }

    /// The path that was found: the script's name, and what follows it.
    pub fn path(&self) -> Cow<'_, [u8]> {
        match self.path_info() {
            b"" => Cow::Borrowed(&self.script_name),
            path_info => Cow::Owned([&self.script_name[..], path_info].concat()),
        }
    }

    /// PATH_INFO: what follows the script's name in the path, decoded; mostly empty.
    pub fn path_info(&self) -> &[u8] {
        self.rest.as_ref().map_or(&[], |rest| &rest.path_info)
    }

    /// Has an application of HTTP asked for this path in place of the script's name.
    pub fn set_upstream_path(&mut self, path: String) {
        self.rest.get_or_insert_default().upstream_path = Some(path);
    }

    /// What an application of HTTP is asked for in place of the script's name, if not for that.
    pub fn upstream_path(&self) -> Option<&str> {
        self.rest.as_ref()?.upstream_path.as_deref()
    }

    /// QUERY_STRING, if a rule has changed it.
    pub fn query(&self) -> Option<&str> {
        self.rest.as_ref()?.query.as_deref()
    }
}

/// The routes of one site, for one event loop.
#[derive(Debug)]
pub struct Router {
    /// The path under which the site is mounted; mostly empty.
    mount: Vec<u8>,
    root: PathBuf,
    index: Vec<String>,
    /// Whether folders without an index file are listed, where no rule says otherwise.
    lists: bool,
    front_controller: Option<Vec<u8>>,
    /// The paths without a file that it also answers.
    leftovers: Vec<Leftover>,
    /// The longest path first.
    routes: Vec<Route>,
    /// The application that authorizes requests, unless a route names another one.
    authorizer: Option<usize>,
    /// Whether the site has a hub.
    has_hub: bool,
    /// The thread of its loop locks it, and those that list folders, for no longer than it takes
    /// to look into the map.
    scripts: Mutex<Cache>,
}

/// The pages that an application could show for a script with PATH_INFO, by their paths within the
/// site.
#[derive(Debug)]
pub struct Pages {
    /// PATH_INFO below the folder of the script.
    pub in_folder: Vec<u8>,
    /// PATH_INFO alone.
    pub at_root: Vec<u8>,
    /// Whether the script is the site's front controller.
    pub is_front_controller: bool,
}

/// The result of looking for a script on the disk.
enum ScriptLookup {
    Script(Script),
    Directory,
    Missing,
    /// It cannot be opened.
    Refused(Target),
}

impl Router {
    /// The routes of `site`. Symbolic links in the root's own path are resolved only now, so that
    /// all requests of one generation see the same release.
    pub fn new(site: &Site) -> Router {
        Router {
            mount: site.path.clone().into_bytes(),
            lists: site.index_listing,
            routes: site.routes.clone(),
            authorizer: site.authorizer,
            leftovers: site.front_controller_for.clone(),
            has_hub: site.mercure.is_some(),
            ..Router::below(&site.root, &site.index, site.front_controller.as_deref())
        }
    }

    fn below(root: &Path, index: &[String], front_controller: Option<&str>) -> Router {
        Router {
            mount: Vec::new(),
            root: root.canonicalize().unwrap_or_else(|_| root.to_owned()),
            index: index.to_vec(),
            lists: false,
            front_controller: front_controller
                .map(|script| format!("/{}", script.trim_start_matches('/')).into_bytes()),
            leftovers: Vec::new(),
            routes: Vec::new(),
            authorizer: None,
            has_hub: false,
            scripts: Mutex::default(),
        }
    }

    /// DOCUMENT_ROOT: the root without symbolic links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// How much is served where no rule says otherwise.
    pub fn extent(&self) -> Extent {
        Extent { serve: Serve::All, lists: self.lists }
    }

    /// The path under which the site is mounted in others; mostly empty.
    pub fn mount(&self) -> &[u8] {
        &self.mount
    }

    /// A [clean] path as it is within the site: for a mounted site, what follows its own path.
    ///
    /// [clean]: clean
    ///
    /// # Errors
    /// Returns the answer for the path itself, which lacks the slash at its end, and for paths that
    /// are not below it.
    pub fn inner(&self, mut path: Vec<u8>, query: Option<&str>) -> Result<Vec<u8>, Target> {
        if self.mount.is_empty() {
            return Ok(path);
        }
        match path.strip_prefix(&*self.mount) {
            Some(b"") => Err(redirect(&[&self.mount, &b"/"[..]].concat(), query)),
            Some([b'/', ..]) => Ok(path.split_off(self.mount.len())),
            _ => Err(Target::NotFound),
        }
    }

    /// A path within the site as clients see it.
    pub fn outer<'a>(&self, path: &'a [u8]) -> Cow<'a, [u8]> {
        match self.mount.is_empty() {
            true => path.into(),
            false => [&self.mount, path].concat().into(),
        }
    }

    /// The route that a URL belongs to, by its index in the configuration. Scripts may have the
    /// request answered by another one.
    pub fn route_of(&self, uri: &Uri) -> Option<usize> {
        if self.routes.is_empty() {
            return None;
        }
        let path = path::resolved(uri.path().as_bytes()).ok()?;
        let path = self.inner(path, None).ok()?;
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

    /// Decides what answers for a [clean] path, hidden or not, of which rules say how much is
    /// served.
    ///
    /// [clean]: clean
    pub fn find_clean(&self, path: Vec<u8>, query: Option<&str>, extent: Extent) -> Decision {
        self.find_cleaned(path, query, extent, tokamak_cost::coarse())
    }

    /// Whether the site has a file or a script of a [clean] path, or a directory if these count:
    /// if not, there is no script either of which a path only begins with the name.
    ///
    /// [clean]: clean
    pub fn has(&self, path: &[u8], directories_count: bool) -> bool {
        if path::refuse_hidden(path).is_err() || (!directories_count && path.ends_with(b"/")) {
            return false;
        }
        match self.decide(path, None, Extent::EXISTING, tokamak_cost::coarse()) {
            Target::NotFound => false,
            // That of a directory whose path lacks the slash.
            Target::Redirect(..) => directories_count,
            Target::Script(script) => directories_count || script.path_info().is_empty(),
            _ => true,
        }
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
            Err(error) => refused(file, &error).unwrap_or(Target::NotFound),
            Ok(_) => Target::NotFound,
        };
        Decision { authorizer: self.authorizer, ..Decision::of(target) }
    }

    /// Decides what answers for a [clean] path, without regard to the routes.
    ///
    /// [clean]: clean
    pub fn find_plain(&self, path: &[u8]) -> Target {
        match path::refuse_hidden(path) {
            Ok(()) => self.decide(path, None, self.extent(), tokamak_cost::coarse()),
            Err(_) => Target::NotFound,
        }
    }

    fn find_at(&self, encoded: &[u8], query: Option<&str>, now: u64) -> Decision {
        match path::resolved(encoded) {
            Ok(path) => match self.inner(path, query) {
                Ok(path) => self.find_cleaned(path, query, self.extent(), now),
                Err(target) => Decision::of(target),
            },
            Err(_) => Decision::of(Target::BadRequest),
        }
    }

    fn find_cleaned(
        &self,
        path: Vec<u8>,
        query: Option<&str>,
        extent: Extent,
        now: u64,
    ) -> Decision {
        let is_hidden = path::refuse_hidden(&path).is_err();
        if is_hidden && !self.leftovers.contains(&Leftover::Hidden) {
            return Decision::of(Target::NotFound);
        }
        let route = self.routes.iter().find(|route| is_below(&path, &route.path));
        if self.has_hub && path == push::PATH.as_bytes() {
            let authorizer = route.map_or(self.authorizer, |route| route.authorizer);
            return Decision { authorizer, path, ..Decision::of(Target::Hub) };
        }
        let Some(route) = route else {
            let target = match is_hidden {
                true => self.front_controller(extent.serve, now),
                false => self.decide(&path, query, extent, now),
            };
            return Decision { authorizer: self.authorizer, path, ..Decision::of(target) };
        };
        let target = match route.upstream {
            // Hidden names stay hidden, whatever application they are below.
            Some(_) if is_hidden => Target::NotFound,
            None if is_hidden => self.front_controller(extent.serve, now),
            Some(upstream) => self.application(&path, route, upstream),
            None => self.decide(&path, query, extent, now),
        };
        let filter = match (&target, &route.filter) {
            (Target::File(found), Some(filter)) if is_filtered(&found.path, filter) => {
                Some(filter.upstream)
            }
            _ => None,
        };
        let authorizer = route.authorizer;
        Decision { target, path, authorizer, login: LoginSet::default(), filter, is_final: false }
    }

    /// The target for a path of a route with an upstream.
    fn application(&self, path: &[u8], route: &Route, upstream: usize) -> Target {
        if route.files && !path::is_source(path) {
            let full = self.full(path);
            match files::open(&full) {
                Ok(Opened::Regular(found)) => return Target::File(found),
                Ok(_) => {}
                // What the server may not read is the application's to answer for.
                Err(error) => {
                    if let Some(Target::Unreadable(failure, reason)) = refused(&full, &error)
                        && failure != Failure::Forbidden
                    {
                        return Target::Unreadable(failure, reason);
                    }
                }
            }
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
        let mut script =
            Script::named(filename.into(), &self.outer(script_name)).with_path_info(path_info);
        if let Some(path) = &route.upstream_path {
            script.set_upstream_path(path.clone());
        }
        Target::Application(script, upstream)
    }

    fn decide(&self, path: &[u8], query: Option<&str>, extent: Extent, now: u64) -> Target {
        for end in path::script_ends(path) {
            match self.script(&path[..end], now) {
                ScriptLookup::Script(script) => {
                    return Target::Script(script.with_path_info(&path[end..]));
                }
                ScriptLookup::Directory => {}
                ScriptLookup::Missing if self.leftovers.contains(&Leftover::Php) => {
                    return self.front_controller(extent.serve, now);
                }
                ScriptLookup::Missing => return Target::NotFound,
                ScriptLookup::Refused(target) => return target,
            }
        }
        if path.ends_with(b"/") {
            return match self.index(path, now) {
                Target::NotFound => self.without_index(path, extent, now),
                found => found,
            };
        }
        let full = self.full(path);
        match files::open(&full) {
            // Not the front controller, which is for paths without a file.
            Ok(Opened::Regular(_)) if path::is_source(path) => Target::NotFound,
            Ok(Opened::Regular(found)) => Target::File(found),
            Ok(Opened::Directory) => self.directory(path, query, extent, now),
            Ok(Opened::Special) => Target::NotFound,
            Err(error) => {
                refused(&full, &error).unwrap_or_else(|| self.front_controller(extent.serve, now))
            }
        }
    }

    /// The target for a path with a slash at its end, if there is no index file: the front
    /// controller, else the folder's list. Unless `index_listing` is on, clients may not learn what
    /// the folder contains.
    fn without_index(&self, path: &[u8], extent: Extent, now: u64) -> Target {
        match self.front_controller(extent.serve, now) {
            Target::NotFound if extent.lists || extent.serve != Serve::All => {}
            found => return found,
        }
        let folder = self.full(path);
        match files::open(&folder) {
            Ok(Opened::Directory) if extent.lists => Target::Listing(folder),
            Ok(Opened::Directory) => Target::Forbidden,
            Err(error) => refused(&folder, &error).unwrap_or(Target::NotFound),
            Ok(_) => Target::NotFound,
        }
    }

    /// The target for a directory whose path lacks the slash at its end. If the front controller
    /// answers for it, there is no redirect, because that might redirect back.
    fn directory(&self, path: &[u8], query: Option<&str>, extent: Extent, now: u64) -> Target {
        let slashed = [path, b"/"].concat();
        match self.index(&slashed, now) {
            Target::NotFound if extent.serve == Serve::All => {
                match self.front_controller(extent.serve, now) {
                    Target::NotFound if extent.lists => redirect(&self.outer(&slashed), query),
                    found => found,
                }
            }
            refused @ (Target::Forbidden | Target::Unreadable(..)) => refused,
            _ => redirect(&self.outer(&slashed), query),
        }
    }

    /// The target for a directory's first index file. The directory's path ends with a slash.
    fn index(&self, directory: &[u8], now: u64) -> Target {
        for name in &self.index {
            let path = [directory, name.as_bytes()].concat();
            if path.ends_with(b".php") {
                match self.script(&path, now) {
                    ScriptLookup::Script(script) => return Target::Script(script),
                    ScriptLookup::Refused(target) => return target,
                    ScriptLookup::Directory | ScriptLookup::Missing => {}
                }
            } else if !path::is_source(&path) {
                let full = self.full(&path);
                match files::open(&full) {
                    Ok(Opened::Regular(found)) => return Target::File(found),
                    Ok(_) => {}
                    Err(error) => {
                        if let Some(target) = refused(&full, &error) {
                            return target;
                        }
                    }
                }
            }
        }
        Target::NotFound
    }

    /// The path of the index file within the site, if `target` is the one of the directory `path`.
    pub fn index_of(&self, path: &[u8], target: &Target) -> Option<Vec<u8>> {
        let file = match target {
            Target::Script(script) => script.script_name.strip_prefix(&*self.mount)?,
            Target::File(found) => {
                let root = self.root.as_os_str().as_bytes();
                let root = root.strip_suffix(b"/").unwrap_or(root);
                found.path.as_os_str().as_bytes().strip_prefix(root)?
            }
            _ => return None,
        };
        let name = file.strip_prefix(path).filter(|_| path.ends_with(b"/"))?;
        self.index.iter().any(|own| own.as_bytes() == name).then(|| file.to_vec())
    }

    /// The pages that the application could show in answer to `path`, if that names a script of the
    /// site with PATH_INFO. The path of a route with an upstream is no script's name.
    pub fn pages_by_path_info(&self, path: &[u8], target: &Target) -> Option<Pages> {
        let script = match target {
            Target::Script(script) => script,
            Target::Application(script, _) => {
                let route = self.routes.iter().find(|route| is_below(path, &route.path))?;
                Some(script).filter(|_| matches!(route.split, Split::Extension(_)))?
            }
            _ => return None,
        };
        let info = Some(script.path_info()).filter(|info| !info.is_empty())?;
        let name = script.script_name.strip_prefix(&*self.mount)?;
        let folder = &name[..memchr::memrchr(b'/', name)?];
        let is_front_controller = self.front_controller.as_deref() == Some(name);
        Some(Pages {
            in_folder: [folder, info].concat(),
            at_root: info.to_vec(),
            is_front_controller,
        })
    }

    fn front_controller(&self, serve: Serve, now: u64) -> Target {
        if serve != Serve::All {
            return Target::NotFound;
        }
        let Some(path) = &self.front_controller else { return Target::NotFound };
        match self.script(path, now) {
            ScriptLookup::Script(script) => Target::Script(script),
            ScriptLookup::Directory | ScriptLookup::Missing => Target::NotFound,
            ScriptLookup::Refused(target) => target,
        }
    }

    fn script(&self, path: &[u8], now: u64) -> ScriptLookup {
        if let Some(script) = self.scripts().get(path, now) {
            return ScriptLookup::Script(script);
        }
        let full = self.full(path);
        match files::open(&full) {
            Ok(Opened::Regular(_)) => {
                let script = Script::named(full.into(), &self.outer(path));
                let key =
                    if self.mount.is_empty() { script.script_name.clone() } else { path.into() };
                self.scripts().put(key, script.clone(), now);
                ScriptLookup::Script(script)
            }
            Ok(Opened::Directory) => ScriptLookup::Directory,
            Ok(Opened::Special) => ScriptLookup::Missing,
            Err(error) => {
                refused(&full, &error).map_or(ScriptLookup::Missing, ScriptLookup::Refused)
            }
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

/// The redirect to a path. It is encoded anew from the clean path: the raw one could be
/// `//evil.example/..`.
fn redirect(path: &[u8], query: Option<&str>) -> Target {
    let mut to = percent_encode(path, REDIRECT_PATH).to_string();
    if let Some(query) = query {
        to.push('?');
        to.extend(percent_encode(query.as_bytes(), CONTROLS));
    }
    Target::Redirect(to, StatusCode::MOVED_PERMANENTLY)
}

/// Decodes and cleans a path as [`Router::find`] does, hidden or not; `None` for an invalid one.
pub fn clean(encoded: &[u8]) -> Option<Vec<u8>> {
    path::resolved(encoded).ok()
}

/// Cleans a decoded path as [`Router::find`] does, hidden or not; `None` for an invalid one.
pub fn clean_decoded(path: Vec<u8>) -> Option<Vec<u8>> {
    path::resolved_plain(path).ok()
}

/// Whether an encoded path has a segment `..`.
pub fn climbs(encoded: &[u8]) -> bool {
    path::climbs(encoded)
}

/// Whether a file of this name could hold source code, which is never sent.
pub fn is_source(path: &[u8]) -> bool {
    path::is_source(path)
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

/// What answers for a file that cannot be opened; `None`: it does not exist.
fn refused(path: &Path, error: &io::Error) -> Option<Target> {
    match Unopened::of(error) {
        Unopened::Missing => None,
        unopened => Some(Target::Unreadable(unopened.into(), unopened::reason(path, error))),
    }
}
