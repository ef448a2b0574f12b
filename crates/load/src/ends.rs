//! Which resource ends the growth of a server's throughput: decided from what was seen at the
//! lowest rate at which the bound did not hold.

use std::fmt::Write;

use crate::answers::Outcome;
use crate::judge::Verdict;
use crate::trial::Trial;
use crate::words::time;

/// What ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// No processor is left; or not for the one thread that needs it.
    Cpu,
    /// All workers have a request.
    Workers,
    /// The server takes no more connections.
    Connections,
    /// What stands behind the server.
    Backend,
    /// Requests wait before the server looks at them, or it sends them away.
    Queue,
    /// The application fails under load.
    Application,
    /// The load generator.
    Generator,
    /// Nothing: the highest rate was reached, or nothing can be seen.
    Nothing,
}

impl Ends {
    /// Its name, in text and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Ends::Cpu => "CPU",
            Ends::Workers => "workers",
            Ends::Connections => "connections",
            Ends::Backend => "backend",
            Ends::Queue => "queue",
            Ends::Application => "application",
            Ends::Generator => "load generator",
            Ends::Nothing => "unknown",
        }
    }
}

/// From this part on a resource counts as used up. Means over a trial that begins with empty queues
/// never reach all of it.
const FULL: f64 = 0.85;

/// Below this part of the machine's work, server and load generator together have hardly a need for
/// CPU. With ten times less a busy machine would always be named.
const OURS: f64 = 0.25;

/// From this part on of the time of the requests that are worked on, the server computes, or would
/// if it had a processor. A server whose requests sleep wants one for a moment after each sleep,
/// which with a tenth would count; with all, a page that computes and asks a database would not.
const COMPUTES: f64 = 0.5;

/// From this part on of the requests that are worked on, a backend has most of the work. With a
/// tenth, any backend that has a request now and then would be named.
const BEHIND: f64 = 0.5;

/// Judges the trials that broke the bound beside the knee; `calm` is the response time of one
/// request at a time, in seconds. The text says how it was seen.
pub fn ends(broken: &[&Trial], calm: f64) -> (Ends, String) {
    let Some(trial) = broken.first() else {
        return (Ends::Nothing, "the bound held at the highest rate that was tried".into());
    };
    let sight = &trial.sight;
    // Programs beside the server that leave it what it wants are not what ends it.
    let ours = sight.server.map_or(sight.machine, |server| server + sight.generator);
    let full = sight.pool.as_ref().filter(|pool| pool.busy >= FULL * pool.most as f64);
    let wanted = sight.server.unwrap_or(0.0) + sight.delayed;
    let at_once = full.map_or(trial.throughput * calm, |pool| pool.busy);
    let computes = wanted >= COMPUTES * at_once;
    let is_idle_beside = ours < OURS * sight.machine && !computes;
    let has_cpu = sight.machine_share() < FULL || is_idle_beside;
    if let (Verdict::Generator(why), true) = (&trial.verdict, has_cpu) {
        return (Ends::Generator, why.clone());
    }
    if let Some(found) = refused(trial) {
        return found;
    }
    // On a machine that the load generator and others fill, workers that only wait lack no CPU.
    let used_little = sight.server.is_some_and(|used| used < OURS * sight.machine);
    let waits = full.is_some() && used_little && !computes;
    if !has_cpu && !waits {
        return (Ends::Cpu, machine_is_full(trial));
    }
    if let Some(pool) = full {
        let mut why = format!(
            "all {} workers of site {} had a request, and {:.0} more waited",
            pool.most, pool.name, pool.queue
        );
        let _ = write!(why, "; the machine used {}", cpu(trial));
        why += if computes {
            ": they compute. More workers would use the other cores"
        } else {
            ": they wait for something. More workers help, or async mode"
        };
        return (Ends::Workers, why);
    }
    if let Some((name, pid, share)) = sight.hottest.as_ref().filter(|hot| hot.2 >= FULL) {
        let why = format!("one thread of {name} (pid {pid}) used {:.0} % of a core", share * 100.0);
        return (Ends::Cpu, why);
    }
    if let Some(upstream) = sight.upstream.as_ref().filter(|upstream| {
        upstream.queue >= 1.0 || upstream.busy >= BEHIND * trial.throughput * calm
    }) {
        let why = format!(
            "{:.1} connections to {} had a request, {:.0} requests waited for one; {}",
            upstream.busy,
            upstream.name,
            upstream.queue,
            cpu(trial)
        );
        return (Ends::Backend, why);
    }
    by_what_the_machine_shows(trial, calm)
}

