//! How processes come to be, and what the supervisor has of them: the one place where it decides
//! nothing. What starts them for real is [`System`]; a simulation has means of its own.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use tokamak_config::{Server, Site};
use tokamak_sys::channel::{Channel, Received};
use tokamak_sys::control::{ToZygote, ZYGOTE_ARGUMENT, key};
use tokamak_sys::process::{Child, Guard, Identity, Program};
use tokamak_sys::queue::Segment;

use crate::bounds;
use crate::endpoint::Endpoint;
use crate::front::{self, FrontMain};
use crate::listen::Listeners;
use crate::pool::Pool;
use crate::settings;
use crate::sockets::Sockets;

/// A process that was started and has not been reaped yet.
pub trait Process: fmt::Debug {
    /// Its process id, by which its end is told.
    fn id(&self) -> u32;
    /// Ends it at once. That it has already ended is no error.
    fn kill(&self);
}

impl Process for Child {
    fn id(&self) -> u32 {
        Child::id(self)
    }

    fn kill(&self) {
        Child::kill(self);
    }
}

/// The supervisor's end of a way for messages; see [`Channel`].
pub trait Wire: fmt::Debug {
    /// Sends one message, or fails with `WouldBlock` when the other side does not keep up.
    ///
    /// # Errors
    /// Fails if it cannot be sent, also because the other side is gone.
    fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()>;
    /// Takes the next message if there is one.
    ///
    /// # Errors
    /// Fails if the message is invalid, or the channel is broken.
    fn receive(&self) -> io::Result<Received>;
    /// What can be polled for messages, if the kernel knows of it.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
}

impl Wire for Channel {
    fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        Channel::send(self, bytes, fds)
    }

    fn receive(&self) -> io::Result<Received> {
        Channel::receive(self)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }
}

/// A process and the line to it.
pub type Started = (Box<dyn Process>, Endpoint);

/// What a zygote starts with.
pub struct ZygoteStart<'a> {
    /// Who it runs as.
    pub identity: Option<&'a Identity>,
    /// Its site.
    pub site: &'a Site,
    /// Its queue.
    pub segment: &'a Segment,
    /// The bells of the front's event loops.
    pub bells: &'a [OwnedFd],
    /// What it is told first.
    pub settings: &'a [(String, String)],
}

/// What a front starts with.
pub struct FrontPlan<'a> {
    /// The configuration, paths resolved.
    pub server: &'a Server,
    /// Its pools, in the order of the sites.
    pub pools: &'a [&'a Pool],
    /// Who it runs as.
    pub identity: Option<&'a Identity>,
    /// See [`crate::FrontStart`].
    pub is_successor: bool,
}

/// Starts processes.
pub trait Means {
    /// A zygote.
    ///
    /// # Errors
    /// Fails if it cannot be started.
    fn zygote(&self, start: ZygoteStart<'_>) -> io::Result<Started>;
    /// A front.
    ///
    /// # Errors
    /// Fails if it cannot be started.
    fn front(&self, plan: FrontPlan<'_>) -> io::Result<Started>;
}

/// The means of a server that runs.
#[derive(Clone, Copy)]
pub struct System<'a> {
    /// The worker program.
    pub php: &'a Path,
    /// The listening sockets.
    pub listeners: &'a Listeners,
    /// The FastCGI sockets.
    pub sockets: &'a Sockets,
    /// The code of the front.
    pub front: &'a FrontMain,
}

impl Means for System<'_> {
    fn zygote(&self, start: ZygoteStart<'_>) -> io::Result<Started> {
        let name = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot start {}: {error}", self.php.display()))
        };
        execute(self.php, start).map_err(name)
    }

    fn front(&self, plan: FrontPlan<'_>) -> io::Result<Started> {
        let lent = front::Lent {
            listeners: self.listeners.lend(&plan.server.listen)?,
            sockets: self.sockets.lend(plan.server)?,
        };
        front::fork(plan, lent, self.front)
    }
}

fn execute(php: &Path, start: ZygoteStart<'_>) -> io::Result<Started> {
    let ZygoteStart { identity: whose, site, segment, bells, settings } = start;
    let (mut line, theirs) = Endpoint::new()?;
    let mut fds: Vec<BorrowedFd<'_>> = vec![theirs.as_fd(), segment.fd()];
    fds.extend(bells.iter().map(AsFd::as_fd));
    let mut entrance = settings::entrance(site, whose);
    // What it has to do first, nobody else may.
    let identity = whose.filter(|_| entrance.is_empty());
    let guard = whose.filter(|_| !site.dumpable).and_then(|_| Guard::find());
    entrance.extend(guard.map(|guard| (key::GUARD.to_owned(), guard.number().to_string())));
    let (environment, hidden) = settings::environment_of_php(site, std::env::vars_os());
    let program = Program {
        arguments: &[ZYGOTE_ARGUMENT],
        environment: &environment,
        fds: &fds,
        identity,
        guard,
        bounds: site.fpm.as_deref().map(bounds::of_pool).unwrap_or_default(),
        ..Program::new(php)
    };
    let child = program.spawn()?;
    // If it has died already, reaping tells.
    let _ = line.send(&ToZygote::Settings([settings, &entrance, &hidden].concat()), Vec::new());
    Ok((Box::new(child), line))
}
