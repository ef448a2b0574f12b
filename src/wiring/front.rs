//! The front's process: it starts the event loops and passes on what the supervisor says.

use std::fs::File;
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tokamak_auth::UserFiles;
use tokamak_config::PoolSize;
use tokamak_front::{
    Alarm, Death, Front, PoolLink, Purge, QuicStart, Start, Want, WantName, lost_lines,
};
use tokamak_supervisor::FrontStart;
use tokamak_sys::channel::Channel;
use tokamak_sys::control::{self, FromFront, Heard, ToFront, Why};
use tokamak_sys::memory_file;
#[cfg(feature = "jemalloc")]
use tokamak_sys::outlet::try_stderr;
use tokamak_sys::process;
use tokamak_tls::Credentials;

use super::admin::Questions;

/// Exit status of a front that was drained.
const DONE: u8 = 0;
/// Exit status of a front that could not start, or whose supervisor is gone.
const FAILED: u8 = 1;

/// Milliseconds for which the front waits for room on the control channel. The supervisor stops
/// waiting for an answer after two seconds, so a longer wait would be useless; with a tenth, a
/// supervisor that is busy with a reload would miss answers.
const PATIENCE: usize = 1000;

fn quic(start: tokamak_supervisor::QuicStart) -> QuicStart {
    let sockets = start.sockets.into_iter();
    QuicStart {
        number: start.number,
        secret: start.secret,
        sockets: sockets.map(|socket| socket.map(UdpSocket::from)).collect(),
        line: start.inbox,
        others: start.others,
    }
}

/// Runs the front in this process until the supervisor drains it or is gone.
pub fn main(start: FrontStart) -> u8 {
    give_memory_back();
    let channel = Arc::new(start.channel);
    let send = |message: FromFront| {
        // A supervisor that is gone is noticed by the next receive.
        let _ = control::send(&channel, &message, &[]);
    };
    let (questions, alarm) = (Questions::default(), alarm(channel.clone()));
    let pools = start.pools.into_iter().map(|pool| PoolLink {
        site_index: pool.site_index,
        number: pool.number,
        segment: pool.segment,
        bells: pool.bells,
        hub: pool.hub,
        exposed_version: pool.exposed_version,
        access_log: pool.access_log.map(File::from),
        want: can_grow(&start.server.sites[pool.site_index].pool.size)
            .then(|| want(channel.clone())),
        alarm: Some(alarm.clone()),
    });
    let start = Start {
        pools: pools.collect(),
        listeners: start.listeners.into_iter().map(TcpListener::from).collect(),
        tls: start.tls.map(|(listeners, credentials)| {
            (listeners.into_iter().map(TcpListener::from).collect(), credentials)
        }),
        quic: start.quic.map(quic),
        want_name: Some(want_name(channel.clone())),
        users: start.users,
        upstream_tls: start.upstream_tls,
        sockets: start.sockets,
        admin: start.admin.map(|admin| questions.listener(admin, channel.clone())),
        scripts: None,
        access_logs: start.access_logs.into_iter().map(|log| log.map(File::from)).collect(),
        is_successor: start.is_successor,
        server: start.server,
    };
    let heartbeat = start.server.timeouts.heartbeat();
    let front = match Front::start(start) {
        Ok(front) => Arc::new(front),
        Err(error) => {
            send(FromFront::Failed { message: error.to_string() });
            return FAILED;
        }
    };
    send(FromFront::Ready);
    let drained = Arc::new(AtomicBool::new(false));
    let mut peak = ConnectionPeak::default();
    let mut turns = Turns { last: front.turns(), said: Instant::now(), every: heartbeat };
    loop {
        turns.report_to(&front, &channel);
        peak.look(front.connections());
        match control::receive_within::<ToFront>(&channel, Some(heartbeat)) {
            Ok(Heard::Message(ToFront::Answer { question, part, is_last }, _)) => {
                questions.hear(question, &part, is_last);
            }
            Ok(Heard::Message(ToFront::Stream { question }, streams)) => {
                questions.hear_stream(question, streams.into_iter().next());
            }
            Ok(Heard::Message(ToFront::Dropped { question }, _)) => questions.forget(question),
            Ok(Heard::Message(message, files)) => {
                handle(&front, &channel, &drained, message, files)
            }
            Ok(Heard::Nothing) => {}
            Ok(Heard::Closed) => {
                return if drained.load(Ordering::Relaxed) { DONE } else { FAILED };
            }
            Err(error) => {
                send(FromFront::Failed { message: error.to_string() });
                return FAILED;
            }
        }
    }
}

