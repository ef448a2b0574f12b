//! The event loops. Each runs on a thread of its own, accepts and serves connections, and attends
//! to its pools and timeouts.

pub mod accept;
mod connections;
mod quic;
mod run;
mod timeouts;

use std::future::poll_fn;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use bytes::Bytes;
use tokamak_upstream::shm::{self, Death, Gate, OnLastDrop};
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedSender;

use crate::client::Addresses;
use crate::client::activity::{Activity, Waiting};
use crate::context::Context;
use crate::failure::Failure;
use crate::fastcgi_server;
use crate::http::h1::{self, ConnHistory, H1Io, Next, screen};
use crate::http::multiplex::ConnState;
use crate::http::{h2, proxy_protocol, transport};
use crate::log;
use crate::site::Handler;
use crate::tls::{NotSecured, Protocol};
use accept::{Accepted, Handoff};
use connections::{Connections, OpenConnection, Watched};

pub use quic::QuicSockets;
pub use run::{Sockets, run};

/// How often timeouts are checked while there are connections. A connection may exceed its timeout
/// by at most this much.
pub const TICK: Duration = Duration::from_millis(200);

/// An event loop that never runs out of work looks after its pools this often, in nanoseconds. Ten
/// times longer would add to the latency of every answer of a busy server, ten times shorter would
/// look in vain most of the time.
const ATTEND_EVERY: u64 = 1_000_000;

/// A message to an event loop.
pub enum Message {
    /// Serve this connection, which another loop accepted.
    Connection(Handoff),
    /// A worker has died.
    Death { pool: u32, instance: u32, death: Death },
    /// A pool gets another queue. The loop drops `taken` when its new requests go there, and
    /// `drained` when no request is left in the old queue.
    Renew { old: u32, source: shm::Source, taken: OnLastDrop, drained: OnLastDrop },
    /// A queue is no longer in use, and all its workers are dead.
    Forget { pool: u32 },
    /// Stop accepting. The loop drops the sender when it has stopped.
    Drain(mpsc::Sender<()>),
    /// No loop accepts any more, so no connection is handed over any more. End when the last one is
    /// closed.
    Finish,
    /// A connection of a draining loop has closed; it may have been the last one.
    Closed,
}

/// Why a connection is turned away when there are too many.
const OPEN_CONNECTIONS: &str = "too many connections (limits.connections)";

/// Why a connection is turned away when too many files are open.
const OPEN_FILES: &str = "too many connections (RLIMIT_NOFILE, of open files)";

/// One event loop.
pub struct EventLoop {
    /// What its requests share.
    pub context: Arc<Context>,
    /// The gates to the pools, in their order.
    gates: Arc<[Arc<Gate>]>,
    connections: Mutex<Connections>,
    /// When the pools were last attended to.
    attended: AtomicU64,
    /// All loops, this one included.
    peers: Vec<UnboundedSender<Message>>,
    /// How often each loop has ticked.
    turns: Arc<[AtomicU64]>,
}

impl EventLoop {
    /// Makes an event loop. It does not run yet.
    pub fn new(
        context: Context,
        gates: Vec<Arc<Gate>>,
        peers: Vec<UnboundedSender<Message>>,
        turns: Arc<[AtomicU64]>,
    ) -> Arc<EventLoop> {
        Arc::new(EventLoop {
            context: Arc::new(context),
            gates: gates.into(),
            connections: Mutex::default(),
            attended: AtomicU64::new(0),
            peers,
            turns,
        })
    }

    /// Gives an accepted connection to the loop that should serve it. Clients' connections are
    /// spread equally over the serving loops. A web server's connection is handed over only by a
    /// busy loop, because it may be for a single request, which costs less than the handover. If
    /// the loops run scripts themselves, such connections are spread over all of them.
    fn place(self: &Arc<Self>, accepted: Accepted) {
        let counters = self.context.counters.as_deref();
        // After it is refused or counted as open: until then it must not look closed. And before
        // the client gets any answer, because it may read the metrics next.
        let count_accepted = || counters.iter().for_each(|counters| counters.accepted.add(1));
        let bound = self.bound_reached(&accepted);
        if bound.is_some() || !self.admits(&accepted) {
            counters.iter().for_each(|counters| counters.refused.add(1));
            count_accepted();
            if let (Some(bound), Some(Ok(client))) =
                (bound, accepted.stream().map(TcpStream::peer_addr))
            {
                log::too_many_connections(&client, bound);
            }
            return turn_away(accepted, bound == Some(OPEN_FILES));
        }
        let now = tokamak_cost::coarse();
        let chosen = match accepted {
            Accepted::Fastcgi(..) => {
                self.context.balancer.for_server(self.context.index, !self.runs_scripts(), now)
            }
            Accepted::Http(..) | Accepted::Tls(..) | Accepted::Proxied(..) => {
                self.context.balancer.for_client(self.context.index, now)
            }
        };
        if chosen == self.context.index {
            self.open(accepted);
            count_accepted();
        } else if let Ok(handoff) = accepted.detach() {
            let is_client = handoff.is_client();
            self.announce(chosen, is_client);
            count_accepted();
            self.send(chosen, Some(handoff), is_client);
        }
    }

