//! The life of an event loop: it starts to accept, listens to messages, and ticks.

use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokamak_upstream::shm::Bell;
use tokio::sync::mpsc::UnboundedReceiver;

use super::accept::Listener;
use super::{EventLoop, Message, TICK};
use crate::balancer::Record;
use crate::{backend, log};

/// What an event loop accepts from.
pub struct Sockets {
    /// For HTTP clients.
    pub http: Vec<TcpListener>,
    /// For web servers, in the order of the configuration.
    pub fastcgi: Vec<OwnedFd>,
}

impl Sockets {
    /// Brings them to the event loop that runs here.
    fn listeners(self, this: &EventLoop) -> io::Result<Vec<Listener>> {
        let mut listeners =
            self.http.into_iter().map(Listener::http).collect::<io::Result<Vec<_>>>()?;
        for (index, socket) in self.fastcgi.into_iter().enumerate() {
            // Each connection would wake every loop that waits for it, so one does; but not one
            // that a script may hold up.
            if this.runs_scripts() || index % this.context.config.loops == this.context.index {
                listeners.push(Listener::fastcgi(socket, index)?);
            }
        }
        Ok(listeners)
    }
}

/// Runs an event loop until the front has been drained.
pub fn run(
    this: Arc<EventLoop>,
    sockets: Sockets,
    bells: Vec<OwnedFd>,
    inbox: UnboundedReceiver<Message>,
) {
    let bell = Bell::new(this.gates.clone());
    let awake = bell.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_park(move || bell.before_sleep())
        .on_thread_unpark(move || awake.after_sleep())
        .build();
    let result = runtime.and_then(|runtime| runtime.block_on(live(&this, sockets, bells, inbox)));
    if let Err(error) = result {
        give_up(&this, &error);
    }
}

/// Without this loop its share of the connections would hang: better that the supervisor starts
/// anew.
fn give_up(this: &EventLoop, error: &io::Error) -> ! {
    log::server(&format!("event loop {} cannot run: {error}", this.context.index));
    log::close_errors();
    std::process::abort();
}

async fn live(
    this: &Arc<EventLoop>,
    sockets: Sockets,
    bells: Vec<OwnedFd>,
    mut inbox: UnboundedReceiver<Message>,
) -> io::Result<()> {
    let _bells = Bell::listen(bells)?;
    let mut accepting = Vec::new();
    for listener in sockets.listeners(this)? {
        accepting.push(tokio::spawn(accept(this.clone(), listener)));
    }
    // One of them does it for all.
    if this.context.index == 0 {
        backend::fastcgi::attend(&this.context.upstreams, &this.context.config, this.context.index);
        if let Some(cache) = &this.context.cache {
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
                    this.context.balancer.left(this.context.index, handoff.is_client());
                    if let Ok(accepted) = handoff.attach() {
                        this.open(accepted);
                    }
                }
                Some(Message::Death { pool, instance, death }) => {
                    this.gates.iter().for_each(|gate| gate.worker_died(pool, instance, death));
                }
                Some(Message::Renew { old, source, farewell }) => {
                    this.gates.iter().for_each(|gate| gate.renew(old, source.clone(), farewell.clone()));
                }
                Some(Message::Forget { pool }) => {
                    this.gates.iter().for_each(|gate| gate.forget(pool));
                }
                Some(Message::Drain(_held)) => {
                    for task in accepting.drain(..) {
                        task.abort();
                    }
                    this.context.draining.store(tokamak_cost::now(), Ordering::Relaxed);
                }
                Some(Message::Finish) => {
                    drain_until = Some(tokamak_cost::now() + this.context.config.timeouts.drain.as_nanos() as u64);
                }
                Some(Message::Closed) => {}
                None => return Ok(()),
            },
            _ = tick.tick() => {
                let now = tokamak_cost::now();
                this.turns[this.context.index].fetch_add(1, Ordering::Relaxed);
                let record = Record::take(now);
                let is_in_time = match last.replace(record) {
                    Some(last) => this.context.balancer.report(this.context.index, last, record),
                    // The first tick comes at once.
                    None => {
                        this.context.balancer.begin(this.context.index, record);
                        true
                    }
                };
                this.attend(now);
                this.gates.iter().for_each(|gate| gate.tick(now));
                this.context.upstreams.iter().for_each(|upstream| upstream.tick(this.context.index, now));
                // What clients have sent while the loop was held up is still to be read.
                if is_in_time {
                    this.sweep(now);
                }
                this.context.calls.tidy();
                this.context.flush_logs();
            }
        }
        if let Some(until) = drain_until
            && (this.context.balancer.connections(this.context.index) == 0
                || tokamak_cost::now() > until)
        {
            this.context.flush_logs();
            return Ok(());
        }
    }
}

async fn accept(this: Arc<EventLoop>, mut listener: Listener) {
    let mut serving = this.context.balancer.serving();
    loop {
        if listener.is_for_clients() && !this.context.balancer.serves(this.context.index) {
            let rest = async {
                // The balancer lives as long as its loops.
                let _ = serving.wait_for(|serving| this.context.index < *serving).await;
            };
            listener = match listener.suspended(rest, TICK).await {
                Ok(listener) => listener,
                Err(error) => give_up(&this, &error),
            };
        }
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => this.place(accepted),
                // Out of descriptors or memory: the connection stays in the backlog; trying at once
                // would spin.
                Err(_) => tokio::time::sleep(TICK).await,
            },
            _ = serving.changed(), if listener.is_for_clients() => {}
        }
    }
}
