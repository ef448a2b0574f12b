//! Which call belongs to which request, and to which phase of it: found by following descriptors
//! from the client's socket to the backend's, and the threads that hold them.
//!
//! A call with the client's connection is of the request that this client made last. A call with a
//! connection to the backend, on either end, is of the request that the server sent on it last: the
//! kernel gives connections to the backend in the order in which the server has made them, so the
//! two ends find each other. A call without either is of the request that its thread was at, or,
//! if there is never more than one request, of that. A wait for many descriptors belongs to what
//! its thread does next; a wait that is followed by another one was for nothing, and of no request.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use crate::driver::Exchange;
use crate::line::{Call, Target};
use crate::phase::{Kind, Phase, kind};

/// What a call was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purpose {
    /// The request, as an index into the list of exchanges.
    pub request: usize,
    /// The phase of the request.
    pub phase: Phase,
}

/// What was seen, and of whom.
pub struct Seen<'a> {
    /// All calls in the order of their ends.
    pub calls: &'a [Call],
    /// The process of each thread.
    pub processes: &'a BTreeMap<u32, u32>,
    /// The requests in the order of their starts.
    pub exchanges: &'a [Exchange],
    /// Where each listening socket listens, by its inode.
    pub listeners: &'a BTreeMap<u64, String>,
}

/// How far a request has come.
#[derive(Clone, Copy, Default)]
struct Progress {
    front: Option<Phase>,
    answered: bool,
    backend_has_read: bool,
    backend_answered: bool,
}

struct Follower<'a> {
    seen: &'a Seen<'a>,
    fronts: BTreeSet<u32>,
    by_port: HashMap<u16, Vec<usize>>,
    /// The clients' connections, by the inode of the server's end: the client's port.
    clients: HashMap<u64, u16>,
    /// The requests of connections to the backend, by the inodes of both ends.
    owner: HashMap<u64, usize>,
    /// The other end of such a connection, by the backend's.
    peer: HashMap<u64, u64>,
    /// The server's ends of connections that the backend has not accepted yet, by where it listens.
    connecting: HashMap<String, VecDeque<u64>>,
    /// Sockets that the backend itself has made: they are not the server's.
    outgoing: HashSet<u64>,
    at: HashMap<u32, usize>,
    /// The last wait of each thread after which it has done nothing yet.
    waits: HashMap<u32, usize>,
    /// Threads that a timer of the server woke, or a message to the server from who is neither
    /// client nor backend: what they do next is of no request.
    aside: HashSet<u32>,
    progress: Vec<Progress>,
    purposes: Vec<Option<Purpose>>,
    is_single: bool,
    idle: BTreeSet<u32>,
}

/// A process with fewer calls for a request than this has nothing to do with the requests, unless
/// one of them has a connection of theirs: a master process, an idle worker.
const IDLE: f64 = 0.05;

/// The purpose of each call; `None` for one that belongs to no request.
pub fn follow(seen: &Seen<'_>) -> Vec<Option<Purpose>> {
    let mut by_port: HashMap<u16, Vec<usize>> = HashMap::new();
    for (index, exchange) in seen.exchanges.iter().enumerate() {
        by_port.entry(exchange.port).or_default().push(index);
    }
    let overlap = seen.exchanges.windows(2).any(|pair| pair[1].start < pair[0].end);
    let mut follower = Follower {
        seen,
        fronts: BTreeSet::new(),
        by_port,
        clients: HashMap::new(),
        owner: HashMap::new(),
        peer: HashMap::new(),
        connecting: HashMap::new(),
        outgoing: HashSet::new(),
        at: HashMap::new(),
        waits: HashMap::new(),
        aside: HashSet::new(),
        progress: vec![Progress::default(); seen.exchanges.len()],
        purposes: vec![None; seen.calls.len()],
        is_single: !overlap,
        idle: idle(seen),
    };
    let ports: HashSet<u16> = seen.exchanges.iter().map(|exchange| exchange.port).collect();
    for call in seen.calls.iter().filter(|call| kind(&call.name) == Kind::Accept) {
        if call.made.is_some() && call.port.is_some_and(|port| ports.contains(&port)) {
            let process = follower.process(call);
            follower.fronts.insert(process);
        }
    }
    // What a call sends may be received before it has ended, so its beginning counts too.
    let mut moments: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * seen.calls.len());
    for (index, call) in seen.calls.iter().enumerate() {
        if kind(&call.name) == Kind::Write || call.name == "connect" {
            moments.push((call.start, false, index));
        }
        moments.push((call.end, true, index));
    }
    moments.sort_unstable();
    for (_, has_ended, index) in moments {
        if has_ended { follower.ended(index) } else { follower.begins_to_send(index) }
    }
    follower.end();
    follower.purposes
}

