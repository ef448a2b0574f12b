//! Certificates for the names of this machine, which an authority of its own signs. The supervisor
//! makes them: that takes a millisecond and no network, and the key of the authority is then known
//! to root's processes only. They are files, so that they come into use as all others do.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use tokamak_authority::{Authority, pair_path, root_path};
use tokamak_config::{CertificateFiles, Server};

use crate::log::{self, Level};
use crate::watch::since;

/// Time between two looks at how long they last. They are renewed a month before their end, so a
/// day would do, too; but a laptop that sleeps counts no time.
const LOOK_EVERY: Duration = Duration::from_secs(3600);

/// The names that have certificates of the authority, each with its state directory.
#[derive(Debug, Default)]
pub struct Local {
    names: BTreeSet<(PathBuf, String)>,
    looked: u64,
}

impl Local {
    /// Makes sure that the names of a configuration have certificates that last.
    ///
    /// # Errors
    /// Fails if the state directory cannot be used.
    pub fn prepare(&mut self, server: &Server, clock: Duration) -> Result<(), String> {
        let names: BTreeSet<_> = names(server).collect();
        ensure(&names, clock)?;
        self.names.extend(names);
        Ok(())
    }

    /// Forgets the names that none of these configurations has.
    pub fn keep(&mut self, servers: &[&Server]) {
        let needed: BTreeSet<_> = servers.iter().flat_map(|server| names(server)).collect();
        self.names.retain(|name| needed.contains(name));
    }

    /// Renews those that end soon, if it is time to look.
    pub fn tick(&mut self, now: u64, clock: Duration) {
        if since(self.looked, now) < LOOK_EVERY {
            return;
        }
        self.looked = now;
        if let Err(problem) = ensure(&self.names, clock) {
            let advice = "the old one stays in use; it is tried again in an hour";
            log::line(
                Level::Error,
                format_args!("local certificate not renewed: {problem}; {advice}"),
            );
        }
    }
}

/// The names of a configuration that have certificates of the authority, if it serves TLS.
fn names(server: &Server) -> impl Iterator<Item = (PathBuf, String)> {
    let names = server.local_names().into_iter().filter(|_| !server.listen_tls.is_empty());
    names.map(|name| (server.state_dir.clone(), name.to_owned()))
}

/// The certificates of the authority for a configuration, each with its name.
pub fn files(server: &Server) -> impl Iterator<Item = (String, CertificateFiles)> {
    names(server).map(|(state_dir, name)| {
        let file = pair_path(&state_dir, &name);
        (name, CertificateFiles { certificate: file.clone(), key: file })
    })
}

fn ensure(names: &BTreeSet<(PathBuf, String)>, clock: Duration) -> Result<(), String> {
    let mut opened: Option<(&PathBuf, Authority)> = None;
    for (state_dir, name) in names {
        let authority = match &opened {
            Some((path, authority)) if *path == state_dir => authority,
            _ => {
                let authority = Authority::open(state_dir, clock)?;
                if authority.is_new {
                    let path = root_path(state_dir);
                    log::line(
                        Level::Info,
                        format_args!(
                            "new authority for local names: {}; `tokamak trust` lets the programs of \
                                this machine trust it",
                            path.display()
                        ),
                    );
                }
                &opened.insert((state_dir, authority)).1
            }
        };
        if authority.ensure(name, clock)? {
            log::line(Level::Info, format_args!("local certificate made for {name}"));
        }
    }
    Ok(())
}
