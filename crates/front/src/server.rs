//! The front as a whole: its event loops, what they share, and the handle by which it is told
//! things.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use http::Request;
use tokamak_cache::{Purge, Tally};
use tokamak_config as config;
use tokamak_cost::Ledger;
use tokamak_fpm::log::Style;
use tokamak_lua::{Engine, State};
use tokamak_upstream::fcgi::{Errand, Standing, Upstream};
use tokamak_upstream::shm::{self, Bell, Bounds, Death, Farewell, Gate};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::access;
use crate::application::Handler;
use crate::cache::{Content, SitePolicies};
use crate::connection::{self, Heart, Pulse, Wire};
use crate::event_loop::accept::{Accepted, Handoff, Listener};
use crate::event_loop::balancer::{Balancer, Record};
use crate::fastcgi;
use crate::hosts::{self, Hosts};
use crate::links::{Links, Watched};
use crate::lua::{self, Calls, Presence, SiteHooks};
use crate::pools::{PoolLink, Queues, slowly};
use crate::responder::{self, Journal, Overview};
use crate::route::Router;
use crate::service;

/// How often time limits are looked at; so they are met this much late at the most.
const TICK: Duration = Duration::from_millis(200);

/// An event loop that never runs out of work looks after its pools this often, in nanoseconds.
/// Chosen arbitrarily.
const ATTEND_EVERY: u64 = 1_000_000;

/// An idle connection of a draining front is closed after this long: a client that has just been
/// answered may be about to send its next request, which is still served.
const DRAIN_IDLE: Duration = Duration::from_secs(1);

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
    log: Mutex<Option<access::Log>>,
    /// Looks after the scripts of all loops as long as it lives.
    _lua: Option<Engine>,
    upstreams: Arc<[Upstream]>,
    cache: Option<Arc<Content>>,
    /// Access logs of pools.
    pool_logs: Mutex<Vec<access::Log>>,
    /// The queues in use.
    queues: Mutex<Queues>,
    /// How often each event loop has come to its tick.
    turns: Arc<[AtomicU64]>,
    /// The last to go, since the others may still have to tell something.
    errors: Mutex<Option<access::OpenErrors>>,
}

/// What an event loop is told.
enum Message {
    /// Serve this connection, which another loop accepted.
    Connection(Handoff),
    /// A worker has died.
    Death { pool: u32, instance: u32, death: Death },
    /// A pool gets another queue.
    Renew { old: u32, source: shm::Source, farewell: Farewell },
    /// All workers of a queue are dead that is not in use any more.
    Forget { pool: u32 },
    /// Accept no more. The sender is dropped once nothing more is accepted.
    Drain(mpsc::Sender<()>),
    /// No loop accepts any more, so none hands over a connection: end when the last one is closed.
    Finish,
    /// A connection of a draining loop has closed; it may have been the last one.
    Closed,
}

/// One event loop: what its connections and requests share.
pub struct Loop {
    /// The configuration.
    pub server: Arc<config::Server>,
    /// The sites, in the order of the configuration.
    pub places: Vec<Place>,
    /// The ways to the pools, in their order.
    gates: Arc<[Arc<Gate>]>,
    /// The FastCGI applications, in the order of the configuration.
    pub upstreams: Arc<[Upstream]>,
    /// The Lua of this loop, if any site has scripts.
    pub lua: Option<Arc<State>>,
    /// What its scripts reach other services by.
    pub calls: Calls,
    /// The content cache, if any site wants it.
    pub cache: Option<Arc<Content>>,
    hosts: Arc<Hosts>,
    log: Option<Mutex<access::Buffer>>,
    links: Mutex<Links>,
    /// When it stopped accepting; 0: it has not.
    draining: AtomicU64,
    /// When the loop was made.
    pub began: Instant,
    /// When the pools were last attended to.
    attended: AtomicU64,
    /// This and the other loops.
    balancer: Arc<Balancer>,
    /// The requests that are being served, for scripts.
    pub presence: Arc<Presence>,
    peers: Vec<UnboundedSender<Message>>,
    turns: Arc<[AtomicU64]>,
    /// Its place among the loops.
    pub index: usize,
}