impl Follower<'_> {
    fn process(&self, call: &Call) -> u32 {
        self.seen.processes.get(&call.thread).copied().unwrap_or(call.thread)
    }

    fn is_front(&self, call: &Call) -> bool {
        self.fronts.contains(&self.process(call))
    }

    /// The request of the client whose connection the call has.
    fn client(&self, call: &Call) -> Option<usize> {
        let port = sockets(call).find_map(|socket| self.clients.get(&socket))?;
        let requests = self.by_port.get(port)?;
        let starts = |&&index: &&usize| self.seen.exchanges[index].start <= call.end;
        requests.iter().rev().find(starts).copied()
    }

    /// The request that began last before this moment.
    fn latest(&self, time: u64) -> Option<usize> {
        let begun = self.seen.exchanges.partition_point(|exchange| exchange.start <= time);
        begun.checked_sub(1)
    }

    /// Whether the timer that ended this wait is that of a request, such as the sleep of a page
    /// that an event loop runs: of the only request there is, and not in the server before it.
    fn waits_for_a_request(&self, wait: &Call) -> bool {
        let is_under_way = |request: usize| self.seen.exchanges[request].end > wait.end;
        self.is_single && !self.is_front(wait) && self.latest(wait.end).is_some_and(is_under_way)
    }

    fn begins_to_send(&mut self, index: usize) {
        let call = &self.seen.calls[index];
        if !self.is_front(call) || self.client(call).is_some() {
            return;
        }
        let Some(own) = sockets(call).next() else { return };
        if let Some(request) = self.at.get(&call.thread) {
            self.owner.insert(own, *request);
        }
        let has_connected = matches!(call.error.as_deref(), None | Some("EINPROGRESS"));
        if call.name == "connect" && has_connected {
            let path = call.path.clone().filter(|_| call.port.is_none());
            let endpoint = path.or(call.port.map(|port| port.to_string())).unwrap_or_default();
            self.connecting.entry(endpoint).or_default().push_back(own);
        }
    }

    /// Notes whose connection was accepted, and which sockets are made and closed.
    fn note_sockets(&mut self, call: &Call) {
        let made = call.made.as_ref().and_then(|made| socket(&made.target));
        match (kind(&call.name), made) {
            (Kind::Accept, Some(made)) => {
                if let Some(port) = call.port.filter(|port| self.by_port.contains_key(port)) {
                    self.clients.insert(made, port);
                    return;
                }
                let listener = call.descriptors.first().and_then(|it| socket(&it.target));
                let endpoint = listener.and_then(|inode| self.seen.listeners.get(&inode));
                let first = match endpoint {
                    Some(endpoint) => self.connecting.get_mut(endpoint),
                    // The beginning of this call was not seen: only if one endpoint has
                    // connections waiting is it known which was accepted.
                    None => {
                        let mut all = self.connecting.values_mut().filter(|all| !all.is_empty());
                        let first = all.next();
                        first.filter(|_| all.next().is_none())
                    }
                };
                let first = first.and_then(VecDeque::pop_front);
                if let Some(front) = first {
                    self.peer.insert(made, front);
                }
            }
            // What the server has closed is not accepted any more.
            (Kind::Close, None) if call.name == "close" && self.is_front(call) => {
                let closed = sockets(call).next();
                for waiting in self.connecting.values_mut() {
                    waiting.retain(|own| Some(*own) != closed);
                }
            }
            (Kind::Connect, Some(made)) if !self.is_front(call) => {
                self.outgoing.insert(made);
            }
            _ => {}
        }
    }

    fn ended(&mut self, index: usize) {
        let call = &self.seen.calls[index];
        self.note_sockets(call);
        let is_wait = kind(&call.name) == Kind::Wait;
        let is_wait = is_wait && (call.descriptors.len() != 1 || timed_out(call));
        let is_wait = is_wait || call.name.starts_with("epoll_") && call.name != "epoll_ctl";
        if is_wait {
            // A wait before it came to nothing, such as a timer's: if it had a purpose, its end
            // would cut what other threads do for the request at that time.
            self.waits.insert(call.thread, index);
            if self.is_front(call) {
                self.at.remove(&call.thread);
            }
            if timed_out(call) && !self.waits_for_a_request(call) {
                self.aside.insert(call.thread);
            } else {
                self.aside.remove(&call.thread);
            }
            return;
        }
        let explicit = self.client(call).or_else(|| self.backend(call));
        if let Some(request) = explicit {
            self.at.insert(call.thread, request);
            self.aside.remove(&call.thread);
        }
        // A thread that reads from a connection of which nothing is known may begin another
        // request. The server sends first on those to its backend, so for it this is none.
        let is_unknown = kind(&call.name) == Kind::Read
            && sockets(call).any(|socket| !self.outgoing.contains(&socket));
        if explicit.is_none() && is_unknown && self.is_front(call) {
            self.aside.insert(call.thread);
        }
        if explicit.is_none() && (sleeps(call) || is_unknown) {
            self.at.remove(&call.thread);
        }
        let fallback = || {
            let is_idle = self.idle.contains(&self.process(call));
            let is_idle = is_idle || self.aside.contains(&call.thread);
            let alone = || self.latest(call.end).filter(|_| self.is_single && !is_idle);
            self.at.get(&call.thread).copied().or_else(alone)
        };
        let Some(request) = explicit.or_else(fallback) else { return };
        let phase = self.phase(call, request);
        self.purposes[index] = Some(Purpose { request, phase });
        let begun = self.seen.exchanges[request].start;
        if let Some(wait) = self.waits.remove(&call.thread) {
            if self.seen.calls[wait].end >= begun {
                self.purposes[wait] = Some(Purpose { request, phase });
            } else if self.is_single {
                self.purposes[wait] = self
                    .latest(self.seen.calls[wait].end)
                    .map(|request| Purpose { request, phase: Phase::Close });
            }
        }
    }

    /// Waits after which nothing came.
    fn end(&mut self) {
        if !self.is_single {
            return;
        }
        for wait in std::mem::take(&mut self.waits).into_values() {
            let call = &self.seen.calls[wait];
            if !self.idle.contains(&self.process(call)) {
                self.purposes[wait] =
                    self.latest(call.end).map(|request| Purpose { request, phase: Phase::Close });
            }
        }
    }

    /// The request of a connection between the server and its backend.
    fn backend(&mut self, call: &Call) -> Option<usize> {
        let own = sockets(call).find(|socket| !self.outgoing.contains(socket))?;
        // What the server does with the connection besides reading and closing, it does for the
        // request that it is at; so the connection changes hands.
        let takes_over = !matches!(kind(&call.name), Kind::Read | Kind::Close | Kind::Wait);
        let now = self.at.get(&call.thread).copied();
        if let Some(request) = now.filter(|_| takes_over && self.is_front(call)) {
            self.owner.insert(own, request);
            return Some(request);
        }
        self.owner.get(self.peer.get(&own).unwrap_or(&own)).copied()
    }

    fn phase(&mut self, call: &Call, request: usize) -> Phase {
        let (is_front, is_client) = (self.is_front(call), self.client(call).is_some());
        let progress = &mut self.progress[request];
        if is_front {
            let phase = front(call, is_client, progress);
            progress.front = Some(phase);
            phase
        } else {
            let is_connection = sockets(call).any(|socket| !self.outgoing.contains(&socket));
            backend(call, is_connection, progress)
        }
    }
}