/// Has a thread of the allocator give memory back to the system that has not been used for ten
/// seconds. Without it that happens only beside other work: after a crowd of slow clients, a server
/// without requests would keep what they needed. Not before the fork, which leaves threads behind.
fn give_memory_back() {
    #[cfg(feature = "jemalloc")]
    if let Err(error) = tikv_jemalloc_ctl::background_thread::write(true) {
        try_stderr(format_args!("tokamak: unused memory is given back late: {error}"));
    }
}

/// The memory of fewer connections than this is not worth a trim.
const WORTH_TRIMMING: usize = 256;

/// Has the C library's allocator give back what a peak of connections needed, when half of them
/// have gone. By itself it kept four fifths of it after 900 connections over HTTP/2.
#[derive(Default)]
struct ConnectionPeak {
    /// The most connections since the last trim.
    most: usize,
}

impl ConnectionPeak {
    fn look(&mut self, connections: usize) {
        self.most = self.most.max(connections);
        if self.most >= WORTH_TRIMMING && connections <= self.most / 2 {
            process::trim_c_memory();
            self.most = connections;
        }
    }
}

/// Which event loops turn, said now and then.
struct Turns {
    last: Vec<u64>,
    said: Instant,
    every: Duration,
}

impl Turns {
    fn report_to(&mut self, front: &Front, channel: &Channel) {
        if self.said.elapsed() < self.every {
            return;
        }
        let turns = front.turns();
        let pairs = turns.iter().zip(&self.last).zip(0..);
        let loops =
            pairs.filter(|((now, before), _)| now != before).map(|(_, index)| index).collect();
        let tokamak_front::LostLines { access, error } = lost_lines();
        let lost = control::LostLines { access, error };
        // If the channel is full, the supervisor is behind, and will get it the next time.
        let _ = control::send(channel, &FromFront::Turned { loops, lost }, &[]);
        (self.last, self.said) = (turns, Instant::now());
    }
}

fn handle(
    front: &Arc<Front>,
    channel: &Arc<Channel>,
    drained: &Arc<AtomicBool>,
    message: ToFront,
    files: Vec<OwnedFd>,
) {
    match message {
        ToFront::Death { pool, index: _, instance, why } => {
            let death = if why == Why::TimedOut { Death::TimedOut } else { Death::Crashed };
            front.worker_died(pool, instance, death);
        }
        ToFront::Renew { old, new } => {
            let Some(memory) = files.into_iter().next() else { return };
            // From an event loop, which must not wait for room on the line. Without the first word
            // the supervisor does not answer who asked for other processes until it gives up,
            // without the second one it waits as long as for a drain.
            let (line, other) = (channel.clone(), channel.clone());
            let taken = move || say_aside(&line, FromFront::Renewed { pool: new }, || {});
            let left = move || say_aside(&other, FromFront::Left { pool: old }, || {});
            if let Err(error) = front.renew(old, new, memory, taken, left) {
                // Requests would go on to a pool that is about to end.
                let message = format!("cannot map the memory of a new queue: {error}");
                send_waiting(channel, &FromFront::Failed { message });
                std::process::exit(FAILED.into());
            }
        }
        ToFront::Certificates { number } => {
            let credentials = match files.into_iter().next().map(memory_file::read) {
                Some(Ok(bytes)) => Credentials::decode(&bytes).map_err(|error| error.to_string()),
                Some(Err(error)) => Err(format!("they cannot be read: {error}")),
                None => Err("they came without their file".into()),
            };
            if let Err(problem) = credentials.and_then(|all| front.renew_credentials(&all)) {
                // The supervisor has read them already, so this is not for its reader to correct.
                tokamak_front::warn(&format!("new certificates are not used: {problem}"));
            }
            send_waiting(channel, &FromFront::Certificates { number });
        }
        ToFront::Users => {
            let users = match files.into_iter().next().map(memory_file::read) {
                Some(Ok(bytes)) => UserFiles::decode(&bytes).map_err(|error| error.to_string()),
                Some(Err(error)) => Err(format!("they cannot be read: {error}")),
                None => Err("they came without their file".into()),
            };
            if let Err(problem) = users.and_then(|users| front.renew_users(&users)) {
                tokamak_front::warn(&format!("new files of users are not used: {problem}"));
            }
        }
        ToFront::Declined { name } => front.decline(&name),
        ToFront::Forget { pool } => front.forget(pool),
        // Heard before.
        ToFront::Answer { .. } | ToFront::Stream { .. } | ToFront::Dropped { .. } => {}
        ToFront::Drain { is_replaced } => {
            front.drain(is_replaced);
            let _ = control::send(channel, &FromFront::Draining, &[]);
            let (front, channel, drained) = (front.clone(), channel.clone(), drained.clone());
            // Deaths of workers must still be received while the last requests run.
            std::thread::spawn(move || {
                front.join();
                drained.store(true, Ordering::Relaxed);
                let _ = control::send(&channel, &FromFront::Drained, &[]);
                std::process::exit(DONE.into());
            });
        }
        ToFront::Upstreams { question, change } => {
            let outcome = change.map_or(Ok(()), |change| front.run(&change));
            if question == 0 {
                return;
            }
            for (upstream, status) in front.address_statuses() {
                send_waiting(channel, &FromFront::AddressStatus { question, upstream, status });
            }
            if let Some(figures) = front.cache() {
                send_waiting(channel, &FromFront::Cache { question, figures });
            }
            send_waiting(channel, &FromFront::Answered { question, outcome });
        }
        ToFront::Purge { question, what } => {
            let purged = what_of(what).and_then(|what| front.purge(&what));
            if question == 0 {
                return;
            }
            let outcome = purged.map(|count| {
                send_waiting(channel, &FromFront::Purged { question, count });
            });
            send_waiting(channel, &FromFront::Answered { question, outcome });
        }
        ToFront::Reopen { access } => {
            let Some(file) = files.into_iter().next() else { return };
            match access {
                Some(index) => front.reopen_log(index.into(), File::from(file)),
                // If it fails, the old file goes on being written to; the supervisor has said what
                // is wrong with the new one.
                None => drop(process::redirect_stderr(file.as_fd())),
            }
        }
    }
}

