//! Answers with the list of a folder. It has what a client could get from here, and nothing else:
//! each name is looked up as if the client had asked for it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use http::request::Parts;
use http::{Method, Request, Response};
use tokamak_upstream::unopened::{Explained, Unopened};
use tokio::sync::Semaphore;

use crate::backend::Arrival;
use crate::failure::Failure;
use crate::response::listing::{self, Entry, Folder, LeftOut};
use crate::response::{Source, files};
use crate::route::{self, Decision, Target};
use crate::site::rules::RuleRequest;
use crate::site::{Handler, Site};

/// Names in one list. With ten times as many, a page would take a second to make; with a tenth,
/// ordinary folders of downloads would not be whole.
const MOST: usize = 2_000;

/// Names that are read of a folder, to choose the first ones and to count the others. Ten times as
/// many would keep a thread busy for a second.
const MOST_READ: usize = 200_000;

/// At most this many folders are read at the same time. Reading one occupies a thread, so a client
/// that asks for large folders again and again keeps two threads busy and no more.
static THREADS: Semaphore = Semaphore::const_new(2);

/// The response to a request for the list of a folder, whose path within the site is `path`.
///
/// # Errors
/// Fails if the method is not allowed, or if the folder cannot be read.
pub async fn respond(
    arrival: Arrival<'_>,
    request: &Request<()>,
    path: Vec<u8>,
    folder: &Path,
) -> Result<Response<Source>, Failure> {
    match *request.method() {
        Method::GET | Method::HEAD => {}
        Method::OPTIONS => return Ok(files::options()),
        _ => return Err(arrival.log_failure(Failure::MethodNotAllowed.into(), request)),
    }
    let is_elsewhere = !request.uri().path().ends_with('/');
    let (context, index) = (arrival.context.clone(), arrival.site.index);
    let (caller, folder) = (arrival.caller.detached(), folder.to_owned());
    let (parts, ()) = request.clone().into_parts();
    let permit = THREADS.acquire().await.map_err(|_| Failure::Internal)?;
    // Reading may take long, as from a slow disk, and each name is looked up.
    let made = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let site = &context.sites[index];
        let (entries, left_out) = {
            let Parts { method, uri, headers, .. } = &parts;
            let request = RuleRequest { caller: &caller, method, uri, headers };
            read(site, request, &path, &folder)?
        };
        let shown = site.router.outer(&path);
        let folder = Folder { path: &shown, has_parent: path != b"/", is_elsewhere };
        Ok(listing::page(folder, &entries, left_out))
    });
    let made = made.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    let page = made.map_err(|error: io::Error| {
        let failure = Failure::from(Unopened::of(&error));
        let reason = format!("the folder cannot be listed: {}", Explained(&error)).into();
        arrival.log_failure(crate::backend::BackendError { failure, reason }, request)
    })?;
    let mut response = Response::new(Source::Whole(page.into()));
    *response.headers_mut() = listing::headers();
    Ok(response)
}

/// Whether it is no folder, and its name: in the order of the list.
type Name = (bool, Vec<u8>);

/// What is listed of a folder.
fn read(
    site: &Site,
    request: RuleRequest<'_>,
    path: &[u8],
    folder: &Path,
) -> io::Result<(Vec<Entry>, LeftOut)> {
    let (names, left_out) = names(folder)?;
    let own = site.rules.decide_located(path.to_vec(), request, &site.router);
    let entries = names.into_iter().filter_map(|(is_file, name)| {
        let slash: &[u8] = if is_file { b"" } else { b"/" };
        let decision =
            site.rules.decide_located([path, &name, slash].concat(), request, &site.router);
        let (len, modified) = shown(site, &own, decision, &folder.join(OsStr::from_bytes(&name)))?;
        Some(Entry { is_file, name, len, modified })
    });
    Ok((entries.collect(), left_out))
}

/// The first names of a folder, without those that are never sent, whatever rules say. Folders come
/// first.
fn names(folder: &Path) -> io::Result<(BTreeSet<Name>, LeftOut)> {
    let mut names = BTreeSet::new();
    let mut left_out = LeftOut::default();
    for (number, entry) in fs::read_dir(folder)?.enumerate() {
        if number == MOST_READ {
            left_out.has_more = true;
            break;
        }
        let entry = entry?;
        let name = entry.file_name().into_vec();
        // A path with a control character gets no list.
        if name.starts_with(b".") || name.iter().any(u8::is_ascii_control) {
            continue;
        }
        let kind = entry.file_type()?;
        let is_folder = kind.is_dir() || (kind.is_symlink() && entry.path().is_dir());
        if !is_folder && route::is_source(&name) && !name.ends_with(b".php") {
            continue;
        }
        names.insert((!is_folder, name));
        if names.len() > MOST {
            names.pop_last();
            left_out.count += 1;
        }
    }
    Ok((names, left_out))
}

/// The length of a file or folder and the time of its change, if the client of the list gets
/// something by its name: `own` answered for the list, `decision` is for the name. A password or an
/// authorizer that the list itself did not need hides the name.
fn shown(site: &Site, own: &Decision, decision: Decision, file: &Path) -> Option<(u64, i64)> {
    let is_let_in = decision.login.is_within(own.login) && decision.authorizer == own.authorizer;
    let of_file = |meta: fs::Metadata| (meta.len(), meta.mtime());
    match decision.target {
        _ if !is_let_in => None,
        Target::File(found) => Some((found.len, found.modified)),
        Target::Script(_) if matches!(site.handler, Handler::None) => None,
        Target::Script(_) | Target::Listing(_) => fs::metadata(file).ok().map(of_file),
        // What a route gives to an application is not what lies in the folder.
        Target::Application(..)
        | Target::Hub
        | Target::Redirect(..)
        | Target::NotFound
        | Target::Gone
        | Target::Forbidden
        | Target::Unreadable(..)
        | Target::BadRequest => None,
    }
}
