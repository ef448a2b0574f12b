//! The users that the processes of a generation run as. Only root can choose another user.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tokamak_config::{Mode, Server, Site, Upstream};
use tokamak_fpm::Pool;
use tokamak_sys::process::{self, Identity};

/// The user that serves connections for pools of several users. None of them may be able to signal
/// or read that process.
const NOBODY: &str = "nobody";

/// The permissions of a folder to enter it, and to make files in it.
const ENTER: u32 = 0o1;
const WRITE: u32 = 0o2;

/// Users and groups of the front, of each site's workers and of each application; absent: as the
/// supervisor.
#[derive(Clone, Debug)]
pub struct Identities {
    /// The front's.
    pub front: Option<Identity>,
    sites: Vec<Option<Identity>>,
    upstreams: Vec<Option<Identity>>,
}

impl Identities {
    /// The users that the configuration asks for.
    ///
    /// # Errors
    /// Fails if a user or group does not exist.
    pub fn of(server: &Server) -> io::Result<Identities> {
        if !process::is_root() {
            let (sites, upstreams) =
                (vec![None; server.sites.len()], vec![None; server.upstreams.len()]);
            return Ok(Identities { front: None, sites, upstreams });
        }
        let own = server
            .user
            .as_ref()
            .map(|user| Identity::find(user, server.group.as_deref()))
            .transpose()?;
        let front = match server.fpm {
            Some(_) => Some(Identity::find(NOBODY, None)?),
            None => own.clone(),
        };
        let site = |site: &Site| match &site.fpm {
            Some(pool) => of_pool(pool),
            None => Ok(own.clone()),
        };
        let upstream = |upstream: &Upstream| Ok(of_application(upstream)?.or_else(|| own.clone()));
        Ok(Identities {
            sites: server.sites.iter().map(site).collect::<io::Result<_>>()?,
            upstreams: server.upstreams.iter().map(upstream).collect::<io::Result<_>>()?,
            front,
        })
    }

    /// Those of a site's workers.
    pub fn site(&self, site_index: usize) -> Option<&Identity> {
        self.sites[site_index].as_ref()
    }

    /// That of an upstream's processes, if it is started here.
    pub fn upstream(&self, upstream_index: usize) -> Option<&Identity> {
        self.upstreams[upstream_index].as_ref()
    }
}

/// Looks up the users of a configuration, as its start would. What an operator should know about
/// the folders that they cannot enter.
///
/// # Errors
/// Fails if a user or group does not exist.
pub fn verify(server: &Server) -> Result<Vec<String>, String> {
    let found = Identities::of(server)
        .map_err(|error| format!("{error}; correct `user` and `group`, or make them"))?;
    let unwritable = unwritable_temp_dir(server, &found);
    Ok(unreadable_roots(server, &found).into_iter().chain(unwritable).collect())
}

/// A line for each site whose files its user does not get at.
fn unreadable_roots(server: &Server, identities: &Identities) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, site) in server.sites.iter().enumerate() {
        let Some(identity) = identities.site(index) else { continue };
        if let Some(closed) = first_closed(identity, &site.root) {
            let (name, root, closed) = (&site.name, site.root.display(), closed.display());
            let uid = identity.uid();
            lines.push(format!(
                "site {name}: its user ({uid}) may not enter {closed}, so nothing of {root} is \
                    served; permit it (chmod o+x, or the group), unless an access control list does"
            ));
        }
    }
    lines
}

/// Says that the server's user may not make files in the folder for them.
fn unwritable_temp_dir(server: &Server, identities: &Identities) -> Option<String> {
    let (identity, folder) = (identities.front.as_ref()?, server.temp_dir.as_ref()?);
    let closed = first_closed(identity, folder)
        .or_else(|| Some(folder.clone()).filter(|folder| lacks(identity, folder, WRITE)))?;
    Some(format!(
        "temp_dir: the server's user ({}) may not make files in {}, because of the permissions of \
            {}; permit it (chown, chmod), unless an access control list does",
        identity.uid(),
        folder.display(),
        closed.display(),
    ))
}

/// The first folder on the way to this one that its permissions close to a user.
fn first_closed(identity: &Identity, folder: &Path) -> Option<PathBuf> {
    let real = fs::canonicalize(folder).ok()?;
    let mut way: Vec<&Path> = real.ancestors().filter(|folder| folder.is_dir()).collect();
    way.reverse();
    way.into_iter().find(|folder| lacks(identity, folder, ENTER)).map(Path::to_owned)
}

/// Whether a folder's permissions lack this one for a user.
fn lacks(identity: &Identity, folder: &Path, permission: u32) -> bool {
    let Ok(found) = fs::metadata(folder) else { return false };
    let is_of_group = identity.gid() == found.gid() || identity.groups().contains(&found.gid());
    let bit = match (identity.uid() == found.uid(), is_of_group) {
        (true, _) => permission << 6,
        (false, true) => permission << 3,
        (false, false) => permission,
    };
    identity.uid() != 0 && found.mode() & bit == 0
}

/// What an operator should know about the users of the processes. php-fpm refuses what it does not
/// like, and warns of nothing.
pub fn warnings(server: &Server, is_root: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    if server.fpm.is_some() {
        return warnings;
    }
    let sites = server.sites.iter().filter(|site| site.mode != Mode::Fastcgi);
    let names: Vec<&str> = sites.map(|site| site.name.as_str()).collect();
    if is_root && server.user.is_none() {
        warnings.push(
            "everything runs as root, so a script can read and change all of this machine; set user"
                .to_owned(),
        );
    }
    if names.len() > 1 {
        let names = names.join(", ");
        warnings.push(format!(
            "these sites run as the same user, so a script of one can read the files of the \
                others and end \
             their processes; start a server for each where that matters sites=\"{names}\""
        ));
    }
    warnings
}

fn of_application(upstream: &Upstream) -> io::Result<Option<Identity>> {
    let Some(spawn) = &upstream.spawn else { return Ok(None) };
    let found =
        spawn.user.as_ref().map(|user| Identity::find(user, spawn.group.as_deref())).transpose();
    found.map_err(|error| {
        io::Error::new(error.kind(), format!("upstream {}: {error}", upstream.name))
    })
}

fn of_pool(pool: &Pool) -> io::Result<Option<Identity>> {
    pool.user.as_ref().map(|user| Identity::find(user, pool.group.as_deref())).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::server;

    #[test]
    fn warns_of_root_and_of_a_user_of_several_sites() {
        let mut server = server(Path::new("/"));
        assert_eq!(warnings(&server, false), Vec::<String>::new());
        assert!(warnings(&server, true)[0].starts_with("everything runs as root"));
        server.user = Some("www-data".into());
        assert_eq!(warnings(&server, true), Vec::<String>::new());
        let mut other = server.sites[0].clone();
        other.name = "other".into();
        server.sites.push(other);
        assert!(warnings(&server, true)[0].ends_with("sites=\"default, other\""));
        server.sites[1].mode = Mode::Fastcgi;
        assert_eq!(warnings(&server, true), Vec::<String>::new());
    }
}