fn what_of(what: control::Purge) -> Result<Purge, String> {
    match what {
        control::Purge::All => Ok(Purge::All),
        control::Purge::Url(url) => Purge::url(&url),
        control::Purge::Prefix(url) => Purge::prefix(&url),
        control::Purge::Tag(tag) => Ok(Purge::Tag(tag)),
    }
}

/// Says it even if the line is full, which a long list can do: the supervisor is about to read it.
/// False if it could not be said.
fn send_waiting(channel: &Channel, message: &FromFront) -> bool {
    for _ in 0..PATIENCE {
        match control::send(channel, message, &[]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => sleep(Duration::from_millis(1)),
            // A supervisor that is gone is noticed by the next receive.
            sent => return sent.is_ok(),
        }
    }
    false
}

/// Says it from a thread that must not wait; if the line is full, another thread waits for room.
/// Calls `lost` if it could not be said.
pub(super) fn say_aside<L>(channel: &Arc<Channel>, message: FromFront, lost: L)
where
    L: Fn() + Clone + Send + 'static,
{
    match control::send(channel, &message, &[]) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            let (channel, aside_lost) = (channel.clone(), lost.clone());
            let aside = move || {
                if !send_waiting(&channel, &message) {
                    aside_lost();
                }
            };
            // The system may have no more threads.
            if std::thread::Builder::new().spawn(aside).is_err() {
                lost();
            }
        }
        // A supervisor that is gone is noticed by the next receive.
        Err(_) => lost(),
    }
}

fn can_grow(size: &PoolSize) -> bool {
    !matches!(size, PoolSize::Static { .. })
}

fn alarm(channel: Arc<Channel>) -> Alarm {
    Arc::new(move |pool, reason| {
        // Said again at the next look, if the line is full.
        let _ =
            control::send(&channel, &FromFront::Spoiled { pool, reason: reason.to_owned() }, &[]);
    })
}

fn want_name(channel: Arc<Channel>) -> WantName {
    Arc::new(move |name| {
        // From an event loop, which must not wait. The client tries again.
        control::send(&channel, &FromFront::Wants { name: name.to_owned() }, &[]).is_ok()
    })
}

fn want(channel: Arc<Channel>) -> Want {
    Arc::new(move |pool| {
        // Only advice: if the channel is full, the supervisor has enough of these messages.
        let _ = control::send(&channel, &FromFront::Want { pool }, &[]);
    })
}