/// Connections that were not taken, and requests that were sent away.
fn refused(trial: &Trial) -> Option<(Ends, String)> {
    let count = |wanted: &[Outcome]| -> usize {
        wanted.iter().filter_map(|outcome| trial.failures.get(outcome)).sum()
    };
    let sent = trial.sent.max(1);
    let often = |count: usize| count * 50 > sent;
    if let Some((open, most)) = trial.sight.descriptors
        && open as f64 > 0.95 * most as f64
    {
        let why = format!("a process of the server has {open} of {most} descriptors open");
        return Some((Ends::Connections, why));
    }
    let closed = count(&[Outcome::Refused, Outcome::NoTls, Outcome::Broken]);
    if often(closed) {
        let why = format!("{closed} of {sent} connections were refused or broken");
        return Some((Ends::Connections, why));
    }
    let away = count(&[Outcome::Status(503), Outcome::Status(429)]);
    if often(away) {
        let why = format!("{away} of {sent} requests were sent away with status 503 or 429");
        return Some((Ends::Queue, why));
    }
    let gateway = count(&[Outcome::Status(502), Outcome::Status(504)]);
    if often(gateway) {
        let why = format!("{gateway} of {sent} requests were answered with status 502 or 504");
        return Some((Ends::Backend, why));
    }
    // All that is a status now, and which one request alone never had.
    let statuses = || trial.failures.iter().filter(|one| matches!(one.0, Outcome::Status(_)));
    if often(statuses().map(|one| one.1).sum())
        && let Some((outcome, count)) = statuses().max_by_key(|one| one.1)
    {
        let why = format!(
            "{count} of {sent} requests were answered with {}: its log says what it lacked, such \
             as connections to a database",
            outcome.name()
        );
        return Some((Ends::Application, why));
    }
    None
}

fn machine_is_full(trial: &Trial) -> String {
    let sight = &trial.sight;
    let mut why = cpu(trial);
    if sight.generator > 0.3 * sight.machine {
        why += ". The load generator takes a good part of it: from another machine there is more";
    } else if sight.server.is_some_and(|server| server < 0.5 * sight.machine) {
        why += ". Other programs use most of it: the result is that of a busy machine";
    }
    why
}

/// The last resort: Little's law says how many requests were really served at once.
fn by_what_the_machine_shows(trial: &Trial, calm: f64) -> (Ends, String) {
    let sight = &trial.sight;
    let at_once = trial.throughput * calm;
    let mut why = format!(
        "it answers {:.1}/s of requests that take {} alone, so it works on about {at_once:.1} at \
        once, and the machine used {}",
        trial.throughput,
        time(calm),
        cpu(trial)
    );
    if sight.unaccepted >= 1.0 {
        let _ = write!(why, "; {:.0} connections waited to be accepted", sight.unaccepted);
        return (Ends::Queue, why);
    }
    match sight.server {
        None => (Ends::Nothing, why + "; its processes cannot be seen from here"),
        Some(_) => (Ends::Workers, why + ": its workers wait, or what they ask does"),
    }
}

/// Cores that the server could have used in addition, from which on this is said. Every program
/// that wakes up waits for a moment: with a tenth, a machine with room would be called short.
const DELAYED: f64 = 0.2;

