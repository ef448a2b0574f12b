//! What the generations need of the server around them, from the system.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use tokamak_config::Server;

use super::Setup;
use super::admin::Owed;
use super::reloading::reloaded_fpm;
use crate::admin_socket::AdminSocket;
use crate::application::Folder;
use crate::asker::Asker;
use crate::certificates::Certificates;
use crate::control_socket::ControlSocket;
use crate::fleet::Outside;
use crate::front::open_log;
use crate::identities::Identities;
use crate::listen::Listeners;
use crate::log::{self, Level};
use crate::notify::{self, Notice};
use crate::programs::Programs;
use crate::quic::Quic;
use crate::settings;
use crate::sockets::Sockets;
use crate::system::System;
use crate::upgrade::Origin;
use crate::upstream_tls;
use crate::users::UserFilesWatch;

/// Sockets, files and programs of the server.
pub(super) struct Host {
    pub setup: Setup,
    /// How this process was started. Only an upgrade has to know.
    pub origin: io::Result<Origin>,
    pub programs: Programs,
    /// Standard error as it was at the start; `log.error` may have put a file in its place.
    pub stderr: OwnedFd,
    pub listeners: Listeners,
    pub quic: Quic,
    pub certificates: Certificates,
    pub users: UserFilesWatch,
    pub sockets: Sockets,
    pub control: ControlSocket,
    pub admin: AdminSocket,
    /// Answers that fronts are to get.
    pub for_fronts: Vec<Owed>,
    /// For the sockets of applications; made when the first one is started.
    pub folder: Option<Folder>,
}

impl Host {
    /// What processes are started with.
    pub fn means(&self) -> System<'_> {
        System {
            programs: &self.programs,
            listeners: &self.listeners,
            quic: &self.quic,
            certificates: &self.certificates,
            users: &self.users,
            sockets: &self.sockets,
            admin: &self.admin,
            front: &*self.setup.front,
        }
    }
}

impl Host {
    /// The configuration with the addresses of its sockets.
    pub fn with_real_addresses(&self, server: &Server) -> Server {
        // A socket whose address cannot be read is known by the address in the file.
        self.listeners.with_real_addresses(server).unwrap_or_else(|_| server.clone())
    }
}

/// Lets standard error be the error log of this configuration.
pub(super) fn log_to(server: &Server, stderr: &OwnedFd) -> io::Result<()> {
    match &server.log.error {
        Some(path) => log::redirect(open_log(path)?.as_fd()),
        None => log::redirect(stderr.as_fd()),
    }
}

impl Outside for Host {
    fn reread(&self) -> Result<Server, String> {
        (self.setup.reread)()
    }

    fn resolve(&self, server: &Server) -> Result<(Server, Identities), String> {
        let resolved = settings::resolve(server).map_err(|wrong| wrong.to_string())?;
        let identities = Identities::of(&resolved).map_err(|wrong| wrong.to_string())?;
        Ok((resolved, identities))
    }

    fn open(&mut self, server: &Server) -> Result<(), String> {
        let addresses = [&server.listen[..], &server.listen_tls].concat();
        self.programs.open(server, &*self.setup.php)?;
        self.listeners.open(&addresses).map_err(|wrong| wrong.to_string())?;
        let real = self.with_real_addresses(server);
        self.quic.open(&real).map_err(|wrong| wrong.to_string())?;
        self.sockets.open(server).map_err(|wrong| wrong.to_string())?;
        self.certificates.load(server)?;
        upstream_tls::read(server)?;
        self.users.load(server)
    }

    fn keep(&mut self, servers: &[&Server]) {
        let listens = servers.iter().flat_map(|server| [&server.listen[..], &server.listen_tls]);
        self.listeners.keep(&listens.collect::<Vec<_>>());
        let real = servers.iter().map(|server| self.with_real_addresses(server));
        self.quic.keep(&real.collect::<Vec<_>>());
        self.programs.keep(servers);
        self.certificates.keep(servers);
        self.users.keep(servers);
        self.sockets.keep(servers);
    }

    fn log_to(&mut self, server: &Server) -> io::Result<()> {
        log_to(server, &self.stderr)
    }

    fn folder(&mut self) -> io::Result<&Folder> {
        if self.folder.is_none() {
            self.folder = Some(Folder::create()?);
        }
        self.folder.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn answer(&mut self, client: Asker, answer: String) {
        match client {
            Asker::Socket(number) => self.control.answer(number, answer),
            Asker::Admin { generation, question } => {
                self.for_fronts.push(Owed::new(generation, question, answer));
            }
        }
    }

    fn notify(&mut self, state: Notice, text: &str) {
        notify::notify(state, text);
    }

    fn has_taken_over(&mut self, number: u32, old: &Server, new: &Server) {
        log::either(
            format_args!("reload: generation {number} serves"),
            format_args!("reloading: generation {number} has taken over"),
        );
        reloaded_fpm(old, new);
        for warning in tokamak_config::warnings(new) {
            log::line(Level::Warn, format_args!("{warning}"));
        }
        for program in self.programs.replaced() {
            let path = program.path();
            let (what, then) = if path.exists() {
                ("replaced", "`tokamak upgrade` starts the new one")
            } else {
                ("removed", "install it again before the next start")
            };
            log::line(
                Level::Warn,
                format_args!(
                    "{} has been {what} since the start, and this server goes on with the old \
                    one: {then}",
                    path.display()
                ),
            );
        }
    }
}
