//! The front as a whole: starts the event loops, and is the handle to control them.

mod start;

use std::fs::File;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use tokamak_auth::UserFiles;
use tokamak_cache::Purge;
use tokamak_config as config;
use tokamak_fpm::log::Style;
use tokamak_lua::Engine;
use tokamak_metrics::CacheFigures;
use tokamak_quic::{Exchange, Inbox, Secret};
use tokamak_sys::channel::Channel;
use tokamak_tls::{ClientFiles, Credentials};
use tokamak_upstream::remote::{AddressChange, AddressStatus, Upstream};
use tokamak_upstream::shm::{Death, OnLastDrop};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::admin::{Admin, AdminStart};
use crate::backend::upstream;
use crate::balancer::Balancer;
use crate::cache::Content;
use crate::event_loop::{self, EventLoop, Message, QuicSockets, Sockets};
use crate::export::Exporter;
use crate::log;
use crate::login::Passwords;
use crate::pools::{PoolLink, Queues};
use crate::push::HubThread;
use crate::temp_dir;
use crate::tls::{Tls, WantName};
use start::Shared;

/// Stack size of an event loop. Subrequests are answered within the requests that they are made
/// for; each takes some hundred kilobytes in a debug build. Pages that are not used cost no memory.
const STACK: usize = 8 << 20;

/// How long [`Front::drain`] waits for the loops to stop accepting. Loops do so in their next turn,
/// unless a script or a disk holds them up. With a tenth of this, a short hold-up would already
/// count; ten times more would block the supervisor that long on a loop that hangs.
const DRAIN_PATIENCE: Duration = Duration::from_secs(1);

/// What a front needs to start.
pub struct Start {
    /// The configuration.
    pub server: config::Server,
    /// Listening sockets for clients. All event loops accept on each of them.
    pub listeners: Vec<TcpListener>,
    /// Listening sockets for clients with TLS, and what handshakes need; absent without such
    /// sockets.
    pub tls: Option<(Vec<TcpListener>, Credentials)>,
    /// What HTTP/3 needs beside them, if it is wanted.
    pub quic: Option<QuicStart>,
    /// Has a certificate ordered for a name that a handshake is the first to name.
    pub want_name: Option<WantName>,
    /// The files of users that rules name.
    pub users: UserFiles,
    /// The files for TLS with applications, in the order of the configuration.
    pub upstream_tls: Vec<ClientFiles>,
    /// Listening sockets for web servers, in the order of the configuration.
    pub sockets: Vec<OwnedFd>,
    /// The admin listener, if there is to be one.
    pub admin: Option<AdminStart>,
    /// The folder whose Lua scripts answer web servers in place of workers.
    pub scripts: Option<PathBuf>,
    /// One for each site that has workers.
    pub pools: Vec<PoolLink>,
    /// The files of the access logs, open for appending, in the order of the configuration's
    /// `access_logs()`; `None` for standard output.
    pub access_logs: Vec<Option<File>>,
    /// Whether another front serves until this one is ready. Then names that cannot be resolved are
    /// an error.
    pub is_successor: bool,
}

/// What HTTP/3 needs beside the listening sockets for TLS.
pub struct QuicStart {
    /// The number of this front.
    pub number: u8,
    /// What all fronts of the server know.
    pub secret: [u8; 32],
    /// The UDP sockets, in the order of the listening sockets for TLS.
    pub sockets: Vec<Option<UdpSocket>>,
    /// On it comes what other fronts have read for this one.
    pub line: Channel,
    /// The lines to other fronts, by their numbers.
    pub others: Vec<(u8, Channel)>,
}

/// A running front.
pub struct Front {
    loops: Vec<UnboundedSender<Message>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The access logs, in the order of the configuration.
    access_logs: Mutex<Vec<log::Log>>,
    admin: Mutex<Option<Admin>>,
    exporter: Mutex<Option<Exporter>>,
    /// Watches the scripts of all loops as long as it lives.
    _lua: Option<Engine>,
    upstreams: Arc<[Upstream]>,
    cache: Option<Arc<Content>>,
    /// What handshakes need, if there are listeners for TLS.
    tls: Option<Arc<Tls>>,
    /// Verifies passwords, if rules ask for them.
    passwords: Option<Arc<Passwords>>,
    /// They receive what workers publish, as long as they live.
    hub_threads: Mutex<Vec<HubThread>>,
    /// Access logs of pools.
    pool_logs: Mutex<Vec<log::Log>>,
    /// The queues in use.
    queues: Mutex<Queues>,
    /// How often each event loop has ticked.
    turns: Arc<[AtomicU64]>,
    balancer: Arc<Balancer>,
    /// The error log. It is closed last, because the other parts may still write to it.
    errors: Mutex<Option<log::OpenErrors>>,
}