fn cpu(trial: &Trial) -> String {
    let sight = &trial.sight;
    let mut text = format!("{:.1} of {:.0} cores", sight.machine, sight.cores);
    if let Some(server) = sight.server {
        let _ =
            write!(text, " (the server {server:.1}, the load generator {:.1})", sight.generator);
    }
    if sight.delayed >= DELAYED {
        let _ = write!(text, "; the server could have used {:.1} more", sight.delayed);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::tokamak::Use;
    use crate::watch::Sight;

    fn trial(change: impl FnOnce(&mut Trial)) -> Trial {
        let mut trial = Trial {
            rate: 220.0,
            sent: 1000,
            throughput: 200.0,
            verdict: Verdict::Breaks("too slow".into()),
            sight: Sight { cores: 4.0, machine: 0.5, server: Some(0.2), ..Sight::default() },
            ..Trial::default()
        };
        change(&mut trial);
        trial
    }

    #[test]
    fn each_resource_is_named() {
        let pool = |busy| Use { name: "shop".into(), busy, most: 2, queue: 30.0 };
        let failed = |outcome| BTreeMap::from([(outcome, 400)]);
        for (wanted, said, trial) in [
            (Ends::Workers, "shop", trial(|t| t.sight.pool = Some(pool(1.9)))),
            (
                Ends::Workers,
                "they compute",
                trial(|t| {
                    t.sight.pool = Some(pool(2.0));
                    (t.sight.server, t.sight.machine) = (Some(2.0), 2.2);
                }),
            ),
            (
                Ends::Workers,
                "4.0 of 4 cores (the server 0.2",
                trial(|t| {
                    (t.sight.machine, t.sight.pool) = (4.0, Some(pool(2.0)));
                }),
            ),
            (
                Ends::Cpu,
                "could have used 1.6 more. Other programs",
                trial(|t| {
                    (t.sight.machine, t.sight.pool) = (4.0, Some(pool(2.0)));
                    t.sight.delayed = 1.6;
                }),
            ),
            (
                Ends::Cpu,
                "Other programs",
                trial(|t| {
                    (t.sight.machine, t.sight.delayed) = (4.0, 1.6);
                }),
            ),
            (
                Ends::Workers,
                "they wait for something",
                trial(|t| {
                    (t.sight.machine, t.sight.pool) = (4.0, Some(pool(2.0)));
                    t.sight.generator = 1.2;
                }),
            ),
            (
                Ends::Cpu,
                "3.8 of 4 cores",
                trial(|t| {
                    (t.sight.machine, t.sight.pool) = (3.8, Some(pool(2.0)));
                    t.sight.server = Some(2.5);
                }),
            ),
            (
                Ends::Cpu,
                "another machine",
                trial(|t| {
                    (t.sight.machine, t.sight.generator) = (3.9, 2.0);
                    t.verdict = Verdict::Generator("late".into());
                }),
            ),
            (
                Ends::Cpu,
                "one thread of node",
                trial(|t| {
                    t.sight.hottest = Some(("node".into(), 7, 0.97));
                }),
            ),
            (
                Ends::Backend,
                "app",
                trial(|t| {
                    t.sight.upstream = Some(Use { name: "app".into(), ..pool(8.0) });
                }),
            ),
            (
                Ends::Workers,
                "about 2.0 at once",
                trial(|t| {
                    t.sight.upstream = Some(Use { queue: 0.0, ..pool(0.3) });
                }),
            ),
            (Ends::Backend, "502", trial(|t| t.failures = failed(Outcome::Status(502)))),
            (Ends::Application, "status 500", trial(|t| t.failures = failed(Outcome::Status(500)))),
            (Ends::Queue, "503", trial(|t| t.failures = failed(Outcome::Status(503)))),
            (Ends::Queue, "accepted", trial(|t| t.sight.unaccepted = 40.0)),
            (Ends::Connections, "refused", trial(|t| t.failures = failed(Outcome::Refused))),
            (
                Ends::Connections,
                "1020 of 1024",
                trial(|t| {
                    t.sight.descriptors = Some((1020, 1024));
                }),
            ),
            (Ends::Generator, "late", trial(|t| t.verdict = Verdict::Generator("late".into()))),
            (Ends::Workers, "about 2.0 at once", trial(|_| ())),
            (Ends::Nothing, "cannot be seen", trial(|t| t.sight.server = None)),
        ] {
            let (found, why) = ends(&[&trial], 0.01);
            assert_eq!(found, wanted, "{why}");
            assert!(why.contains(said), "{said} is not in: {why}");
        }
        assert_eq!(ends(&[], 0.01).0, Ends::Nothing);
    }
}
