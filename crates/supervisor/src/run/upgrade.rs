//! Another version takes over from this one, or this one from another: see [`crate::upgrade`].

use std::io;
use std::os::fd::OwnedFd;

use super::{PidFile, Supervisor};
use crate::asker::Asker;
use crate::fleet::Outside;
use crate::log::{self, Level};
use crate::notify::{self, Notice};
use crate::upgrade::{Outcome, STDERR, Successor};

/// Why nothing is reloaded.
pub(super) const OTHER_VERSION: &str =
    "another version takes over, with the configuration as it was when it was started; reload that";

/// A new version that was asked for, and who has asked.
pub(super) struct Upgrade {
    pub successor: Successor,
    client: Option<Asker>,
    /// Whether it serves, and this one ends.
    serves: bool,
}

impl Supervisor {
    /// Starts the new version.
    pub(super) fn upgrade(&mut self, client: Asker, now: u64) {
        let refusal = if self.fleet.configured.fpm.is_some() {
            Some("`tokamak fpm` is restarted by its service manager")
        } else if std::process::id() == 1 {
            Some("all processes of a container end with its first one; start another container")
        } else if self.fleet.stopping || self.drain_at.is_some() {
            Some("the server is stopping")
        } else if self.upgrade.is_some() {
            Some("another upgrade is under way")
        } else if !self.announced || self.predecessor.is_some() {
            Some("the server still starts")
        } else {
            None
        };
        let started = match refusal {
            Some(why) => Err(why.to_owned()),
            None => self.start_successor(now).map_err(|error| error.to_string()),
        };
        match started {
            Ok(successor) => {
                let pid = successor.pid();
                log::line(Level::Info, format_args!("upgrade: another version starts pid={pid}"));
                self.upgrade = Some(Upgrade { successor, client: Some(client), serves: false });
            }
            Err(why) => {
                log::line(Level::Error, format_args!("upgrade refused: {why}"));
                self.host.answer(client, format!("error {why}\n"));
            }
        }
    }

    fn start_successor(&self, now: u64) -> io::Result<Successor> {
        let unknown = |error: &io::Error| {
            io::Error::new(error.kind(), format!("it is not known how this was started: {error}"))
        };
        let origin = self.host.origin.as_ref().map_err(unknown)?;
        let mut sockets: Vec<(String, OwnedFd)> = self.host.listeners.for_successor()?;
        sockets.extend(self.host.quic.for_successor()?);
        sockets.extend(self.host.control.for_successor()?);
        sockets.extend(self.host.admin.for_successor()?);
        sockets.push((STDERR.to_owned(), self.host.stderr.try_clone()?));
        Successor::start(origin, &sockets, now)
    }

    /// What has become of the new version.
    pub(super) fn mind_upgrade(&mut self, now: u64) {
        let Some(upgrade) = &mut self.upgrade else { return };
        if upgrade.serves {
            // Who asked may rely on the new version from now on.
            let accepts = self.fleet.generations.iter().any(|generation| generation.accepts());
            if !accepts && let Some(client) = upgrade.client.take() {
                let pid = upgrade.successor.pid();
                self.host.answer(client, format!("ok process {pid} serves\n"));
            }
            return;
        }
        match upgrade.successor.look(now) {
            None => {}
            Some(Outcome::Failed(why)) => {
                log::line(
                    Level::Error,
                    format_args!("upgrade failed, this version goes on: {why}"),
                );
                if let Some(client) = upgrade.client.take() {
                    let answer = format!("error the new version does not serve: {why}\n");
                    self.host.answer(client, answer);
                }
                self.upgrade = None;
            }
            Some(Outcome::Ready(unused)) => {
                upgrade.serves = true;
                let pid = upgrade.successor.pid();
                log::line(
                    Level::Info,
                    format_args!(
                        "upgrade: process {pid} serves; this one answers what it has, and ends"
                    ),
                );
                notify::hand_over(pid);
                self.host.control.release(&unused);
                self.host.admin.release(&unused);
                self.acme.release();
                // The new version learns by this that all of that is its own now.
                upgrade.successor.let_go();
                self.fleet.begin_end(&mut self.host);
                self.fleet.drain(now);
            }
        }
    }

    /// The server is to stop, and so is a version that would take over.
    pub(super) fn end_upgrade(&mut self) {
        if let Some(upgrade) = self.upgrade.take_if(|upgrade| !upgrade.serves) {
            upgrade.successor.kill();
            log::line(Level::Info, format_args!("upgrade: given up, the server is stopping"));
            if let Some(client) = upgrade.client {
                self.host.answer(client, "error the server is stopping\n".to_owned());
            }
        }
    }

    /// The old version has let go.
    pub(super) fn follow(&mut self) {
        self.predecessor = None;
        self.host.control.keep();
        self.host.admin.keep();
        // What this configuration does not listen on any more.
        self.fleet.close_unused(&mut self.host);
        match PidFile::write(self.host.setup.server.pid_file.clone()) {
            Ok(file) => self.pid_file = file,
            Err(error) => log::line(Level::Error, format_args!("{error}")),
        }
        notify::notify(Notice::Ready, "serving");
        log::line(Level::Info, format_args!("upgrade: this version has taken over"));
    }
}
