//! What starts the processes of a server that runs.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use tokamak_sys::channel::Channel;
use tokamak_sys::control::{self, ToZygote, ZYGOTE_ARGUMENT, key};
use tokamak_sys::process::{self, Account, Executable, Guard, Identity, Program};

use crate::admin_socket::AdminSocket;
use crate::bounds;
use crate::certificates::Certificates;
use crate::front::{self, FrontMain};
use crate::listen::Listeners;
use crate::log;
use crate::means::{FrontPlan, Means, Started, ZygoteStart};
use crate::programs::Programs;
use crate::quic::Quic;
use crate::settings;
use crate::sockets::Sockets;
use crate::upstream_tls;
use crate::users::UserFilesWatch;

/// The means of a server that runs.
#[derive(Clone, Copy)]
pub struct System<'a> {
    /// The programs that run PHP.
    pub programs: &'a Programs,
    /// The listening sockets.
    pub listeners: &'a Listeners,
    /// What HTTP/3 needs beside them.
    pub quic: &'a Quic,
    /// The certificates.
    pub certificates: &'a Certificates,
    /// The files of users.
    pub users: &'a UserFilesWatch,
    /// The FastCGI sockets.
    pub sockets: &'a Sockets,
    /// The socket of the admin listener.
    pub admin: &'a AdminSocket,
    /// The code of the front.
    pub front: &'a FrontMain,
}

impl Means for System<'_> {
    fn zygote(&self, start: ZygoteStart<'_>) -> io::Result<Started> {
        let php = self.programs.of(start.site).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "the program that runs PHP is not open")
        })?;
        let name = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot start {}: {error}", php.path().display()))
        };
        execute(php, start).map_err(name)
    }

    fn front(&self, plan: FrontPlan<'_>) -> io::Result<Started> {
        let server = self.listeners.with_real_addresses(plan.server)?;
        let front_sockets = front::FrontSockets {
            quic: self.quic.for_front(&server)?,
            listeners: self.listeners.duplicate_plain(plan.server)?,
            tls_listeners: self.listeners.duplicate_tls(plan.server)?,
            credentials: self.certificates.of(plan.server),
            users: self.users.of(plan.server),
            upstream_tls: upstream_tls::read(plan.server).map_err(io::Error::other)?,
            sockets: self.sockets.duplicate(plan.server)?,
            admin: self.admin.duplicate()?,
        };
        front::fork(FrontPlan { server: &server, ..plan }, front_sockets, self.front)
    }
}

fn execute(php: &Executable, start: ZygoteStart<'_>) -> io::Result<Started> {
    let ZygoteStart { identity: whose, site, segment, links, settings, boot_files } = start;
    let (ours, theirs) = Channel::pair()?;
    let mut fds: Vec<BorrowedFd<'_>> = vec![theirs.as_fd(), segment.fd()];
    fds.extend(links.descriptors());
    let mut entrance = settings::entrance(site, whose);
    // It has to do this first, because later it lacks the right to.
    let identity = whose.filter(|_| entrance.is_empty());
    let guard = whose.filter(|_| !site.dumpable).and_then(|_| Guard::find());
    entrance.extend(guard.map(|guard| (key::GUARD.to_owned(), guard.number().to_string())));
    // php-fpm also sets HOME and USER for scripts of its own user, unless that is root.
    let is_own = site.fpm.is_some() && whose.is_none() && !process::is_root();
    let own = if is_own { Account::own() } else { None };
    let account = whose.and_then(Identity::account).or(own.as_ref());
    let (environment, hidden) = settings::environment_of_php(site, account, std::env::vars_os());
    let error = log::without_waiting();
    let program = Program {
        error: error.as_ref().map(AsFd::as_fd),
        arguments: &[ZYGOTE_ARGUMENT],
        environment: &environment,
        fds: &fds,
        identity,
        guard,
        bounds: site.fpm.as_deref().map(bounds::of_pool).unwrap_or_default(),
        ..Program::of(php)
    };
    let child = program.spawn()?;
    // If it has died already, the supervisor learns that when it reaps it.
    let settings = ToZygote::Settings([settings, &entrance, &hidden].concat());
    let _ = control::send(&ours, &settings, boot_files.as_slice());
    Ok((Box::new(child), Box::new(ours)))
}
