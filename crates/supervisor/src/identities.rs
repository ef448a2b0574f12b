//! The users that the processes of a generation run as. Only root can choose other users, or a
//! process with the capabilities for that.

use std::collections::BTreeMap;
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
    /// Fails if a user or group does not exist, and with [`io::ErrorKind::PermissionDenied`] if a
    /// site has a user of its own that this process cannot change to.
    pub fn of(server: &Server) -> io::Result<Identities> {
        let is_root = process::is_root();
        if !is_root && !process::may_change_users() {
            return Identities::unchanged(server);
        }
        let own = found(server.user.as_ref(), server.group.as_ref())?;
        // Capabilities that the supervisor has are not for those that it starts.
        let own = if is_root { own } else { Some(own.map_or_else(Identity::own, Ok)?) };
        let front = match server.fpm {
            Some(_) => Some(Identity::find(NOBODY, None)?),
            None => own.clone(),
        };
        let site = |site: &Site| match &site.fpm {
            Some(pool) => of_pool(pool),
            None => Ok(of_site(site)?.or_else(|| own.clone())),
        };
        // Their sockets and folders are given to their user, which only root can do.
        let upstream = |upstream: &Upstream| match is_root {
            true => Ok(of_application(upstream)?.or_else(|| own.clone())),
            false => Ok(own.clone()),
        };
        Ok(Identities {
            sites: server.sites.iter().map(site).collect::<io::Result<_>>()?,
            upstreams: server.upstreams.iter().map(upstream).collect::<io::Result<_>>()?,
            front,
        })
    }

    /// The user of one site's processes. Users of other sites are not looked up, so that a site's
    /// user can act for it where another site has a user that this process cannot change to.
    ///
    /// # Errors
    /// As [`Identities::of`], for this site.
    pub fn of_one(server: &Server, site_index: usize) -> io::Result<Option<Identity>> {
        let sites = vec![server.sites[site_index].clone()];
        let alone = Server { sites, upstreams: Vec::new(), ..server.clone() };
        Ok(Identities::of(&alone)?.sites.swap_remove(0))
    }

    /// Those of a process that cannot change its user: all are as the supervisor.
    fn unchanged(server: &Server) -> io::Result<Identities> {
        for site in &server.sites {
            let Some(wanted) = of_site(site)? else { continue };
            let own = Identity::own()?;
            if (wanted.uid(), wanted.gid()) != (own.uid(), own.gid()) {
                let problem = format!(
                    "site {}: its `user` needs a server that is started as root, or with \
                        CAP_SETUID, CAP_SETGID and CAP_KILL",
                    site.name
                );
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
            }
        }
        let (sites, upstreams) =
            (vec![None; server.sites.len()], vec![None; server.upstreams.len()]);
        Ok(Identities { front: None, sites, upstreams })
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
    let identities = match Identities::of(server) {
        Ok(identities) => identities,
        // `tokamak check` may be called by an ordinary user for a server that root starts.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Ok(vec![error.to_string()]);
        }
        Err(error) => return Err(format!("{error}; correct `user` and `group`, or make them")),
    };
    let unwritable = unwritable_temp_dir(server, &identities);
    Ok(unreadable_roots(server, &identities).into_iter().chain(unwritable).collect())
}

/// A line for each site whose files its user, or the front's, does not get at.
fn unreadable_roots(server: &Server, identities: &Identities) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, site) in server.sites.iter().enumerate() {
        let (name, root) = (&site.name, site.root.display());
        let scripts = identities.site(index);
        let mut closed_to = |identity: Option<&Identity>, whose: &str, what: &str| {
            let closed = identity.and_then(|identity| first_closed(identity, &site.root));
            if let (Some(identity), Some(closed)) = (identity, closed) {
                let (uid, closed) = (identity.uid(), closed.display());
                lines.push(format!(
                    "site {name}: {whose} user ({uid}) may not enter {closed}, so {what} of {root} \
                        is served; permit it (chmod o+x, or the group), unless an access control \
                        list does"
                ));
            }
        };
        closed_to(scripts, "its", "nothing");
        // Pools of `tokamak fpm` serve no files.
        if site.fpm.is_none() && scripts != identities.front.as_ref() {
            closed_to(identities.front.as_ref(), "the server's", "no file");
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
    let runs_php: Vec<&Site> =
        server.sites.iter().filter(|site| site.mode != Mode::Fastcgi).collect();
    let is_apart = !runs_php.is_empty() && runs_php.iter().all(|site| site.user.is_some());
    if is_root && server.user.is_none() && !is_apart {
        warnings.push(
            "everything runs as root, so a script can read and change all of this machine; set user"
                .to_owned(),
        );
    } else if is_root && server.user.is_none() {
        warnings.push(
            "requests are read and files are served by root; set user, beside those of the sites"
                .to_owned(),
        );
    }
    let mut users: BTreeMap<Option<&String>, Vec<&str>> = BTreeMap::new();
    for site in runs_php {
        users.entry(site.user.as_ref().or(server.user.as_ref())).or_default().push(&site.name);
    }
    for names in users.into_values().filter(|names| names.len() > 1) {
        let names = names.join(", ");
        warnings.push(format!(
            "these sites run as the same user, so a script of one can read the files of the \
                others and end their processes; where that matters, set a `user` for each of them \
                sites=\"{names}\""
        ));
    }
    warnings
}

/// The identity of a user and group, if they are given.
fn found(user: Option<&String>, group: Option<&String>) -> io::Result<Option<Identity>> {
    user.map(|user| Identity::find(user, group.map(String::as_str))).transpose()
}

fn of_site(site: &Site) -> io::Result<Option<Identity>> {
    found(site.user.as_ref(), site.group.as_ref())
        .map_err(|error| io::Error::new(error.kind(), format!("site {}: {error}", site.name)))
}

fn of_application(upstream: &Upstream) -> io::Result<Option<Identity>> {
    let Some(spawn) = &upstream.spawn else { return Ok(None) };
    found(spawn.user.as_ref(), spawn.group.as_ref()).map_err(|error| {
        io::Error::new(error.kind(), format!("upstream {}: {error}", upstream.name))
    })
}

fn of_pool(pool: &Pool) -> io::Result<Option<Identity>> {
    found(pool.user.as_ref(), pool.group.as_ref())
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
        for user in ["shop", "blog"] {
            server.sites[1].user = Some(user.into());
            assert_eq!(warnings(&server, true), Vec::<String>::new());
        }
        server.sites[0].user = Some("blog".into());
        assert!(warnings(&server, true)[0].ends_with("sites=\"default, other\""));
        server.user = None;
        assert!(warnings(&server, true)[0].starts_with("requests are read"));
        server.sites[0].user = None;
        assert!(warnings(&server, true)[0].starts_with("everything runs as root"));
        server.user = Some("www-data".into());
        server.sites[0].user = Some("www-data".into());
        assert_eq!(warnings(&server, true), Vec::<String>::new());
        server.sites[1].user = None;
        assert!(warnings(&server, true)[0].ends_with("sites=\"default, other\""), "both are it");
        server.sites[0].user = None;
        server.sites[1].user = None;
        server.sites[1].mode = Mode::Fastcgi;
        assert_eq!(warnings(&server, true), Vec::<String>::new());
    }
}