/// A site as one event loop sees it.
pub struct Place {
    /// Its place among the sites.
    pub index: usize,
    /// Its configuration.
    pub site: Arc<config::Site>,
    /// The scripts that see its requests.
    pub hooks: SiteHooks,
    /// Which of its responses are kept.
    pub caching: SitePolicies,
    /// The document root, without symbolic links.
    pub root: Vec<u8>,
    /// Finds files and scripts.
    pub router: Router,
    /// Who runs its scripts.
    pub handler: Handler,
    /// What the status page of such a pool shows; shared by all event loops.
    pub overview: Option<Arc<Overview>>,
    /// The access log of a pool that web servers reach by FastCGI.
    pub journal: Option<Journal>,
    /// The place whose application gets what this site's workers are not for.
    pub fallback: Option<usize>,
}

impl Place {
    /// The name under which the client reached the site, as `SERVER_NAME` tells it: the configured
    /// one.
    pub fn server_name<'a, B>(&'a self, request: &'a Request<B>) -> &'a str {
        match self.site.hosts.first() {
            Some(name) if !name.starts_with('*') => name,
            _ => service::host(request).map_or("", hosts::strip_port),
        }
    }
}

impl Front {
    /// Starts the event loops.
    ///
    /// # Errors
    /// Threads, logs or sockets that cannot be had.
    pub fn start(mut start: Start) -> io::Result<Front> {
        let server = Arc::new(start.server);
        if let Some(config::Fpm { global, .. }) = &server.fpm {
            access::write_as_fpm(Style { lowest: global.log_level, limit: global.log_limit });
        }
        let errors = access::open_errors()?;
        let loops = server.loops;
        let log = match &server.log.access {
            Some(_) => Some(access::Log::open(start.access_log)?),
            None => None,
        };
        // By the places of their sites.
        let (mut pool_logs, mut overviews) = (BTreeMap::new(), BTreeMap::new());
        for pool in &mut start.pools {
            if let Some(configured) = &server.sites[pool.site].fpm {
                let version = pool.exposed_version.take();
                let overview = Overview::new(configured.clone(), pool.segment.clone(), version);
                overviews.insert(pool.site, Arc::new(overview));
            }
            if let Some(file) = pool.access_log.take() {
                pool_logs.insert(pool.site, access::Log::open(Some(file))?);
            }
        }
        let sites: Vec<Arc<config::Site>> = server.sites.iter().cloned().map(Arc::new).collect();
        let hosts = Arc::new(Hosts::new(&sites));
        let presence = Arc::new(Presence::default());
        let balancer = Arc::new(Balancer::new(loops, TICK));
        let upstreams: Arc<[Upstream]> = server.upstreams.iter().map(fastcgi::upstream).collect();
        let lua = lua::engine(&server, start.scripts.as_deref());
        let cache = Content::new(&server);
        if start.is_successor {
            fastcgi::resolve(&upstreams, &server)?;
        }
        let queues = Queues::new(&start.pools, &overviews);
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..loops).map(|_| unbounded_channel()).unzip();

