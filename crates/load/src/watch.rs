//! Looks at the machine and the server while a trial runs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::processes::{self, Process};
use crate::tokamak::{self, Status, Use};

/// Time between two looks. A tenth would cost the server a part of what is measured; ten times more
/// would see a short trial once.
const PAUSE: Duration = Duration::from_millis(100);

/// Asks the server for `tokamak status --json`; [`None`] if it is not Tokamak.
pub type Ask<'a> = dyn Fn() -> Option<String> + Sync + 'a;

/// Whom to look at.
pub struct Watch<'a> {
    /// Where requests go.
    pub address: SocketAddr,
    /// Further processes of the server, with their children: those of its backend.
    pub pids: Vec<u32>,
    /// How Tokamak is asked.
    pub ask: &'a Ask<'a>,
}

/// What was seen during a trial. CPU is in cores.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// Processors of the machine.
    pub cores: f64,
    /// What everybody used.
    pub machine: f64,
    /// What the server's processes used; [`None`]: the server is not on this machine, or belongs to
    /// another user.
    pub server: Option<f64>,
    /// What the load generator used.
    pub generator: f64,
    /// The thread of the server that used most, and its process.
    pub hottest: Option<(String, u32, f64)>,
    /// Mean of the connections that waited to be accepted.
    pub unaccepted: f64,
    /// Descriptors that the server's fullest process had open at the end, and may have.
    pub descriptors: Option<(u64, u64)>,
    /// The pool of PHP workers that was used most.
    pub pool: Option<Use>,
    /// The FastCGI application that was used most.
    pub upstream: Option<Use>,
    /// Whether the hottest thread is a PHP worker's.
    pub hottest_is_worker: bool,
}

impl Sight {
    /// Whether no processor was left, as a part of what there is.
    pub fn machine_share(&self) -> f64 {
        self.machine / self.cores.max(1.0)
    }
}

/// The state of a moment, from which two are compared.
struct Moment {
    at: Instant,
    machine: Option<(f64, f64)>,
    threads: BTreeMap<(u32, u32), Process>,
    own: f64,
}

impl Watch<'_> {
    /// Runs `work`, and looks meanwhile.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> (T, Sight) {
        let (pids, front) = self.server();
        let before = moment(&pids);
        let is_over = AtomicBool::new(false);
        let (done, (unaccepted, seen)) = thread::scope(|scope| {
            let looking = scope.spawn(|| self.look(&is_over));
            let done = work();
            is_over.store(true, Ordering::Relaxed);
            (done, looking.join().unwrap_or_default())
        });
        let sight = compare(&before, &moment(&pids), front);
        let full = |pid: &u32| processes::descriptors(*pid);
        let descriptors = pids.iter().filter_map(full).max_by_key(|(open, most)| {
            // In thousandths, since a ratio has no order.
            open.saturating_mul(1000) / most.max(&1)
        });
        let sight = Sight {
            server: (!pids.is_empty()).then_some(sight.server).flatten(),
            unaccepted,
            descriptors,
            pool: tokamak::busiest(seen.iter().map(|status| &status.pools)),
            upstream: tokamak::busiest(seen.iter().map(|status| &status.upstreams)),
            ..sight
        };
        (done, sight)
    }

    /// The server's processes, and Tokamak's process that has the clients.
    fn server(&self) -> (BTreeSet<u32>, Option<u32>) {
        let status = (self.ask)().and_then(|json| tokamak::parse(&json));
        let mut roots = processes::holders(&processes::listeners(self.address));
        roots.extend(&self.pids);
        roots.extend(status.as_ref().map(|status| status.pid));
        // A test that serves from its own process does not measure itself twice.
        let own = std::process::id();
        let mut found = processes::with_descendants(&roots, &processes::all());
        found.remove(&own);
        (found, status.map(|status| status.front))
    }

    fn look(&self, is_over: &AtomicBool) -> (f64, Vec<Status>) {
        let (mut waiting, mut looks, mut seen) = (0, 0.0, Vec::new());
        while !is_over.load(Ordering::Relaxed) {
            looks += 1.0;
            let sockets = processes::listeners(self.address);
            waiting += sockets.iter().map(|socket| socket.waiting).sum::<u64>();
            if looks < 2.0 || !seen.is_empty() {
                seen.extend((self.ask)().and_then(|json| tokamak::parse(&json)));
            }
            thread::sleep(PAUSE);
        }
        // The first look falls into the time before the load.
        if seen.len() > 1 {
            seen.remove(0);
        }
        (waiting as f64 / f64::max(looks, 1.0), seen)
    }
}

fn moment(pids: &BTreeSet<u32>) -> Moment {
    Moment {
        at: Instant::now(),
        machine: processes::machine_cpu(),
        threads: processes::threads(pids),
        own: processes::own_cpu(),
    }
}

fn compare(before: &Moment, after: &Moment, front: Option<u32>) -> Sight {
    let wall = (after.at - before.at).as_secs_f64().max(1e-3);
    let used: Vec<(&(u32, u32), &Process, f64)> = after
        .threads
        .iter()
        .map(|(id, thread)| {
            let earlier = before.threads.get(id).map_or(0.0, |earlier| earlier.cpu);
            (id, thread, (thread.cpu - earlier).max(0.0) / wall)
        })
        .collect();
    let hottest = used.iter().max_by(|a, b| a.2.total_cmp(&b.2));
    let (busy, all) = match (before.machine, after.machine) {
        (Some(before), Some(after)) => (after.0 - before.0, after.1 - before.1),
        _ => (0.0, 0.0),
    };
    let cores = thread::available_parallelism().map_or(1.0, |count| count.get() as f64);
    Sight {
        cores,
        machine: if all > 0.0 { busy / all * cores } else { 0.0 },
        server: Some(used.iter().map(|one| one.2).sum()),
        generator: (after.own - before.own).max(0.0) / wall,
        hottest: hottest.map(|(id, thread, share)| (thread.name.clone(), id.0, *share)),
        hottest_is_worker: front.is_some_and(|front| hottest.is_some_and(|one| one.0.0 != front)),
        ..Sight::default()
    }
}