impl Front {
    /// Starts the event loops.
    ///
    /// # Errors
    /// Fails if threads, logs or sockets cannot be created.
    pub fn start(mut start: Start) -> io::Result<Front> {
        let server = Arc::new(start.server.clone());
        if let Some(config::Fpm { global, .. }) = &server.fpm {
            log::write_as_fpm(Style { lowest: global.log_level, limit: global.log_limit });
        }
        if let Some(folder) = &server.temp_dir {
            temp_dir::set(folder)?;
        }
        let errors = log::open_errors()?;
        let shared = Shared::new(server, &mut start)?;
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..shared.config.loops).map(|_| unbounded_channel()).unzip();
        let mut quic = quic_sockets(&mut start, shared.config.loops)?.into_iter();
        let turns: Arc<[AtomicU64]> = senders.iter().map(|_| AtomicU64::new(0)).collect();
        let mut threads = Vec::new();
        for (index, inbox) in receivers.into_iter().enumerate() {
            let (context, pools) = shared.context(index, &start)?;
            let (gates, bells) = pools.into_iter().unzip();
            let event_loop = EventLoop::new(context, gates, senders.clone(), turns.clone());
            let http = start.listeners.iter().map(TcpListener::try_clone);
            let tls = start.tls.iter().flat_map(|(listeners, _)| listeners);
            let tls = tls.map(TcpListener::try_clone);
            let fastcgi = start.sockets.iter().map(OwnedFd::try_clone);
            let sockets = Sockets {
                http: http.collect::<io::Result<_>>()?,
                tls: tls.collect::<io::Result<_>>()?,
                quic: quic.next(),
                fastcgi: fastcgi.collect::<io::Result<_>>()?,
            };
            let thread =
                std::thread::Builder::new().name(format!("loop-{index}")).stack_size(STACK);
            threads.push(thread.spawn(move || event_loop::run(event_loop, sockets, bells, inbox))?);
        }
        let hub_threads = shared.hubs.iter().flatten().filter_map(HubThread::start);
        let hub_threads = hub_threads.collect::<io::Result<_>>()?;
        let admin = start.admin.take();
        let admin = admin.map(|admin| Admin::start(admin, shared.figures())).transpose()?;
        Ok(Front {
            loops: senders,
            hub_threads: Mutex::new(hub_threads),
            threads: Mutex::new(threads),
            access_logs: Mutex::new(shared.access_logs),
            admin: Mutex::new(admin),
            exporter: Mutex::new(shared.exporter),
            _lua: shared.lua,
            upstreams: shared.upstreams,
            cache: shared.cache,
            tls: shared.tls,
            passwords: shared.passwords,
            pool_logs: Mutex::new(shared.pool_logs.into_values().collect()),
            queues: Mutex::new(shared.queues),
            turns,
            balancer: shared.balancer,
            errors: Mutex::new(Some(errors)),
        })
    }

    /// Replaces the queue `old` of a pool by the queue `new` in this memory. `taken` is called when
    /// all event loops send new requests there, `left` when no request is left in the old queue;
    /// both by an event loop.
    ///
    /// # Errors
    /// Fails if the memory cannot be mapped.
    pub fn renew(
        &self,
        old: u32,
        new: u32,
        memory: OwnedFd,
        taken: impl Fn() + Send + Sync + 'static,
        left: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<()> {
        let Some(source) = lock(&self.queues).renew(old, new, memory)? else { return Ok(()) };
        let (taken, drained) = (OnLastDrop::new(taken), OnLastDrop::new(left));
        self.send_to_loops(|| Message::Renew {
            old,
            source: source.clone(),
            taken: taken.clone(),
            drained: drained.clone(),
        });
        Ok(())
    }

    /// Uses these certificates and keys for new connections.
    ///
    /// # Errors
    /// Fails with what is wrong with them. The old ones stay in use.
    pub fn renew_credentials(&self, credentials: &Credentials) -> Result<(), String> {
        self.tls.as_ref().map_or(Ok(()), |tls| tls.renew(credentials))
    }

    /// No certificate is ordered for this name, or none comes soon: handshakes that wait for one
    /// are refused.
    pub fn decline(&self, name: &str) {
        if let Some(tls) = &self.tls {
            tls.decline(name);
        }
    }

    /// Knows the users of these files from now on.
    ///
    /// # Errors
    /// Fails with what is wrong with them. The old ones stay known.
    pub fn renew_users(&self, files: &UserFiles) -> Result<(), String> {
        self.passwords.as_ref().map_or(Ok(()), |passwords| passwords.renew(files))
    }

    /// Gives up a queue that is no longer in use and whose workers are all dead. Requests that are
    /// left in it fail.
    pub fn forget(&self, pool: u32) {
        self.send_to_loops(|| Message::Forget { pool });
    }

    /// Reports the death of a worker, so that the requests that it held are answered.
    pub fn worker_died(&self, pool: u32, instance: u32, death: Death) {
        self.send_to_loops(|| Message::Death { pool, instance, death });
    }

    /// The connections that are open now.
    pub fn connections(&self) -> usize {
        self.balancer.all_connections()
    }

    /// How often each event loop has ticked; it ticks several times a second, or as often as
    /// `Timeouts::heartbeat` says if it has no connections. A loop whose number stays the same is
    /// held up.
    pub fn turns(&self) -> Vec<u64> {
        self.turns.iter().map(|turns| turns.load(Ordering::Relaxed)).collect()
    }

    /// Changes the addresses of an application.
    ///
    /// # Errors
    /// Fails if the address is malformed or unknown, with a message for the operator.
    pub fn run(&self, errand: &AddressChange) -> Result<(), String> {
        upstream::errand::run(&self.upstreams, errand)
    }

    /// The state of the applications' addresses, each with its upstream's index in the
    /// configuration.
    pub fn address_statuses(&self) -> impl Iterator<Item = (u16, AddressStatus)> {
        let all = self.upstreams.iter().zip(0..);
        all.flat_map(|(upstream, index)| {
            upstream.address_statuses().into_iter().map(move |one| (index, one))
        })
    }

    /// The statistics of the content cache, if there is one.
    pub fn cache(&self) -> Option<CacheFigures> {
        self.cache.as_ref().map(|cache| cache.store.figures())
    }

    /// Removes entries from the content cache. Returns how many.
    ///
    /// # Errors
    /// Fails if no site uses the cache.
    pub fn purge(&self, what: &Purge) -> Result<u64, String> {
        let cache = self.cache.as_ref().ok_or("no site has `cache = true`")?;
        Ok(cache.purge(what))
    }

    /// Stops accepting. Running requests are finished and idle connections are closed within the
    /// configured time limit. Returns when no loop accepts any more. `is_replaced`: what workers
    /// publish from now on is for the hubs of another front.
    pub fn drain(&self, is_replaced: bool) {
        if is_replaced {
            lock(&self.hub_threads).clear();
        }
        // Close idle connections to applications: they would occupy processes that another front
        // needs.
        self.upstreams.iter().for_each(Upstream::keep_none);
        if let Some(admin) = &*lock(&self.admin) {
            admin.drain();
        }
        if let Some(exporter) = &*lock(&self.exporter) {
            exporter.drain();
        }
        let (held, dropped) = mpsc::channel();
        self.send_to_loops(|| Message::Drain(held.clone()));
        drop(held);
        // Nothing is ever sent. This returns when the last loop has dropped its sender, or when a
        // loop is too busy to answer in time.
        let _ = dropped.recv_timeout(DRAIN_PATIENCE);
        // Only now: a loop that had ended earlier could not take over a connection that another
        // loop has just accepted.
        self.send_to_loops(|| Message::Finish);
    }

    /// Writes the access log of this index to `file` from now on, because the old file has been
    /// moved away.
    pub fn reopen_log(&self, index: usize, file: File) {
        if let Some(log) = lock(&self.access_logs).get(index) {
            log.reopen(file);
        }
    }

    /// Waits until a drained front has ended its work and written its logs. The logs are closed
    /// then.
    pub fn join(&self) {
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            // If a loop has panicked, the panic has been written to standard error.
            let _ = thread.join();
        }
        if let Some(admin) = lock(&self.admin).take() {
            admin.join();
        }
        if let Some(exporter) = lock(&self.exporter).take() {
            exporter.close();
        }
        // The process may end after this, so wait until the last lines are written.
        lock(&self.access_logs).clear();
        lock(&self.pool_logs).clear();
        drop(lock(&self.errors).take());
    }

    fn send_to_loops(&self, message: impl Fn() -> Message) {
        for event_loop in &self.loops {
            // A loop that has ended needs no messages.
            let _ = event_loop.send(message());
        }
    }
}

