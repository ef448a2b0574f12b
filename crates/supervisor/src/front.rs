//! The front as the supervisor sees it: a forked child, a channel to it, its messages.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokamak_auth::UserFiles;
use tokamak_config::{Admin, Server};
use tokamak_sys::channel::Channel;
use tokamak_sys::control::{FromFront, Heard, LostLines, ToFront};
use tokamak_sys::log_file;
use tokamak_sys::process;
use tokamak_sys::queue::Segment;
use tokamak_tls::{ClientFiles, Credentials};

use crate::endpoint::Endpoint;
use crate::liveness::Liveness;
use crate::means::{FrontPlan, PoolPlan, Process, Started};
use crate::quic::QuicStart;

/// What a front starts with. It runs in a child of its own that holds no other descriptors than
/// these and 0, 1, 2 (2 is the error log), as the configured user.
#[derive(Debug)]
pub struct FrontStart {
    /// The configuration, paths resolved, `listen` as really bound.
    pub server: Server,
    /// The listening sockets, in the order of `server.listen`.
    pub listeners: Vec<OwnedFd>,
    /// The listening sockets for TLS, in the order of `server.listen_tls`, and what handshakes on
    /// them need. Absent without such sockets.
    pub tls: Option<(Vec<OwnedFd>, Credentials)>,
    /// What HTTP/3 needs beside them, if it is wanted.
    pub quic: Option<QuicStart>,
    /// The files of users that its rules name.
    pub users: UserFiles,
    /// The files for TLS with applications, in the order of `server.upstreams`.
    pub upstream_tls: Vec<ClientFiles>,
    /// The FastCGI sockets, in the order of `server.fpm`.
    pub sockets: Vec<OwnedFd>,
    /// The admin listener, if there is one, and its socket.
    pub admin: Option<(Admin, OwnedFd)>,
    /// The pools, in the order of the sites that have one.
    pub pools: Vec<PoolLink>,
    /// The access logs, opened for appending, in the order of `server.access_logs()`; those that go
    /// to standard output have no descriptor.
    pub access_logs: Vec<Option<OwnedFd>>,
    /// Whether another front serves until this one does: then it had better not start than start
    /// with half of what it needs.
    pub is_successor: bool,
    /// The line to the supervisor.
    pub channel: Channel,
}

/// One pool as the front gets it.
#[derive(Debug)]
pub struct PoolLink {
    /// The index of its site in `server.sites`.
    pub site_index: usize,
    /// Its number in what the supervisor says.
    pub number: u32,
    /// Its queue.
    pub segment: Arc<Segment>,
    /// One eventfd for each event loop.
    pub bells: Vec<OwnedFd>,
    /// The line by which its workers publish in the site's hub, if there is one.
    pub hub: Option<Channel>,
    /// PHP's version, if responses have it (`X-Powered-By`).
    pub exposed_version: Option<String>,
    /// Its own access log, opened for appending, if it has one.
    pub access_log: Option<OwnedFd>,
}

/// What a front listens on.
pub struct FrontSockets {
    /// HTTP sockets and where they are.
    pub listeners: Vec<(SocketAddr, OwnedFd)>,
    /// Sockets for TLS and where they are.
    pub tls_listeners: Vec<(SocketAddr, OwnedFd)>,
    /// What handshakes need, if there are such sockets.
    pub credentials: Option<Credentials>,
    /// What HTTP/3 needs beside them, if it is wanted.
    pub quic: Option<QuicStart>,
    /// The files of users.
    pub users: UserFiles,
    /// The files for TLS with applications, in the order of the configuration.
    pub upstream_tls: Vec<ClientFiles>,
    /// FastCGI sockets, in the order of the configuration.
    pub sockets: Vec<OwnedFd>,
    /// The admin listener, if there is one, and its socket.
    pub admin: Option<(Admin, OwnedFd)>,
}

/// The code of the front; what it returns is the exit status of its process.
pub type FrontMain = dyn Fn(FrontStart) -> u8;

/// A running front.
#[derive(Debug)]
pub struct Front {
    child: Box<dyn Process>,
    endpoint: Endpoint,
    is_ready: bool,
    /// Of the process, and of each event loop.
    liveness: Liveness,
    loops: Vec<Liveness>,
    was_killed: bool,
    lost: LostLines,
}

/// What is wrong with a front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hang {
    /// It gives no sign of life.
    Silent,
    /// This event loop does not turn.
    Stuck(usize),
}

impl Front {
    /// A front that was just started for a server with so many event loops.
    pub fn new((child, wire): Started, loops: usize) -> Front {
        let endpoint = Endpoint::over(wire);
        let loops = vec![Liveness::default(); loops];
        Front {
            child,
            endpoint,
            is_ready: false,
            liveness: Liveness::default(),
            loops,
            was_killed: false,
            lost: LostLines::default(),
        }
    }

    /// The line, to listen to.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Whether it accepts connections.
    pub fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Whether this process is it.
    pub fn is(&self, pid: u32) -> bool {
        self.child.id() == pid
    }

    /// Its process id, for people.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a message. A front that is stuck is killed.
    pub fn send(&mut self, message: &ToFront, fds: Vec<OwnedFd>) {
        if self
            .endpoint
            .send(message, fds)
            .is_err_and(|error| error.kind() == io::ErrorKind::TimedOut)
        {
            self.child.kill();
        }
    }

