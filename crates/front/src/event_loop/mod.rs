//! The event loops: each runs on a thread of its own, accepts connections, serves them, and looks
//! after its pools and time limits.

pub mod accept;
mod connections;
mod run;
mod timeouts;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use tokamak_upstream::shm::{self, Death, Gate, OnDrained};
use tokio::sync::mpsc::UnboundedSender;

use crate::client::activity::Activity;
use crate::context::Context;
use crate::fastcgi_server;
use crate::http::h1::{self, H1Io, screen};
use crate::log;
use crate::site::Handler;
use accept::{Accepted, Handoff};
use connections::{Connections, OpenConnection, Watched};

pub use run::{Sockets, run};

/// How often time limits are looked at; so they are met this much late at the most.
pub const TICK: Duration = Duration::from_millis(200);

/// An event loop that never runs out of work looks after its pools this often, in nanoseconds. Ten
/// times longer would add to the latency of every answer of a busy server, ten times shorter would
/// look in vain most of the time.
const ATTEND_EVERY: u64 = 1_000_000;

/// What an event loop is told.
pub enum Message {
    /// Serve this connection, which another loop accepted.
    Connection(Handoff),
    /// A worker has died.
    Death { pool: u32, instance: u32, death: Death },
    /// A pool gets another queue.
    Renew { old: u32, source: shm::Source, farewell: OnDrained },
    /// All workers of a queue are dead that is not in use any more.
    Forget { pool: u32 },
    /// Accept no more. The sender is dropped once nothing more is accepted.
    Drain(mpsc::Sender<()>),
    /// No loop accepts any more, so none hands over a connection: end when the last one is closed.
    Finish,
    /// A connection of a draining loop has closed; it may have been the last one.
    Closed,
}

/// One event loop.
pub struct EventLoop {
    /// What its requests share.
    pub context: Arc<Context>,
    /// The ways to the pools, in their order.
    gates: Arc<[Arc<Gate>]>,
    connections: Mutex<Connections>,
    /// When the pools were last attended to.
    attended: AtomicU64,
    /// All loops, this one included.
    peers: Vec<UnboundedSender<Message>>,
    /// How often each loop has come to its tick.
    turns: Arc<[AtomicU64]>,
}

impl EventLoop {
    /// A loop that has not begun.
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

    /// Gives an accepted connection to the loop that is to have it: an equal spread over those that
    /// serve, whoever accepted it. One of a web server is handed over only by a loop that has
    /// enough to do, for it may be for a single request, which costs less than that; if the loop
    /// itself runs scripts, it is spread over all.
    fn place(self: &Arc<Self>, accepted: Accepted) {
        if self.context.connections() >= self.context.config.limits.connections {
            return turn_away(accepted);
        }
        if !self.admits(&accepted) {
            return;
        }
        let now = tokamak_cost::coarse();
        let chosen = match accepted {
            Accepted::Fastcgi(..) => {
                self.context.balancer.for_server(self.context.index, !self.runs_scripts(), now)
            }
            Accepted::Http(..) => self.context.balancer.for_client(self.context.index, now),
        };
        if chosen == self.context.index {
            self.open(accepted);
        } else if let Ok(handoff) = accepted.detach() {
            self.send(chosen, handoff);
        }
    }

    /// Gives a connection between two requests to another loop.
    fn hand_over(&self, target: usize, io: H1Io) {
        let Some((stream, history)) = io.leave() else { return };
        // A connection that cannot be taken out of the event loop is closed, as one that has been
        // idle for long.
        if let Ok(handoff) = Accepted::Http(stream, history).detach() {
            self.send(target, handoff);
        }
    }

    fn send(&self, to: usize, handoff: Handoff) {
        // Counted at once, so that a burst is spread too; the other loop takes this count back.
        let is_client = handoff.is_client();
        self.context.balancer.joined(to, is_client);
        if self.peers[to].send(Message::Connection(handoff)).is_err() {
            self.context.balancer.left(to, is_client);
        }
    }

    /// Whether the loops do the work themselves that web servers ask for.
    fn runs_scripts(&self) -> bool {
        self.context.sites.iter().any(|site| matches!(site.handler, Handler::Scripts(_)))
    }

    /// Whether a web server may connect from where it is.
    fn admits(&self, accepted: &Accepted) -> bool {
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
                let limits = &context.config.limits;
                let screen =
                    screen::Limits { head: limits.head, fields: limits.headers, body: limits.body };
                // A client that has gone again is no news.
                let Ok((io, state)) = H1Io::new(stream, history, screen) else { return };
                let this = self.clone();
                self.watch(Watched::Http(state.clone()), |open| async move {
                    let handover = h1::converse(context, io, state).await;
                    drop(open);
                    if let Some((io, target)) = handover {
                        this.hand_over(target, io);
                    }
                });
            }
            Accepted::Fastcgi(stream, socket) => {
                let activity = Arc::new(Activity::new());
                self.watch(Watched::Fastcgi(activity.clone()), |open| async move {
                    fastcgi_server::converse(context, stream, socket, activity).await;
                    drop(open);
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
        self.context.balancer.joined(self.context.index, is_client);
        let position = self.connections().reserve();
        let open = OpenConnection { event_loop: self.clone(), position, is_client };
        let task = tokio::spawn(attended(self.clone(), converse(open)));
        self.connections().open[position] = Some((task.abort_handle(), watched));
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        // Poisoned by a panic that has been reported: each change of it is a single call.
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks after the pools if that is due. They are looked after when the event loop is about to
    /// sleep, but one with enough to do never sleeps: whatever can keep it busy calls this (see
    /// [`attended`]).
    fn attend(&self, now: u64) {
        if now.saturating_sub(self.attended.load(Ordering::Relaxed)) >= ATTEND_EVERY {
            self.attended.store(now, Ordering::Relaxed);
            self.gates.iter().for_each(|gate| gate.attend());
        }
    }
}

/// Runs a connection's task, which may keep the event loop busy, and looks after the pools whenever
/// it is polled.
async fn attended(event_loop: Arc<EventLoop>, task: impl Future<Output = ()>) {
    let mut task = pin!(task);
    poll_fn(|cx| {
        event_loop.attend(tokamak_cost::now());
        task.as_mut().poll(cx)
    })
    .await;
}

/// Tells a client that there is no room for it.
fn turn_away(accepted: Accepted) {
    // A web server that is cut off tries again, or another one.
    if let Accepted::Http(stream, _) = accepted {
        h1::turn_away(stream);
    }
}
