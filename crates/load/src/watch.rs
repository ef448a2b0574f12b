//! Looks at the machine and the server while a trial runs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokamak_observe::processes::{self as processes, Process};

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
    /// What the server's threads wanted beside it: they could run, and no processor was free.
    pub delayed: f64,
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
}

impl Sight {
    /// The share of the processor time there is that was in use, by any program; 1: none was left.
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
        let mut pids = self.server();
        let before = moment(&pids);
        let is_over = AtomicBool::new(false);
        let (done, (unaccepted, seen)) = thread::scope(|scope| {
            let looking = scope.spawn(|| self.look(&is_over));
            let done = work();
            is_over.store(true, Ordering::Relaxed);
            (done, looking.join().unwrap_or_default())
        });
        // php-fpm starts processes while there is load; what they used counts from nothing.
        pids.extend(self.server());
        let sight = compare(&before, &moment(&pids));
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

    /// The server's processes.
    pub(crate) fn server(&self) -> BTreeSet<u32> {
        let status = (self.ask)().and_then(|json| tokamak::parse(&json));
        let named = self.pids.iter().copied().chain(status.map(|status| status.pid));
        processes::server(self.address, named)
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

fn compare(before: &Moment, after: &Moment) -> Sight {
    let wall = (after.at - before.at).as_secs_f64().max(1e-3);
    let since = |id: &(u32, u32), thread: &Process, of: fn(&Process) -> f64| {
        let earlier = before.threads.get(id).map_or(0.0, of);
        (of(thread) - earlier).max(0.0) / wall
    };
    let used: Vec<(&(u32, u32), &Process, f64)> = after
        .threads
        .iter()
        .map(|(id, thread)| (id, thread, since(id, thread, |thread| thread.cpu)))
        .collect();
    let delayed = after.threads.iter().map(|(id, thread)| since(id, thread, |one| one.waited));
    let hottest = used.iter().max_by(|a, b| a.2.total_cmp(&b.2));
    let (busy, all) = match (before.machine, after.machine) {
        (Some(before), Some(after)) => (after.0 - before.0, after.1 - before.1),
        _ => (0.0, 0.0),
    };
    let server: f64 = used.iter().map(|one| one.2).sum();
    let generator = (after.own - before.own).max(0.0) / wall;
    let cores = thread::available_parallelism().map_or(1.0, |count| count.get() as f64);
    Sight {
        cores,
        machine: in_use(if all > 0.0 { busy / all } else { 0.0 }, server + generator, cores),
        server: Some(server),
        delayed: delayed.sum(),
        generator,
        hottest: hottest.map(|(id, thread, share)| (thread.name.clone(), id.0, *share)),
        ..Sight::default()
    }
}

/// The cores that are in use, of those that there are for this process. In a container with a CPU
/// quota these are fewer than the machine has, whose `part` is that of all: then what server and
/// load generator use counts.
fn in_use(part: f64, ours: f64, cores: f64) -> f64 {
    (part * cores).max(ours).min(cores)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_container_is_full_when_its_quota_is() {
        // 2 of the 64 cores of the machine.
        assert_eq!(in_use(2.0 / 64.0, 2.0, 2.0), 2.0);
        assert_eq!(in_use(0.75, 1.0, 4.0), 3.0);
        assert_eq!(in_use(0.5, 4.1, 4.0), 4.0);
    }

    #[test]
    fn a_process_that_is_born_under_load_counts() {
        // Without a listener: the server is the child that --pid would name, and its own children.
        let mut shell = Command::new("sh")
            .args(["-c", "read go; while :; do :; done & read stop; kill $!"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = shell.stdin.take().unwrap();
        let address = "127.0.0.1:1".parse().unwrap();
        let watch = Watch { address, pids: vec![shell.id()], ask: &|| None };
        let (used, sight) = watch.during(|| {
            writeln!(input, "go").unwrap();
            let begun = Instant::now();
            let child = loop {
                let all = processes::all();
                let found = all.iter().find(|(_, process)| process.parent == shell.id());
                if let Some((pid, process)) = found
                    && process.cpu > 0.3
                {
                    break *pid;
                }
                assert!(begun.elapsed() < Duration::from_secs(60), "it uses no CPU");
                thread::sleep(PAUSE);
            };
            let cpu = processes::all()[&child].cpu;
            cpu / begun.elapsed().as_secs_f64()
        });
        drop(input);
        shell.wait().unwrap();
        assert!(sight.server.unwrap() > used / 2.0, "{used}: {sight:?}");
    }
}