    /// Sends what waited for room.
    pub fn flush(&mut self) {
        // If it is gone, the supervisor learns that when it reaps it.
        let _ = self.endpoint.flush();
    }

    /// Its next message. A front that sends an invalid one is killed.
    pub fn receive(&mut self) -> Option<FromFront> {
        match self.endpoint.receive::<FromFront>() {
            Ok(Heard::Message(message, _)) => {
                self.is_ready |= message == FromFront::Ready;
                if let FromFront::Turned { loops, lost } = &message {
                    self.lost = *lost;
                    self.liveness.sign_of_life();
                    for event_loop in loops {
                        if let Some(liveness) = self.loops.get_mut(usize::from(*event_loop)) {
                            liveness.sign_of_life();
                        }
                    }
                }
                Some(message)
            }
            Ok(Heard::Nothing | Heard::Closed) => None,
            Err(_) => {
                self.child.kill();
                None
            }
        }
    }

    /// What is wrong with a front that serves, if it has been silent for longer than `limit`. A
    /// script may hold up an event loop for as long as `script`.
    pub fn examine(&mut self, limit: Duration, script: Duration, now: u64) -> Option<Hang> {
        let patience = if limit.is_zero() { limit } else { limit + script };
        let mut stuck = None;
        for (index, liveness) in self.loops.iter_mut().enumerate() {
            if liveness.is_still(patience, now) {
                stuck = stuck.or(Some(Hang::Stuck(index)));
            }
        }
        if self.liveness.is_still(limit, now) {
            return (!std::mem::replace(&mut self.was_killed, true)).then_some(Hang::Silent);
        }
        stuck
    }

    /// Lines of its logs that were lost so far.
    pub fn lost_lines(&self) -> LostLines {
        self.lost
    }

    /// Ends it at once.
    pub fn kill(&self) {
        self.child.kill();
    }
}

/// Forks a front. `plan` has the addresses where the sockets of `front_sockets` are.
///
/// # Errors
/// Fails if the process cannot be made or the access log cannot be opened.
pub fn fork(
    plan: FrontPlan<'_>,
    front_sockets: FrontSockets,
    main: &FrontMain,
) -> io::Result<Started> {
    let FrontPlan { server, pools, identity, is_successor } = plan;
    let (ours, channel) = Channel::pair()?;
    let links = pools.iter().map(link).collect::<io::Result<Vec<_>>>()?;
    let access_logs = server.access_logs().into_iter();
    let access_logs = access_logs
        .map(|log| log.file().map(|path| open_log(path).map(OwnedFd::from)).transpose())
        .collect::<io::Result<_>>()?;
    let sockets = |front_sockets: Vec<(SocketAddr, OwnedFd)>| {
        front_sockets.into_iter().map(|(_, socket)| socket)
    };
    let tls_listeners = sockets(front_sockets.tls_listeners).collect();
    let start = FrontStart {
        server: server.clone(),
        listeners: sockets(front_sockets.listeners).collect(),
        tls: front_sockets.credentials.map(|credentials| (tls_listeners, credentials)),
        quic: front_sockets.quic,
        users: front_sockets.users,
        upstream_tls: front_sockets.upstream_tls,
        sockets: front_sockets.sockets,
        admin: front_sockets.admin,
        pools: links,
        access_logs,
        is_successor,
        channel,
    };
    let keep = descriptors(&start);
    let child = process::fork(&keep, identity, move || {
        process::forbid_tracing();
        main(start)
    })?;
    Ok((Box::new(child), Box::new(ours)))
}

fn link(pool: &PoolPlan<'_>) -> io::Result<PoolLink> {
    Ok(PoolLink {
        site_index: pool.site_index,
        number: pool.number,
        segment: Arc::clone(pool.segment),
        bells: pool.links.bells.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?,
        hub: pool.links.hub.as_ref().map(|line| line.front_end()).transpose()?,
        exposed_version: pool.exposed_version.map(str::to_owned),
        access_log: match pool.access_log {
            Some(path) => Some(open_log(path)?.into()),
            None => None,
        },
    })
}

/// All that the front may keep open.
fn descriptors(start: &FrontStart) -> Vec<RawFd> {
    let pools = start.pools.iter();
    let bells = pools
        .clone()
        .flat_map(|pool| pool.bells.iter().chain(&pool.access_log).map(AsRawFd::as_raw_fd));
    let hubs = pools.clone().flat_map(|pool| &pool.hub).map(AsRawFd::as_raw_fd);
    let segments =
        pools.flat_map(|pool| pool.segment.descriptors().map(|descriptor| descriptor.as_raw_fd()));
    let listeners = start
        .listeners
        .iter()
        .chain(start.tls.iter().flat_map(|(listeners, _)| listeners))
        .chain(&start.sockets)
        .chain(start.admin.iter().map(|(_, socket)| socket))
        .chain(start.access_logs.iter().flatten())
        .map(AsRawFd::as_raw_fd);
    bells
        .chain(hubs)
        .chain(segments)
        .chain(listeners)
        .chain(start.quic.iter().flat_map(QuicStart::descriptors))
        .chain([start.channel.as_fd().as_raw_fd()])
        .collect()
}

/// Opens a log file for appending, made if it is not there.
pub fn open_log(path: &Path) -> io::Result<File> {
    log_file::open(path, 0o640).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot open the log {}: {error}", path.display()))
    })
}