    /// Why there is no room for this connection, if there is none.
    fn bound_reached(&self, accepted: &Accepted) -> Option<&'static str> {
        if self.context.connections() >= self.context.config.limits.connections {
            return Some(OPEN_CONNECTIONS);
        }
        // The kernel gives the lowest number that is free.
        let number = u64::try_from(accepted.stream()?.as_raw_fd()).ok()?;
        (number >= self.context.last_descriptor).then_some(OPEN_FILES)
    }

    /// Gives a connection between two requests to another loop.
    fn hand_over(&self, target: usize, io: H1Io, open: OpenConnection) {
        // Counted there before it is no longer counted here, so that it never looks closed.
        let is_client = open.is_client;
        self.announce(target, is_client);
        // What is watched has a half of the socket.
        drop(open);
        // If the connection cannot be taken out of the event loop, it is closed, as one that has
        // been idle for too long.
        let handoff =
            io.leave().and_then(|(stream, history)| Accepted::Http(stream, history).detach().ok());
        self.send(target, handoff, is_client);
    }

    /// Goes on with a connection whose client began with HTTP/2.
    async fn http2(self: Arc<Self>, io: H1Io, come: Bytes, open: OpenConnection) {
        let state = Arc::new(ConnState::new(io.addresses().clone()));
        // What was watched has a half of the socket.
        self.connections().replace(open.position, Watched::Multiplexed(state.clone()));
        if let Some((stream, _)) = io.leave() {
            h2::bound_unsent(&stream);
            h2::serve_connection(self.context.clone(), (stream, None), come, state).await;
        }
        drop(open);
    }

    /// Counts a connection for the loop that it will be sent to: at once, so that a burst is spread
    /// too. That loop takes this count back.
    fn announce(&self, to: usize, is_client: bool) {
        self.context.balancer.joined(to, is_client);
    }

    /// Sends a connection that has been announced.
    fn send(&self, to: usize, handoff: Option<Handoff>, is_client: bool) {
        let sent = handoff.map(|handoff| self.peers[to].send(Message::Connection(handoff)));
        if !matches!(sent, Some(Ok(()))) {
            self.context.balancer.left(to, is_client);
        }
    }

    /// Whether Lua scripts answer web servers, on the event loops themselves.
    fn runs_scripts(&self) -> bool {
        self.context.sites.iter().any(|site| matches!(site.handler, Handler::Scripts(_)))
    }

    /// Whether a web server may connect from its address, or a proxy.
    fn admits(&self, accepted: &Accepted) -> bool {
        if let Accepted::Proxied(_, addresses, _) = accepted {
            let admits = self.context.config.proxies.trusts(addresses.peer.ip());
            if !admits {
                log::unproxied(&addresses.peer, "its address is not in `trusted_proxies`");
            }
            return admits;
        }
        let Accepted::Fastcgi(stream, socket) = accepted else { return true };
        let pool = self.context.config.fpm_sockets().nth(*socket).map(|(_, pool)| pool);
        let (Some(pool), Some(peer)) = (pool, stream.peer()) else { return true };
        let Some(allowed) = &pool.listen.allowed_clients else { return true };
        let admits = allowed.addresses.contains(&peer);
        if !admits {
            log::disallowed(&pool.name, &peer.to_string());
        }
        admits
    }

    fn open(self: &Arc<Self>, accepted: Accepted) {
        let context = self.context.clone();
        match accepted {
            Accepted::Http(stream, history) => {
                let takes_http2 = context.config.http2.enabled;
                let halves = transport::plain(stream);
                let (io, state) = H1Io::new(halves, history, self.screen(), takes_http2);
                let this = self.clone();
                self.watch(Watched::Http(state.clone()), |open| async move {
                    let (io, next) = h1::serve_connection(context, io, state).await;
                    match next {
                        Next::Close => {}
                        Next::HandOver(target) => return this.hand_over(target, io, open),
                        // Boxed, because it is large, and few connections need it.
                        Next::Http2(come) => return Box::pin(this.http2(io, come, open)).await,
                    }
                    drop(open);
                    // Dropped in one piece: a half of a socket is shut down before it is closed,
                    // which is a system call for nothing.
                    drop(io.leave());
                });
            }
            Accepted::Proxied(stream, proxy, is_tls) => {
                let activity = Arc::new(Activity::new());
                // The proxy sends the header at once, so it has the time of a head from now on.
                activity.set(Waiting::Head, tokamak_cost::coarse());
                let this = self.clone();
                self.watch(Watched::Proxied(activity), |open| async move {
                    if let Some(addresses) = proxy_protocol::read(&stream, proxy).await {
                        this.open(Accepted::client(stream, addresses, is_tls));
                    }
                    drop(open);
                });
            }
            Accepted::Tls(stream, addresses) => {
                let activity = Arc::new(Activity::new());
                // A client begins at once, so its handshake has the time of a head from now on.
                activity.set(Waiting::Head, tokamak_cost::coarse());
                let this = self.clone();
                self.watch(Watched::Handshake(activity), |open| async move {
                    // Boxed, because what follows needs less, and may take much longer.
                    let serving = Box::pin(this.secure(stream, addresses, &open)).await;
                    if let Some(serving) = serving {
                        serving.await;
                    }
                    drop(open);
                });
            }
            Accepted::Fastcgi(stream, socket) => {
                let activity = Arc::new(Activity::new());
                self.watch(Watched::Fastcgi(activity.clone()), |open| async move {
                    fastcgi_server::serve(context, stream, socket, activity).await;
                    drop(open);
                });
            }
        }
    }

    /// Makes the handshake of a connection. Returns the serving of the connection.
    async fn secure(
        self: Arc<Self>,
        stream: TcpStream,
        addresses: Arc<Addresses>,
        open: &OpenConnection,
    ) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        // Without it there is no such listener.
        let tls = self.context.tls.as_ref()?;
        let secured = match tls.handshake(stream, &self.context.handshake_turn).await {
            Ok(secured) => secured,
            Err(NotSecured::Plain(stream)) => {
                log::refused(&addresses.peer, 400, "HTTP without TLS on a port for TLS");
                h1::turn_away(stream, Failure::PlainHttp);
                return None;
            }
            Err(NotSecured::Refused(stream, error)) => {
                log::no_handshake(&addresses.peer, &error.to_string());
                h1::part_from(stream);
                return None;
            }
            Err(NotSecured::Closed(error)) => {
                if let Some(error) = error {
                    log::no_handshake(&addresses.peer, &error.to_string());
                }
                return None;
            }
        };
        let addresses = Arc::new(addresses.secured(secured.session));
        let context = self.context.clone();
        Some(match secured.protocol {
            Protocol::Http1 => {
                let history = ConnHistory { addresses, requests: 0 };
                let halves = transport::secured(secured.stream, secured.fragment);
                let (io, state) = H1Io::new(halves, history, self.screen(), false);
                self.connections().replace(open.position, Watched::Http(state.clone()));
                Box::pin(async move { drop(h1::serve_connection(context, io, state).await) })
            }
            Protocol::Http2 => {
                let state = Arc::new(ConnState::new(addresses));
                self.connections().replace(open.position, Watched::Multiplexed(state.clone()));
                h2::bound_unsent(secured.stream.get_ref().0);
                let transport = (secured.stream, secured.fragment);
                Box::pin(h2::serve_connection(context, transport, Bytes::new(), state))
            }
        })
    }

    fn screen(&self) -> screen::Limits {
        let limits = &self.context.config.limits;
        // How long a body may be depends on its path: the pipeline knows.
        screen::Limits { head: limits.head, fields: limits.headers, body: screen::ANY_BODY }
    }

    /// Runs a connection's task, and watches its timeouts.
    fn watch<F>(self: &Arc<Self>, watched: Watched, serve: impl FnOnce(OpenConnection) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let is_client = !matches!(watched, Watched::Fastcgi(_));
        self.context.balancer.joined(self.context.index, is_client);
        let position = self.connections().reserve();
        let open = OpenConnection { event_loop: self.clone(), position, is_client };
        // Boxed, because it is large, and copied several times on its way into the runtime.
        let task = tokio::spawn(attended(self.clone(), Box::pin(serve(open))));
        self.connections().open[position] = Some((task.abort_handle(), watched));
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        // If a panic has poisoned the lock, it has been reported. Each change is a single call, so
        // the data are intact.
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Attends to the pools if that is due. An event loop attends to them when it is about to
    /// sleep, but a busy loop never sleeps. So every task that can keep it busy calls this (see
    /// [`attended`]).
    fn attend(&self) {
        if self.gates.is_empty() {
            return;
        }
        let now = tokamak_cost::now();
        if now.saturating_sub(self.attended.load(Ordering::Relaxed)) >= ATTEND_EVERY {
            self.attended.store(now, Ordering::Relaxed);
            self.gates.iter().for_each(|gate| gate.attend());
        }
    }
}

/// Runs a connection's task, and attends to the pools whenever the task is polled, because it may
/// keep the event loop busy.
async fn attended(event_loop: Arc<EventLoop>, mut task: Pin<Box<impl Future<Output = ()>>>) {
    poll_fn(|cx| {
        event_loop.attend();
        task.as_mut().poll(cx)
    })
    .await;
}

/// Closes a connection; tells a client that there are too many.
fn turn_away(accepted: Accepted, at_once: bool) {
    // A web server whose connection is closed tries again, or tries another server. With TLS the
    // page would need a handshake first.
    match accepted {
        Accepted::Http(stream, _) if at_once => {
            h1::turn_away_at_once(&stream, Failure::TooManyConnections);
        }
        Accepted::Http(stream, _) => h1::turn_away(stream, Failure::TooManyConnections),
        _ => {}
    }
}
