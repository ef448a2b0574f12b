//! The front as a whole: it starts the event loops, and is the handle by which they are told
//! things.

mod start;

use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use tokamak_cache::{Purge, Tally};
use tokamak_config as config;
use tokamak_fpm::log::Style;
use tokamak_lua::Engine;
use tokamak_upstream::fcgi::{AddressChange, AddressStatus, Upstream};
use tokamak_upstream::shm::{Death, OnDrained};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::backend::fastcgi;
use crate::cache::Content;
use crate::event_loop::{self, EventLoop, Message, Sockets};
use crate::log;
use crate::pools::{PoolLink, Queues};
use start::Shared;

/// Stack of an event loop: requests of the server's own are answered within those that they are
/// made for, some hundred kilobytes deep each in a build that is not optimised. Only what is used
/// is taken.
const STACK: usize = 8 << 20;

/// How long [`Front::drain`] waits for the loops to stop accepting. Chosen arbitrarily.
const DRAIN_PATIENCE: Duration = Duration::from_secs(1);

/// What a front needs to start.
pub struct Start {
    /// The configuration.
    pub server: config::Server,
    /// Sockets that listen already; all event loops accept from each.
    pub listeners: Vec<TcpListener>,
    /// Sockets that listen already for web servers, in the order of the configuration.
    pub sockets: Vec<OwnedFd>,
    /// The folder whose Lua scripts answer web servers in the place of workers.
    pub scripts: Option<PathBuf>,
    /// One for each site that has workers.
    pub pools: Vec<PoolLink>,
    /// The access log's file, open for appending; absent: standard output, if the configuration
    /// wants one.
    pub access_log: Option<File>,
    /// Whether another front serves until this one does; then names that cannot be resolved are an
    /// error.
    pub is_successor: bool,
}

/// A running front.
pub struct Front {
    loops: Vec<UnboundedSender<Message>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    log: Mutex<Option<log::Log>>,
    /// Looks after the scripts of all loops as long as it lives.
    _lua: Option<Engine>,
    upstreams: Arc<[Upstream]>,
    cache: Option<Arc<Content>>,
    /// Access logs of pools.
    pool_logs: Mutex<Vec<log::Log>>,
    /// The queues in use.
    queues: Mutex<Queues>,
    /// How often each event loop has come to its tick.
    turns: Arc<[AtomicU64]>,
    /// The last to go, since the others may still have to tell something.
    errors: Mutex<Option<log::OpenErrors>>,
}