/// Whether a thread has nothing to do in this call: what comes next is of another request.
fn sleeps(call: &Call) -> bool {
    matches!(&*call.name, "futex" | "nanosleep" | "clock_nanosleep" | "rt_sigtimedwait")
}

/// Whether a wait ended because its time was over, and not because a descriptor had news.
fn timed_out(wait: &Call) -> bool {
    wait.text.ends_with(" = 0") || wait.text.ends_with(" = 0 (Timeout)")
}

/// The processes that make hardly any calls.
fn idle(seen: &Seen<'_>) -> BTreeSet<u32> {
    let mut calls: BTreeMap<u32, usize> = BTreeMap::new();
    for call in seen.calls {
        let process = seen.processes.get(&call.thread).copied().unwrap_or(call.thread);
        *calls.entry(process).or_default() += 1;
    }
    let few = seen.exchanges.len() as f64 * IDLE;
    calls
        .into_iter()
        .filter(|(_, calls)| (*calls as f64) < few)
        .map(|(process, _)| process)
        .collect()
}

/// The phase of a call of the process that has the client's connection.
fn front(call: &Call, is_client: bool, progress: &mut Progress) -> Phase {
    let now = progress.front.unwrap_or(Phase::Accept);
    let is_backend = !is_client && sockets(call).next().is_some();
    let is_log =
        matches!(
            call.descriptors.first().map(|descriptor| &descriptor.target),
            Some(Target::File(path)) if path.starts_with('/')
        ) || matches!(call.descriptors.first().map(|d| &d.target), Some(Target::Device(_)));
    let kind = kind(&call.name);
    match kind {
        Kind::Accept if call.error.is_none() => Phase::Accept,
        Kind::Read if is_client && call.error.is_none() => {
            if progress.answered {
                Phase::Close
            } else {
                Phase::ReadRequest
            }
        }
        Kind::Write if is_client => {
            progress.answered = true;
            Phase::Respond
        }
        Kind::Close if is_client => Phase::Close,
        _ if is_client && progress.answered && now == Phase::Log => Phase::Close,
        _ if is_client => now,
        Kind::Connect => Phase::Connect,
        Kind::Write if is_backend => Phase::Send,
        Kind::Read | Kind::Wait if is_backend => Phase::ReadResponse,
        Kind::Close if is_backend => Phase::Disconnect,
        _ if is_backend => now,
        Kind::Write if is_log => Phase::Log,
        Kind::Stat | Kind::Open => Phase::Files,
        Kind::Read | Kind::Close if is_log => Phase::Files,
        _ if matches!(now, Phase::Files | Phase::ReadRequest)
            && !call.name.starts_with("epoll") =>
        {
            Phase::Work
        }
        _ => now,
    }
}

