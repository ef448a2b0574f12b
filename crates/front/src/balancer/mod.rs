//! Decides how many event loops serve HTTP, and which connections each of them has.
//!
//! As few loops serve as can carry the load, and more only as long as that pays. Two loops that
//! share a processor cost each request a context switch, and each request waits for the other
//! loop's turn; a loop with a processor of its own costs neither. A loop that does not serve does
//! not listen either, and its connections move to the serving loops, each one between two requests.
//! Of many loops that serve, only some listen.

mod kernel;
mod policy;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, TryLockError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use kernel::{Spare, Used};
use policy::{CLIENTS, Duty, Facts, Kernel, ScalingPolicy};

/// A loop that reports this many ticks late, although it had a processor, was held up by a script
/// or a disk. It gets no new connections until it reports again. One tick (200 ms) is less than a
/// script may take by default (500 ms), so a script at its limit counts; a tenth of it would count
/// one slow disk read.
const LATE: f64 = 1.0;

/// A loop that has not reported for this many ticks counts as held up, even if it only lacks a
/// processor. Below [`LATE`] a busy machine would look held up all the time; much above it, clients
/// wait.
const VERY_LATE: f64 = 1.5;

/// Fraction of its time that a loop may work before new connections of web servers go to other
/// loops. The rest is for bursts: at 0.95 requests would queue in the loop, at 0.1 connections
/// would move for nothing.
const FULL: f64 = 0.7;

/// A loop's demand is stored as an integer number of these parts of its time.
const WHOLE: f64 = 1000.0;

/// All event loops.
#[derive(Debug)]
pub struct Balancer {
    members: Box<[Member]>,
    duty: watch::Sender<Duty>,
    scaler: Mutex<Scaler>,
    /// The interval of reports, in nanoseconds.
    tick: u64,
}

/// Decides how many loops serve.
#[derive(Debug)]
struct Scaler {
    policy: ScalingPolicy,
    spare: Spare,
    used: Used,
    /// When it last decided, in nanoseconds.
    decided: u64,
}

/// Gives the process ids of the workers.
pub type Workers<'a> = &'a dyn Fn() -> Vec<u32>;

/// The kernel's counters at one decision.
struct Counters<'a> {
    now: u64,
    spare: &'a mut Spare,
    used: &'a mut Used,
    workers: Workers<'a>,
}

impl Kernel for Counters<'_> {
    fn spare(&mut self) -> Option<f64> {
        self.spare.look(self.now)
    }

    fn used(&mut self) -> u64 {
        self.used.look((self.workers)())
    }
}

/// One event loop. It has cache lines of its own because its loop reads it with every request.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Member {
    /// HTTP connections; the next field counts all connections.
    clients: AtomicUsize,
    connections: AtomicUsize,
    /// HTTP connections that should move to other loops.
    surplus: AtomicUsize,
    /// Requests that have come. Only its own loop writes.
    requests: AtomicU64,
    /// Fraction of its recent time in which it wanted a processor.
    demand: AtomicU32,
    is_full: AtomicBool,
    /// Whether it was held up since the last decision.
    was_held_up: AtomicBool,
    /// When it last reported, in nanoseconds; 0: it has not begun, or is idle.
    seen: AtomicU64,
    /// Some loop has got a connection while this one was idle.
    woken: Notify,
}

/// What a loop has done since it began, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// The time of the record.
    at: u64,
    /// How long the loop has worked.
    worked: u64,
    /// How long it has waited for a processor.
    waited: u64,
}

impl Record {
    /// The record of the calling thread at the time `now`.
    pub fn take(now: u64) -> Record {
        Record {
            at: now,
            worked: tokamak_cost::thread_time(),
            waited: kernel::waited().unwrap_or(0),
        }
    }
}

impl Balancer {
    /// A balancer for this many loops, which report at this interval.
    pub fn new(loops: usize, tick: Duration) -> Balancer {
        let policy = ScalingPolicy::new(loops);
        let scaler = Scaler { policy, spare: Spare::default(), used: Used::default(), decided: 0 };
        Balancer {
            members: (0..loops).map(|_| Member::default()).collect(),
            duty: watch::Sender::new(Duty::ALONE),
            scaler: Mutex::new(scaler),
            tick: tick.as_nanos() as u64,
        }
    }

