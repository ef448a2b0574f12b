//! The supervisor: its real fleet, and a world around it that always has sockets and files.

use std::io;

use tokamak_config::Server;
use tokamak_supervisor::Folder;
use tokamak_supervisor::asker::Asker;
use tokamak_supervisor::fleet::Outside;
use tokamak_supervisor::identities::Identities;
use tokamak_supervisor::notify::Notice;

use crate::zygote::version;

/// What the fleet asks for, from memory.
pub struct Around {
    /// The configuration that the next reload reads.
    pub next: Server,
    /// The version of which the supervisor has said that it serves, and no older one any more.
    pub serves: u64,
    /// The last version whose reload has failed.
    pub given_up: u64,
}

impl Outside for Around {
    fn reread(&self) -> Result<Server, String> {
        Ok(self.next.clone())
    }

    fn resolve(&self, server: &Server) -> Result<(Server, Identities), String> {
        Ok((server.clone(), Identities::of(server).map_err(|wrong| wrong.to_string())?))
    }

    fn open(&mut self, _server: &Server) -> Result<(), String> {
        Ok(())
    }

    fn keep(&mut self, _servers: &[&Server]) {}

    fn log_to(&mut self, _server: &Server) -> io::Result<()> {
        Ok(())
    }

    fn folder(&mut self) -> io::Result<&Folder> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn answer(&mut self, _client: Asker, _answer: String) {}

    fn notify(&mut self, state: Notice, text: &str) {
        if state == Notice::Ready && text.contains("failed") {
            self.given_up = self.next.sites.first().map(version).unwrap_or(0);
        }
    }

    fn has_taken_over(&mut self, _number: u32, _old: &Server, new: &Server) {
        self.serves = self.serves.max(new.sites.first().map(version).unwrap_or(0));
    }
}