        let turns: Arc<[AtomicU64]> = (0..loops).map(|_| AtomicU64::new(0)).collect();
        let mut threads = Vec::new();
        for (index, inbox) in receivers.into_iter().enumerate() {
            let state = lua.as_ref().map(lua::state).transpose()?;
            let nobody = match &state {
                Some(state) if start.scripts.is_some() => Handler::Scripts(state.clone()),
                _ => Handler::Nobody,
            };
            let mut handlers: Vec<Handler> = sites
                .iter()
                .map(|site| site.upstream.map_or(nobody.clone(), Handler::Upstream))
                .collect();
            let mut gates = Vec::new();
            let mut bells = Vec::new();
            for (pool, queue) in start.pools.iter().zip(queues.sources()) {
                let site = &sites[pool.site];
                let bounds = Bounds {
                    queue: site.pool.queue_timeout.as_nanos() as u64,
                    inbox: server.limits.buffer,
                    queued: site.pool.queue,
                    share: site.pool.queue.div_ceil(loops),
                };
                let (want, alarm) = (pool.want.clone().map(slowly), pool.alarm.clone());
                let gate = Arc::new(Gate::new(queue.clone(), index as u16, bounds, want, alarm));
                bells.push(pool.bells[index].try_clone()?);
                handlers[pool.site] = Handler::Workers(gate.clone());
                gates.push(gate);
            }
            let mut places = Vec::new();
            for (nth, (site, handler)) in sites.iter().zip(handlers).enumerate() {
                let router = Router::new(site);
                places.push(Place {
                    index: nth,
                    site: site.clone(),
                    hooks: SiteHooks::new(lua.as_ref(), site),
                    caching: SitePolicies::new(site),
                    root: router.root().as_os_str().as_encoded_bytes().to_vec(),
                    router,
                    handler,
                    overview: overviews.get(&nth).cloned(),
                    journal: site
                        .fpm
                        .as_ref()
                        .zip(pool_logs.get(&nth))
                        .map(|(pool, log)| Journal::new(pool, log)),
                    fallback: site
                        .fallback
                        .as_ref()
                        .and_then(|name| sites.iter().position(|site| site.name == *name)),
                });
            }
            let home = Arc::new(Loop {
                server: server.clone(),
                places,
                gates: gates.into(),
                upstreams: upstreams.clone(),
                lua: state,
                calls: Calls::default(),
                cache: cache.clone(),
                hosts: hosts.clone(),
                log: log.as_ref().map(|log| Mutex::new(log.buffer())),
                links: Mutex::default(),
                draining: AtomicU64::new(0),
                began: Instant::now(),
                attended: AtomicU64::new(0),
                balancer: balancer.clone(),
                presence: presence.clone(),
                peers: senders.clone(),
                turns: turns.clone(),
                index,
            });
            let sockets = Sockets {
                http: start
                    .listeners
                    .iter()
                    .map(TcpListener::try_clone)
                    .collect::<io::Result<_>>()?,
                fastcgi: start.sockets.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?,
            };
            let thread =
                std::thread::Builder::new().name(format!("loop-{index}")).stack_size(STACK);
            threads.push(thread.spawn(move || run(home, sockets, bells, inbox))?);
        }
        Ok(Front {
            loops: senders,
            threads: Mutex::new(threads),
            log: Mutex::new(log),
            _lua: lua,
            upstreams,
            cache,
            pool_logs: Mutex::new(pool_logs.into_values().collect()),
            queues: Mutex::new(queues),
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
        let farewell = Farewell::new(left);
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
    pub fn run(&self, errand: &Errand) -> Result<(), String> {
        fastcgi::errand::run(&self.upstreams, errand)
    }

    /// How the addresses of the applications stand, each with its upstream's place in the
    /// configuration.
    pub fn standings(&self) -> impl Iterator<Item = (u16, Standing)> {
        let all = self.upstreams.iter().zip(0..);
        all.flat_map(|(upstream, place)| {
            upstream.standings().into_iter().map(move |one| (place, one))
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

/// What an event loop accepts from.
struct Sockets {
    http: Vec<TcpListener>,
    /// In the order of the configuration.
    fastcgi: Vec<OwnedFd>,
}

impl Sockets {
    /// Brings them to the event loop that runs here.
    fn listeners(self, home: &Loop) -> io::Result<Vec<Listener>> {
        let mut listeners =
            self.http.into_iter().map(Listener::http).collect::<io::Result<Vec<_>>>()?;
        for (place, socket) in self.fastcgi.into_iter().enumerate() {
            // Each connection would wake every loop that waits for it, so one does; but not one
            // that a script may hold up.
            if home.runs_scripts() || place % home.server.loops == home.index {
                listeners.push(Listener::fastcgi(socket, place)?);
            }
        }
        Ok(listeners)
    }
}

fn run(home: Arc<Loop>, sockets: Sockets, bells: Vec<OwnedFd>, inbox: UnboundedReceiver<Message>) {
    let bell = Bell::new(home.gates.clone());
    let awake = bell.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_park(move || bell.before_sleep())
        .on_thread_unpark(move || awake.after_sleep())
        .build();
    let result = runtime.and_then(|runtime| runtime.block_on(live(&home, sockets, bells, inbox)));
    if let Err(error) = result {
        give_up(&home, &error);
    }
}

/// Without this loop its share of the connections would hang: better that the supervisor starts
/// anew.
fn give_up(home: &Loop, error: &io::Error) -> ! {
    access::server(&format!("event loop {} cannot run: {error}", home.index));
    access::close_errors();
    std::process::abort();
}

async fn live(
    home: &Arc<Loop>,
    sockets: Sockets,
    bells: Vec<OwnedFd>,
    mut inbox: UnboundedReceiver<Message>,
) -> io::Result<()> {
    let _bells = Bell::listen(bells)?;
    let mut accepting = Vec::new();
    for listener in sockets.listeners(home)? {
        accepting.push(tokio::spawn(accept(home.clone(), listener)));
    }
    // One of them does it for all.
    if home.index == 0 {
        fastcgi::attend(&home.upstreams, &home.server, home.index);
        if let Some(cache) = &home.cache {
            cache.attend();
        }
    }
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut drain_until = None;
    let mut last = None;
    loop {
        tokio::select! {
            message = inbox.recv() => match message {
                Some(Message::Connection(handoff)) => {
                    home.balancer.left(home.index, handoff.is_client());
                    if let Ok(accepted) = handoff.attach() {
                        home.open(accepted);
                    }
                }
                Some(Message::Death { pool, instance, death }) => {
                    home.gates.iter().for_each(|gate| gate.worker_died(pool, instance, death));
                }
                Some(Message::Renew { old, source, farewell }) => {
                    home.gates.iter().for_each(|gate| gate.renew(old, source.clone(), farewell.clone()));
                }
                Some(Message::Forget { pool }) => {
                    home.gates.iter().for_each(|gate| gate.forget(pool));
                }
                Some(Message::Drain(_held)) => {
                    for task in accepting.drain(..) {
                        task.abort();
                    }
                    home.draining.store(tokamak_cost::now(), Ordering::Relaxed);
                }
                Some(Message::Finish) => {
                    drain_until = Some(tokamak_cost::now() + home.server.timeouts.drain.as_nanos() as u64);
                }
                Some(Message::Closed) => {}
                None => return Ok(()),
            },
            _ = tick.tick() => {
                let now = tokamak_cost::now();
                home.turns[home.index].fetch_add(1, Ordering::Relaxed);
                let record = Record::take(now);
                let is_in_time = match last.replace(record) {
                    Some(last) => home.balancer.report(home.index, last, record),
                    // The first tick comes at once.
                    None => {
                        home.balancer.begin(home.index, record);
                        true
                    }
                };
                home.attend(now);
                home.gates.iter().for_each(|gate| gate.tick(now));
                home.upstreams.iter().for_each(|upstream| upstream.tick(home.index, now));
                // What clients have sent while the loop was held up is still to be read.
                if is_in_time {
                    home.sweep(now);
                }
                home.calls.tidy();
                home.flush_logs();
            }
        }
        if let Some(until) = drain_until
            && (home.balancer.connections(home.index) == 0 || tokamak_cost::now() > until)
        {
            home.flush_logs();
            return Ok(());
        }
    }
}

async fn accept(home: Arc<Loop>, mut listener: Listener) {
    let mut serving = home.balancer.serving();
    loop {
        if listener.is_for_clients() && !home.balancer.serves(home.index) {
            let rest = async {
                // The balancer lives as long as its loops.
                let _ = serving.wait_for(|serving| home.index < *serving).await;
            };
            listener = match listener.suspended(rest, TICK).await {
                Ok(listener) => listener,
                Err(error) => give_up(&home, &error),
            };
        }
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => home.place(accepted),
                // Out of descriptors or memory: the connection stays in the backlog; trying at once
                // would spin.
                Err(_) => tokio::time::sleep(TICK).await,
            },
            _ = serving.changed(), if listener.is_for_clients() => {}
        }
    }
}

impl Loop {
    /// Gives an accepted connection to the loop that shall have it: an equal spread over those that
    /// serve, whoever accepted it. One of a web server is handed over only by a loop that has
    /// enough to do, for it may be for a single request, which costs less than that; if the loop
    /// itself runs scripts, it is spread over all.
    fn place(self: &Arc<Self>, accepted: Accepted) {
        if self.clients() >= self.server.limits.connections {
            return turn_away(accepted);
        }
        if !self.admits(&accepted) {
            return;
        }
        let now = tokamak_cost::coarse();
        let chosen = match accepted {
            Accepted::Fastcgi(..) => {
                self.balancer.for_server(self.index, !self.runs_scripts(), now)
            }
            Accepted::Http(..) => self.balancer.for_client(self.index, now),
        };
        if chosen == self.index {
            self.open(accepted);
        } else if let Ok(handoff) = accepted.detach() {
            self.send(chosen, handoff);
        }
    }

    /// Whether other loops shall have connections of this one.
    pub fn has_surplus(&self) -> bool {
        self.balancer.has_surplus(self.index)
    }

    /// The loop that takes over a connection of this one which is between two requests, if any.
    pub fn handover_target(&self) -> Option<usize> {
        // Loops that have nothing left to do may have ended.
        if self.is_draining() {
            None
        } else {
            self.balancer.handover_target(self.index, tokamak_cost::coarse())
        }
    }

    /// Gives a connection between two requests to another loop.
    pub fn hand_over(&self, target: usize, wire: Wire) {
        let Some((stream, history)) = wire.leave() else { return };
        // A connection that cannot be taken out of the event loop is closed, as one that has been
        // idle for long.
        if let Ok(handoff) = Accepted::Http(stream, history).detach() {
            self.send(target, handoff);
        }
    }

    fn send(&self, to: usize, handoff: Handoff) {
        // Counted at once, so that a burst is spread too; the other loop takes this count back.
        let is_client = handoff.is_client();
        self.balancer.joined(to, is_client);
        if self.peers[to].send(Message::Connection(handoff)).is_err() {
            self.balancer.left(to, is_client);
        }
    }

    /// Whether the loops do the work themselves that web servers ask for.
    fn runs_scripts(&self) -> bool {
        self.places.iter().any(|place| matches!(place.handler, Handler::Scripts(_)))
    }

    /// Whether a web server may connect from where it is.
    fn admits(&self, accepted: &Accepted) -> bool {
        let Accepted::Fastcgi(stream, place) = accepted else { return true };
        let pool = self.server.fpm_sockets().nth(*place).map(|(_, pool)| pool);
        let (Some(pool), Some(peer)) = (pool, stream.peer()) else { return true };
        let Some(allowed) = &pool.listen.allowed_clients else { return true };
        let admits = allowed.addresses.contains(&peer);
        if !admits {
            access::disallowed(&pool.name, &peer.to_string());
        }
        admits
    }

    fn open(self: &Arc<Self>, accepted: Accepted) {
        match accepted {
            Accepted::Http(stream, history) => {
                let screen = crate::screen::Limits {
                    head: self.server.limits.head,
                    fields: self.server.limits.headers,
                    body: self.server.limits.body,
                };
                // A client that has gone again is no news.
                let Ok((wire, link)) = Wire::new(stream, history, screen) else { return };
                self.watch(Watched::Http(link.clone()), |open| {
                    service::converse(self.clone(), wire, link, open)
                });
            }
            Accepted::Fastcgi(stream, socket) => {
                let heart = Arc::new(Heart::new());
                self.watch(Watched::Fastcgi(heart.clone()), |open| {
                    responder::converse(self.clone(), stream, socket, heart, open)
                });
            }
        }
    }

    /// Runs a conversation, and watches its time limits.
    fn watch<F>(self: &Arc<Self>, watched: Watched, converse: impl FnOnce(OpenConnection) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let is_client = matches!(watched, Watched::Http(_));
        self.balancer.joined(self.index, is_client);
        let place = lock(&self.links).reserve();
        let task = tokio::spawn(converse(OpenConnection { home: self.clone(), place, is_client }));
        lock(&self.links).open[place] = Some((task.abort_handle(), watched));
    }

    /// Ends the connections whose time is up.
    fn sweep(&self, now: u64) {
        let limits = &self.server.timeouts;
        let idle = if self.is_draining() { limits.idle.min(DRAIN_IDLE) } else { limits.idle };
        for (task, watched) in lock(&self.links).open.iter().flatten() {
            let (pulse, since) = watched.heart().pulse();
            let limit = match pulse {
                Pulse::Idle => idle,
                Pulse::Head => limits.head,
                Pulse::Body => limits.body,
                Pulse::Sending => limits.send,
                Pulse::Serving => {
                    if now.saturating_sub(since) > TICK.as_nanos() as u64 {
                        watched.heart().call();
                    }
                    continue;
                }
            };
            if now.saturating_sub(since) > limit.as_nanos() as u64 {
                task.abort();
            }
        }
    }

    /// Looks after the pools if that is due. They are looked after when the event loop is about to
    /// sleep, but one with enough to do never sleeps: whatever can keep it busy calls this.
    pub fn attend(&self, now: u64) {
        if now.saturating_sub(self.attended.load(Ordering::Relaxed)) >= ATTEND_EVERY {
            self.attended.store(now, Ordering::Relaxed);
            self.gates.iter().for_each(|gate| gate.attend());
        }
    }

    /// Open connections of all loops.
    pub fn clients(&self) -> usize {
        self.balancer.all_connections()
    }

    /// Whether connections are to be closed after their next response.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed) > 0
    }

    /// For how long it has accepted nothing more, in nanoseconds, if it has stopped.
    pub fn draining_for(&self, now: u64) -> Option<u64> {
        let since = self.draining.load(Ordering::Relaxed);
        (since > 0).then(|| now.saturating_sub(since))
    }

    /// The site that a host name belongs to; the first one for an unknown name.
    pub fn place_of(&self, host: Option<&str>) -> &Place {
        &self.places[self.hosts.find(host.unwrap_or(""))]
    }

    fn flush_logs(&self) {
        if let Some(log) = &self.log {
            lock(log).flush();
        }
        self.places.iter().filter_map(|place| place.journal.as_ref()).for_each(Journal::flush);
    }

    /// Whether an access log is written.
    pub fn wants_entries(&self) -> bool {
        self.log.is_some()
    }

    /// Writes a line of the access log.
    pub fn log(&self, entry: &access::Entry, sent: u64, ledger: &Ledger) {
        if let (Some(log), Some(configured)) = (&self.log, &self.server.log.access) {
            lock(log).write(configured.format, entry, sent, ledger);
        }
    }
}

/// Answers somebody for whom there is no room.
fn turn_away(accepted: Accepted) {
    // A web server that is cut off tries again, or another one.
    if let Accepted::Http(stream, _) = accepted {
        connection::turn_away(stream);
    }
}

/// Counts a connection as long as its task lives.
pub struct OpenConnection {
    home: Arc<Loop>,
    place: usize,
    is_client: bool,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        lock(&self.home.links).release(self.place);
        self.home.balancer.left(self.home.index, self.is_client);
        if self.home.is_draining() {
            let _ = self.home.peers[self.home.index].send(Message::Closed);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Poisoned by a panic that has been reported: the data are counters and buffers, usable still.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
