//! The life of an event loop: it starts to accept, listens to messages, and ticks.

use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokamak_upstream::shm::{Gate, Notifier};
use tokio::sync::mpsc::UnboundedReceiver;

use super::accept::{Layers, Listener};
use super::quic::{Quic, QuicSockets};
use super::{EventLoop, Message, TICK};
use crate::balancer::Record;
use crate::{backend, log};

/// How long before the end of the time for draining clients of QUIC are told that it is over, in
/// nanoseconds: a tick later, and what that takes, is still before the end.
const TIME_TO_CLOSE: u64 = 2 * TICK.as_nanos() as u64;

/// The sockets on which an event loop accepts.
pub struct Sockets {
    /// For HTTP clients.
    pub http: Vec<TcpListener>,
    /// For HTTP clients with TLS.
    pub tls: Vec<TcpListener>,
    /// For clients with HTTP/3, if there are to be any.
    pub quic: Option<QuicSockets>,
    /// For web servers, in the order of the configuration.
    pub fastcgi: Vec<OwnedFd>,
}

impl Sockets {
    /// Registers the sockets with the event loop that runs on this thread.
    fn listeners(self, this: &EventLoop) -> io::Result<Vec<Listener>> {
        let proxied = &this.context.config.proxies.protocol;
        let listener = |(index, (socket, is_tls)): (usize, (TcpListener, bool))| {
            let is_proxied = !proxied.is_empty() && proxied.contains(&socket.local_addr()?);
            Listener::http(socket, index, Layers { is_proxied, is_tls })
        };
        let plain = self.http.into_iter().map(|socket| (socket, false));
        let tls = self.tls.into_iter().map(|socket| (socket, true));
        let all = plain.chain(tls).enumerate().map(listener);
        let mut listeners = all.collect::<io::Result<Vec<_>>>()?;
        for (index, socket) in self.fastcgi.into_iter().enumerate() {
            // Each connection wakes every loop that waits for it, so only one loop waits. If a
            // script may hold up that loop, all loops wait.
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
    let bell = Notifier::new(this.gates.clone());
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

/// Ends the process so that the supervisor starts it again. Without this loop its share of the
/// connections would hang.
fn give_up(this: &EventLoop, error: &io::Error) -> ! {
    log::server(&format!("event loop {} cannot run: {error}", this.context.index));
    log::close_errors();
    std::process::abort();
}

async fn live(
    this: &Arc<EventLoop>,
    mut sockets: Sockets,
    bells: Vec<OwnedFd>,
    mut inbox: UnboundedReceiver<Message>,
) -> io::Result<()> {
    let EventLoop { context, .. } = &**this;
    let _bells = Notifier::listen(bells)?;
    let mut accepting = Vec::new();
    let quic = sockets.quic.take();
    let mut quic = quic.map(|quic| Quic::open(this, quic)).transpose()?;
    for listener in sockets.listeners(this)? {
        accepting.push(tokio::spawn(accept(this.clone(), listener)));
    }
    for hub in context.hubs() {
        tokio::spawn(hub.clone().give_out(context.index));
    }
    // One loop does it for all.
    if context.index == 0 {
        backend::upstream::attend(&context.upstreams, &context.config, context.index);
        if let Some(cache) = &context.cache {
            cache.attend();
        }
        context.hubs().for_each(|hub| _ = tokio::spawn(hub.clone().follow()));
    }
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut drain_until = None;
    let mut last = None;
    let mut is_idle = false;
    loop {
        tokio::select! {
            () = context.balancer.woken(context.index), if is_idle => {
                is_idle = false;
                tick.reset_immediately();
            }
            message = inbox.recv() => match message {
                Some(Message::Drain(_held)) => {
                    for task in accepting.drain(..) {
                        task.abort();
                    }
                    quic.iter_mut().for_each(Quic::drain);
                    context.draining.store(tokamak_cost::now(), Ordering::Relaxed);
                    // Their clients come back to the loops that accept now.
                    for hub in context.hubs() {
                        hub.hub.close(context.index);
                    }
                }
                Some(Message::Finish) => {
                    let drain = context.config.timeouts.drain.as_nanos() as u64;
                    drain_until = Some(tokamak_cost::now() + drain);
                }
                Some(message) => this.receive(message),
                None => return Ok(()),
            },
            _ = tick.tick() => {
                is_idle = context.balancer.goes_idle(context.index);
                this.tick(&mut last, is_idle);
                if is_idle {
                    tick.reset_after(context.config.timeouts.heartbeat());
                }
            }
        }
        if let Some(until) = drain_until {
            let (now, is_idle) =
                (tokamak_cost::now(), context.balancer.connections(context.index) == 0);
            // The end of this process tells clients of TCP; those of QUIC are told by packets.
            if (is_idle || now + TIME_TO_CLOSE > until)
                && let Some(quic) = quic.take()
            {
                quic.close().await;
            }
            if is_idle || now > until {
                context.flush_logs();
                return Ok(());
            }
        }
    }
}

impl EventLoop {
    /// Carries out a message. Messages about the end are handled by the loop itself.
    fn receive(self: &Arc<Self>, message: Message) {
        match message {
            Message::Connection(handoff) => {
                let is_client = handoff.is_client();
                if let Ok(accepted) = handoff.attach() {
                    self.open(accepted);
                }
                self.context.balancer.left(self.context.index, is_client);
            }
            Message::Death { pool, instance, death } => {
                self.gates.iter().for_each(|gate| gate.worker_died(pool, instance, death));
            }
            Message::Renew { old, source, taken, drained } => {
                let renew = |gate: &Arc<Gate>| gate.renew(old, source.clone(), drained.clone());
                self.gates.iter().for_each(renew);
                drop(taken);
            }
            Message::Forget { pool } => self.gates.iter().for_each(|gate| gate.forget(pool)),
            Message::Drain(_) | Message::Finish | Message::Closed => {}
        }
    }

    /// Does the periodic work. `last` is the record of the last tick; none: the loop was idle.
    fn tick(&self, last: &mut Option<Record>, is_idle: bool) {
        let EventLoop { context, gates, turns, .. } = self;
        let now = tokamak_cost::now();
        turns[context.index].fetch_add(1, Ordering::Relaxed);
        let record = (!is_idle).then(|| Record::take(now));
        let is_in_time = match (std::mem::replace(last, record), record) {
            (Some(last), Some(record)) => {
                let workers = || gates.iter().flat_map(|gate| gate.workers()).collect();
                context.balancer.report(context.index, last, record, &workers)
            }
            // The first tick comes immediately.
            (None, Some(record)) => {
                context.balancer.begin(context.index, record);
                true
            }
            (_, None) => true,
        };
        self.attend();
        gates.iter().for_each(|gate| gate.tick(now));
        context.upstreams.iter().for_each(|upstream| upstream.tick(context.index, now));
        // If the loop was held up, first read what clients have sent meanwhile, before timeouts are
        // checked.
        if is_in_time {
            self.sweep(now);
        }
        context.calls.tidy();
        context.flush_logs();
    }
}

async fn accept(this: Arc<EventLoop>, mut listener: Listener) {
    let mut duty = this.context.balancer.duty();
    loop {
        if listener.is_for_clients() && !this.context.balancer.listens(this.context.index) {
            let rest = async {
                // The sender cannot be gone: the balancer lives as long as its loops.
                let _ = duty.wait_for(|duty| this.context.index < duty.listening).await;
            };
            listener = match listener.suspended(rest, TICK).await {
                Ok(listener) => listener,
                Err(error) => give_up(&this, &error),
            };
        }
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => this.place(accepted),
                // Out of descriptors or memory. The connection stays in the backlog; trying again
                // at once would be a busy loop.
                Err(error) => {
                    log::unaccepted(&error);
                    tokio::time::sleep(TICK).await;
                }
            },
            _ = duty.changed(), if listener.is_for_clients() => {}
        }
    }
}