impl Front {
    /// Starts the event loops.
    ///
    /// # Errors
    /// Threads, logs or sockets that cannot be had.
    pub fn start(mut start: Start) -> io::Result<Front> {
        let server = Arc::new(start.server.clone());
        if let Some(config::Fpm { global, .. }) = &server.fpm {
            log::write_as_fpm(Style { lowest: global.log_level, limit: global.log_limit });
        }
        let errors = log::open_errors()?;
        let shared = Shared::new(server, &mut start)?;
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..shared.config.loops).map(|_| unbounded_channel()).unzip();
        let turns: Arc<[AtomicU64]> = senders.iter().map(|_| AtomicU64::new(0)).collect();
        let mut threads = Vec::new();
        for (index, inbox) in receivers.into_iter().enumerate() {
            let (context, pools) = shared.context(index, &start)?;
            let (gates, bells) = pools.into_iter().unzip();
            let event_loop = EventLoop::new(context, gates, senders.clone(), turns.clone());
            let http = start.listeners.iter().map(TcpListener::try_clone);
            let fastcgi = start.sockets.iter().map(OwnedFd::try_clone);
            let sockets = Sockets {
                http: http.collect::<io::Result<_>>()?,
                fastcgi: fastcgi.collect::<io::Result<_>>()?,
            };
            let thread =
                std::thread::Builder::new().name(format!("loop-{index}")).stack_size(STACK);
            threads.push(thread.spawn(move || event_loop::run(event_loop, sockets, bells, inbox))?);
        }
        Ok(Front {
            loops: senders,
            threads: Mutex::new(threads),
            log: Mutex::new(shared.log),
            _lua: shared.lua,
            upstreams: shared.upstreams,
            cache: shared.cache,
            pool_logs: Mutex::new(shared.pool_logs.into_values().collect()),
            queues: Mutex::new(shared.queues),
            turns,
            errors: Mutex::new(Some(errors)),
        })
    }

    /// Sends new requests of the pool with the queue `old` to the one with the number `new`, whose
    /// memory this is. `left` is called when no request is left in the old one.
    ///
    /// # Errors
    /// The memory cannot be had.
    pub fn renew(
        &self,
        old: u32,
        new: u32,
        memory: OwnedFd,
        left: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<()> {
        let Some(source) = lock(&self.queues).renew(old, new, memory)? else { return Ok(()) };
        let farewell = OnDrained::new(left);
        self.tell(|| Message::Renew { old, source: source.clone(), farewell: farewell.clone() });
        Ok(())
    }

    /// All workers of a queue are dead that is not in use any more: requests that are left in it
    /// are lost.
    pub fn forget(&self, pool: u32) {
        self.tell(|| Message::Forget { pool });
    }

    /// A worker has died: the requests that it held are answered.
    pub fn worker_died(&self, pool: u32, instance: u32, death: Death) {
        self.tell(|| Message::Death { pool, instance, death });
    }

    /// How often each event loop has come to its tick, several times a second. One whose number
    /// stays is held up.
    pub fn turns(&self) -> Vec<u64> {
        self.turns.iter().map(|turns| turns.load(Ordering::Relaxed)).collect()
    }

    /// Changes the addresses of an application.
    ///
    /// # Errors
    /// What is wrong with the errand, for people.
    pub fn run(&self, errand: &AddressChange) -> Result<(), String> {
        fastcgi::errand::run(&self.upstreams, errand)
    }

    /// How the addresses of the applications stand, each with its upstream's place in the
    /// configuration.
    pub fn address_statuses(&self) -> impl Iterator<Item = (u16, AddressStatus)> {
        let all = self.upstreams.iter().zip(0..);
        all.flat_map(|(upstream, place)| {
            upstream.address_statuses().into_iter().map(move |one| (place, one))
        })
    }

    /// How the content cache stands, if there is one.
    pub fn cache(&self) -> Option<Tally> {
        self.cache.as_ref().map(|cache| cache.store.tally())
    }

    /// Removes things from the content cache; how many.
    ///
    /// # Errors
    /// There is none.
    pub fn purge(&self, what: &Purge) -> Result<u64, String> {
        let cache = self.cache.as_ref().ok_or("no site has `cache = true`")?;
        Ok(cache.purge(what))
    }

    /// Stops accepting. Running requests are finished, idle connections are closed, within the
    /// configured limit. Returns when no loop accepts any more.
    pub fn drain(&self) {
        // Idle ones would occupy processes of the application that another front needs.
        self.upstreams.iter().for_each(Upstream::keep_none);
        let (held, dropped) = mpsc::channel();
        self.tell(|| Message::Drain(held.clone()));
        drop(held);
        // Nothing is ever sent: this ends when the last loop has dropped its sender, or is too busy
        // to care.
        let _ = dropped.recv_timeout(DRAIN_PATIENCE);
        // Not before: a loop that had ended could not take a connection which another one has just
        // accepted.
        self.tell(|| Message::Finish);
    }

    /// Writes the access log to `file` from now on: the old one has been moved away.
    pub fn reopen_log(&self, file: File) {
        if let Some(log) = &*lock(&self.log) {
            log.reopen(file);
        }
    }

    /// Waits until a drained front has nothing left to do and its logs are written. After that it
    /// has none.
    pub fn join(&self) {
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            // A loop that panicked has said so on standard error.
            let _ = thread.join();
        }
        // What the loops handed over last is still on its way to the disk, and the process may end
        // now.
        drop(lock(&self.log).take());
        lock(&self.pool_logs).clear();
        drop(lock(&self.errors).take());
    }

    fn tell(&self, message: impl Fn() -> Message) {
        for event_loop in &self.loops {
            // A loop that has ended needs no news.
            let _ = event_loop.send(message());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Poisoned by a panic that has been reported: the data are counters and buffers, usable still.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