/// The phase of a call of another process: the backend, or a worker behind shared memory.
fn backend(call: &Call, is_connection: bool, progress: &mut Progress) -> Phase {
    let first = call.descriptors.first().map(|descriptor| &descriptor.target);
    let is_file = matches!(first, Some(Target::File(path)) if path.starts_with('/'));
    let has_answered = progress.backend_answered || progress.answered;
    match kind(&call.name) {
        Kind::Accept if has_answered => Phase::BackendClose,
        Kind::Accept => Phase::BackendAccept,
        Kind::Write if is_connection => {
            progress.backend_answered = true;
            Phase::BackendRun
        }
        _ if is_connection && has_answered => Phase::BackendClose,
        Kind::Read | Kind::Wait if is_connection => {
            progress.backend_has_read = kind(&call.name) == Kind::Read;
            Phase::BackendRead
        }
        Kind::Stat => Phase::BackendStat,
        Kind::Open => Phase::BackendOpen,
        Kind::Read | Kind::Close if is_file => Phase::BackendFile,
        Kind::Write if is_file => Phase::BackendLog,
        Kind::Write if matches!(first, Some(Target::Device(_))) => Phase::BackendLog,
        _ if has_answered => Phase::BackendClose,
        _ if progress.front == Some(Phase::Send) && !progress.backend_has_read => {
            Phase::BackendRead
        }
        _ => Phase::BackendRun,
    }
}

/// The sockets of a call, by their inodes, its result first.
fn sockets(call: &Call) -> impl Iterator<Item = u64> {
    call.made.iter().chain(&call.descriptors).filter_map(|it| socket(&it.target))
}

fn socket(target: &Target) -> Option<u64> {
    if let Target::Socket(inode) = target { Some(*inode) } else { None }
}

#[cfg(test)]
mod tests;