    /// Whether a loop serves HTTP.
    fn serves(&self, index: usize) -> bool {
        index < self.duty.borrow().serving
    }

    /// Whether a loop accepts connections of HTTP clients.
    pub fn listens(&self, index: usize) -> bool {
        index < self.duty.borrow().listening
    }

    /// What the loops do, to wait for its changes.
    pub fn duty(&self) -> watch::Receiver<Duty> {
        self.duty.subscribe()
    }

    /// The loop for a new HTTP connection: of the loops that serve and are not held up, the one
    /// with the fewest connections. If several have equally few, the asking one wins. If all are at
    /// their limit, any loop is chosen. `now` is in nanoseconds.
    pub fn for_client(&self, asking: usize, now: u64) -> usize {
        let load = |index: usize| (self.is_late(index, LATE, now), self.clients(index));
        let least = least_of(asking, self.duty.borrow().serving, load);
        if load(least).1 < CLIENTS { least } else { least_of(asking, self.members.len(), load) }
    }

    /// The loop for a new connection of a web server: of the loops that have time and are not held
    /// up, the one with the fewest connections. `stays`: prefer the asking loop if it has time.
    pub fn for_server(&self, asking: usize, stays: bool, now: u64) -> usize {
        let is_full = |index: usize| self.members[index].is_full.load(Ordering::Relaxed);
        if stays && !is_full(asking) {
            return asking;
        }
        let load =
            |index| (self.is_late(index, LATE, now), is_full(index), self.connections(index));
        least_of(asking, self.members.len(), load)
    }

    /// Whether a loop has HTTP connections that should move to other loops.
    pub fn has_surplus(&self, index: usize) -> bool {
        self.members[index].surplus.load(Ordering::Relaxed) > 0
    }

    /// The loop that takes over one of this loop's HTTP connections, which is between two requests.
    pub fn handover_target(&self, index: usize, now: u64) -> Option<usize> {
        let member = &self.members[index];
        // Only this loop decrements it. A new value that is stored in between is lost, but the next
        // decision stores it again.
        let surplus = member.surplus.load(Ordering::Relaxed);
        member.surplus.store(surplus.saturating_sub(1), Ordering::Relaxed);
        Some(self.for_client(index, now))
            .filter(|target| surplus > 0 && *target != index && self.serves(*target))
    }