/// What each event loop needs for HTTP/3; none if there is none.
fn quic_sockets(start: &mut Start, loops: usize) -> io::Result<Vec<QuicSockets>> {
    let Some(QuicStart { number, secret, sockets, line, others }) = start.quic.take() else {
        return Ok(Vec::new());
    };
    let first = start.listeners.len();
    let sockets = sockets.into_iter().enumerate();
    let sockets = sockets.filter_map(|(index, socket)| Some((first + index, socket?)));
    let sockets: Vec<_> = sockets.collect();
    let addresses = sockets.iter().map(|(_, socket)| socket.local_addr());
    let addresses = addresses.collect::<io::Result<Vec<_>>>()?;
    let (exchange, inboxes) =
        Exchange::new(Arc::new(Secret::of(secret)), number, loops, &addresses, others);
    let (exchange, mut line) = (Arc::new(exchange), Some(line));
    let of_loop = |inboxes: Vec<Inbox>| {
        let sockets = sockets.iter().zip(inboxes);
        let sockets = sockets
            .map(|((listener, socket), inbox)| Ok((*listener, socket.try_clone()?, inbox)))
            .collect::<io::Result<_>>()?;
        Ok(QuicSockets { exchange: exchange.clone(), sockets, line: line.take() })
    };
    inboxes.into_iter().map(of_loop).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // If a panic has poisoned the lock, it has been reported. Counters and buffers are still
    // usable.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