    /// Counts a request that has come to a loop, which calls this itself.
    pub fn count_request(&self, index: usize) {
        let requests = &self.members[index].requests;
        requests.store(requests.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Requests that have come to a loop.
    pub fn requests(&self, index: usize) -> u64 {
        self.members[index].requests.load(Ordering::Relaxed)
    }

    /// Counts a connection that a loop has got.
    pub fn joined(&self, index: usize, is_client: bool) {
        self.members[index].connections.fetch_add(1, Ordering::Relaxed);
        self.members[index].clients.fetch_add(usize::from(is_client), Ordering::Relaxed);
        // Either this sees that a loop is idle, or the loop sees the connection.
        fence(Ordering::SeqCst);
        for member in &self.members {
            if member.seen.load(Ordering::Relaxed) == 0 {
                // From now on it may be late, even if the connection holds it up at once.
                member.seen.store(tokamak_cost::now(), Ordering::Relaxed);
                member.woken.notify_one();
            }
        }
    }

    /// Counts a connection that a loop has lost.
    pub fn left(&self, index: usize, is_client: bool) {
        self.members[index].connections.fetch_sub(1, Ordering::Relaxed);
        self.members[index].clients.fetch_sub(usize::from(is_client), Ordering::Relaxed);
    }

    /// The number of connections of one loop.
    pub fn connections(&self, index: usize) -> usize {
        self.members[index].connections.load(Ordering::Relaxed)
    }

    fn clients(&self, index: usize) -> usize {
        self.members[index].clients.load(Ordering::Relaxed)
    }

    /// The number of connections of all loops.
    pub fn all_connections(&self) -> usize {
        (0..self.members.len()).map(|index| self.connections(index)).sum()
    }

    /// Records that a loop has nothing to do, if no loop has a connection: one without any has to
    /// notice when the others are held up. It reports no more until it begins again. Returns
    /// whether it is idle.
    pub fn goes_idle(&self, index: usize) -> bool {
        if self.all_connections() > 0 {
            return false;
        }
        let member = &self.members[index];
        member.seen.store(0, Ordering::Relaxed);
        member.demand.store(0, Ordering::Relaxed);
        member.is_full.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.all_connections() == 0
    }

    /// Waits until a loop has got a connection while this one was idle.
    pub async fn woken(&self, index: usize) {
        self.members[index].woken.notified().await;
    }

    /// Records that a loop begins, for the first time or again.
    pub fn begin(&self, index: usize, now: Record) {
        self.members[index].seen.store(now.at, Ordering::Relaxed);
    }

    /// Reports what a loop has done from one record to the next. One of the reporting loops decides
    /// for all. Returns whether the report came in time.
    pub fn report(&self, index: usize, before: Record, now: Record, workers: Workers<'_>) -> bool {
        let passed = now.at.saturating_sub(before.at).max(1);
        let (worked, waited) =
            (now.worked.saturating_sub(before.worked), now.waited.saturating_sub(before.waited));
        let part = |time: u64| time as f64 / passed as f64;
        let member = &self.members[index];
        member.demand.store((part(worked + waited) * WHOLE) as u32, Ordering::Relaxed);
        member.is_full.store(part(worked) > FULL, Ordering::Relaxed);
        if self.exceeds(LATE, passed.saturating_sub(waited)) {
            member.was_held_up.store(true, Ordering::Relaxed);
        }
        member.seen.store(now.at, Ordering::Relaxed);
        if self.members.len() > 1 {
            match self.scaler.try_lock() {
                Ok(mut scaler) => self.decide(&mut scaler, now.at, workers),
                // A panic under the lock cannot leave the scaler half changed.
                Err(TryLockError::Poisoned(poisoned)) => {
                    self.decide(&mut poisoned.into_inner(), now.at, workers)
                }
                // Another loop is deciding at the moment.
                Err(TryLockError::WouldBlock) => {}
            }
        }
        !self.exceeds(LATE, passed)
    }

    /// Whether the time between two reports is this many ticks too long.
    fn exceeds(&self, ticks: f64, time: u64) -> bool {
        time as f64 > (1.0 + ticks) * self.tick as f64
    }

    /// Whether a loop's next report is this many ticks late. A loop that has not begun, or is
    /// idle, is never late.
    fn is_late(&self, index: usize, ticks: f64, now: u64) -> bool {
        let seen = self.members[index].seen.load(Ordering::Relaxed);
        seen > 0 && self.exceeds(ticks, now.saturating_sub(seen))
    }

    fn decide(&self, scaler: &mut Scaler, now: u64, workers: Workers<'_>) {
        // Ticks are never quite even.
        if now.saturating_sub(scaler.decided) < self.tick / 4 * 3 {
            return;
        }
        scaler.decided = now;
        let mut is_held_up = false;
        for (index, member) in self.members.iter().enumerate() {
            is_held_up |= member.was_held_up.swap(false, Ordering::Relaxed);
            is_held_up |= self.is_late(index, VERY_LATE, now);
        }
        let demand: u32 =
            self.members.iter().map(|member| member.demand.load(Ordering::Relaxed)).sum();
        let clients = (0..self.members.len()).map(|index| self.clients(index)).sum();
        let requests = (0..self.members.len()).map(|index| self.requests(index)).sum();
        let demand = f64::from(demand) / WHOLE;
        let facts = Facts { now, demand, requests, clients, is_held_up };
        let Scaler { policy, spare, used, .. } = scaler;
        let duty = policy.decide(facts, &mut Counters { now, spare, used, workers });
        self.duty.send_if_modified(|before| std::mem::replace(before, duty) != duty);
        self.share_out(duty.serving, clients, now);
    }

    /// Counts the surplus connections of each loop. A small difference is left alone: connections
    /// that come and go even it out.
    fn share_out(&self, serving: usize, clients: usize, now: u64) {
        let fit = (0..serving).filter(|index| !self.is_late(*index, LATE, now)).count();
        let share = clients.div_ceil(fit.max(1));
        for (index, member) in self.members.iter().enumerate() {
            let has = self.clients(index);
            let (may_have, slack) = if index < serving { (share, share / 8) } else { (0, 0) };
            let surplus = if has > may_have + slack { has - may_have } else { 0 };
            member.surplus.store(surplus, Ordering::Relaxed);
        }
    }
}

/// The loop with the least of `count` loops. If several have equally little, the asking one wins.
fn least_of<T: Ord>(asking: usize, count: usize, of: impl Fn(usize) -> T) -> usize {
    (0..count).min_by_key(|index| (of(*index), *index != asking)).unwrap_or(asking)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    const TICK: u64 = 200_000_000;

    #[test]
    fn the_least_of_equals_is_the_own() {
        let pick =
            |asking, loads: &[(bool, usize)]| least_of(asking, loads.len(), |index| loads[index]);
        assert_eq!(pick(0, &[(false, 2), (false, 1), (false, 1)]), 1);
        assert_eq!(pick(2, &[(false, 2), (false, 1), (false, 1)]), 2);
        assert_eq!(
            pick(0, &[(true, 2), (false, 9), (true, 1)]),
            1,
            "one that has time, before one with little"
        );
        assert_eq!(pick(0, &[(true, 2), (true, 9), (true, 1)]), 2, "if none has");
    }

    /// Lets these loops report, for these ticks, that they have worked for this fraction of their
    /// time.
    fn report(balancer: &Balancer, who: &[usize], ticks: std::ops::Range<u64>, part: f64) {
        for tick in ticks {
            let record = |tick: u64| Record {
                at: tick * TICK,
                worked: (tick as f64 * part * TICK as f64) as u64,
                waited: 0,
            };
            for &index in who {
                balancer.report(index, record(tick), record(tick + 1), &Vec::new);
            }
        }
    }

    fn with(loops: usize, clients: usize) -> Balancer {
        let balancer = Balancer::new(loops, Duration::from_nanos(TICK));
        come(&balancer, clients, 0, 0);
        balancer
    }

    /// Adds this many clients to a loop at this tick.
    fn come(balancer: &Balancer, clients: usize, to: usize, tick: u64) {
        (0..clients).for_each(|_| balancer.joined(balancer.for_client(to, tick * TICK), true));
    }

    fn clients(balancer: &Balancer) -> Vec<usize> {
        (0..balancer.members.len()).map(|index| balancer.clients(index)).collect()
    }

    /// Moves connections of these loops until no loop has a surplus.
    fn balance(balancer: &Balancer, who: &[usize], tick: u64) {
        for &index in who {
            while balancer.has_surplus(index) {
                if let Some(target) = balancer.handover_target(index, tick * TICK) {
                    balancer.left(index, true);
                    balancer.joined(target, true);
                }
            }
        }
    }

    #[test]
    fn a_loop_that_is_held_up_gets_nothing() {
        let balancer = with(3, 10);
        report(&balancer, &[0, 1, 2], 1..3, 0.0);
        assert_eq!((clients(&balancer), balancer.serves(1)), (vec![10, 0, 0], false));
        // The first loop does not report any more.
        report(&balancer, &[1, 2], 3..7, 0.0);
        assert!(balancer.serves(2));
        come(&balancer, 30, 1, 7);
        balance(&balancer, &[1, 2], 7);
        assert_eq!(clients(&balancer), [10, 15, 15], "it cannot give, but must not get");
        let servers: Vec<_> =
            (0..3).map(|asking| balancer.for_server(asking, false, 7 * TICK)).collect();
        assert_eq!(servers, [1, 1, 2]);
        report(&balancer, &[0, 1, 2], 7..9, 0.0);
        come(&balancer, 8, 2, 9);
        assert_eq!(clients(&balancer), [16, 16, 16], "it is one of them again");
    }

    #[test]
    fn a_late_report_is_noticed_once_by_whichever_loop_decides() {
        let balancer = with(2, 1);
        report(&balancer, &[0, 1], 1..3, 0.0);
        let record = |at: u64| Record { at, worked: 0, waited: 0 };
        // It comes too soon after a decision to be seen at once, and then on time again.
        let late = 5 * TICK + TICK / 2;
        report(&balancer, &[1], 3..5, 0.0);
        assert!(!balancer.report(0, record(3 * TICK), record(late), &Vec::new));
        assert!(balancer.report(0, record(late), record(late + TICK), &Vec::new));
        balancer.report(1, record(5 * TICK), record(late + TICK), &Vec::new);
        assert!(balancer.serves(1));
    }

    #[test]
    fn time_without_a_processor_is_no_hold_up() {
        let balancer = with(2, 1);
        report(&balancer, &[1], 1..3, 0.0);
        let record = |at: u64, waited: u64| Record { at, worked: 0, waited };
        balancer.report(0, record(TICK, 0), record(3 * TICK + TICK / 4, 2 * TICK), &Vec::new);
        report(&balancer, &[1], 3..5, 0.0);
        assert!(!balancer.serves(1));
    }

    #[test]
    fn an_idle_loop_is_not_held_up() {
        let balancer = with(2, 0);
        report(&balancer, &[0, 1], 1..3, 0.0);
        assert!(balancer.goes_idle(0));
        report(&balancer, &[1], 3..9, 0.0);
        balancer.begin(0, Record { at: 9 * TICK, worked: 0, waited: 0 });
        report(&balancer, &[0, 1], 9..13, 0.0);
        assert!(!balancer.serves(1));
    }

    #[test]
    fn no_loop_is_idle_beside_one_with_connections() {
        let balancer = with(2, 0);
        let is_woken = |index| {
            let mut context = Context::from_waker(Waker::noop());
            pin!(balancer.woken(index)).poll(&mut context).is_ready()
        };
        assert!(balancer.goes_idle(1));
        assert!(!is_woken(1));
        balancer.joined(0, true);
        assert!(is_woken(1) && !balancer.goes_idle(1));
        balancer.left(0, true);
        assert!(balancer.goes_idle(1));
    }

    #[test]
    fn connections_are_shared_out_whatever_web_servers_have() {
        let balancer = with(2, 40);
        (0..300).for_each(|_| balancer.joined(1, false));
        report(&balancer, &[0, 1], 1..2, 0.0);
        report(&balancer, &[1], 2..6, 0.0);
        report(&balancer, &[0, 1], 6..8, 0.0);
        balance(&balancer, &[0, 1], 8);
        assert_eq!(clients(&balancer), [20, 20]);
        assert_eq!(balancer.all_connections(), 340);
        // After the minute one of them suffices.
        report(&balancer, &[0, 1], 8..400, 0.0);
        balance(&balancer, &[0, 1], 400);
        assert_eq!(clients(&balancer), [40, 0]);
    }

    #[test]
    fn a_loop_that_has_not_begun_is_not_late() {
        let balancer = with(2, 1);
        let began = |at: u64| Record { at, worked: 0, waited: 0 };
        balancer.begin(0, began(TICK));
        report(&balancer, &[0], 1..20, 0.1);
        assert!(!balancer.serves(1));
        balancer.begin(1, began(20 * TICK));
        report(&balancer, &[0], 20..25, 0.1);
        assert!(balancer.serves(1), "now it is");
    }

    #[test]
    fn one_loop_has_so_many_clients_and_no_more() {
        let balancer = with(2, CLIENTS + 10);
        assert_eq!(clients(&balancer), [CLIENTS, 10]);
        report(&balancer, &[0, 1], 1..2, 0.0);
        assert!(balancer.serves(1));
    }

    #[test]
    fn of_many_loops_some_listen() {
        let balancer = with(6, 5 * CLIENTS + 1);
        report(&balancer, &[0, 1, 2, 3, 4, 5], 1..2, 0.0);
        assert!(balancer.serves(5) && balancer.listens(3) && !balancer.listens(4));
        // The last loop does not report any more: those that listen could be the next.
        report(&balancer, &[0, 1, 2, 3, 4], 2..6, 0.0);
        assert!((0..6).all(|index| balancer.listens(index)));
    }
}
