//! The search at work: trials at the rates that it asks for, until the knee is known or time is up.

use std::io;
use std::time::{Duration, Instant};

use crate::answers::{Answer, Outcome, part_of};
use crate::arrivals::{Spacing, arrivals};
use crate::client::{self, Rules};
use crate::ends::{Ends, ends};
use crate::judge::{Bound, Verdict, judge};
use crate::search::{Limits, Search};
use crate::target::Target;
use crate::trial::Trial;
use crate::watch::Watch;

/// Requests one after the other, before there is load: the first ones fill caches.
const CALM: usize = 12;
/// The lowest rate that is tried: one request in two seconds. Below it a trial of some seconds has
/// no requests.
const LEAST: f64 = 0.5;
/// How near the rates beside the knee come.
const PRECISION: f64 = 0.05;
/// Trials in all. The doubling to a million takes 20 of them, the halving 5, the repeats 4.
const TRIALS: usize = 40;
/// Fewest requests of a trial: with a tenth, three slow ones would break a bound on 90 %.
const FEWEST: f64 = 40.0;
/// Most time for a request before there is load, however short the bounds are: a page that takes
/// longer than they allow has a response time all the same.
const PATIENCE: Duration = Duration::from_secs(15);
/// Most time that a server has to come to rest after a trial.
const REST: Duration = Duration::from_secs(15);

/// Time after which a server that refuses all connections has ended. A tenth would be too short for
/// one that is started anew at once.
const ENDED: Duration = Duration::from_secs(4);

/// What is measured, and within which bounds.
pub struct CapacityTest<'a> {
    /// What is requested.
    pub target: Target,
    /// What must hold.
    pub bounds: Vec<Bound>,
    /// The highest rate that is tried.
    pub most: f64,
    /// Time for all of it.
    pub whole: Duration,
    /// Time for which a rate is held.
    pub step: Duration,
    /// The longest time that one answer may take.
    pub timeout: Duration,
    /// Most connections.
    pub connections: usize,
    /// How arrivals are spread.
    pub spacing: Spacing,
    /// The processes that are watched meanwhile.
    pub watch: Watch<'a>,
}

/// What was found.
#[derive(Debug)]
pub struct Report {
    /// What was requested.
    pub url: String,
    /// What had to hold.
    pub bounds: Vec<Bound>,
    /// The most requests a second at which it did; [`None`]: at no rate that was tried.
    pub peak: Option<f64>,
    /// Whether it holds at no rate at all: one request alone takes longer, or even the lowest rate
    /// is too much.
    pub is_at_no_rate: bool,
    /// The lowest rate at which it did not.
    pub beyond: Option<f64>,
    /// Whether both are near each other, and were tried again with the same result.
    pub is_sure: bool,
    /// The response time of one request at a time, in seconds.
    pub calm: f64,
    /// All trials, in order.
    pub trials: Vec<Trial>,
    /// What ends it.
    pub ends: Ends,
    /// How that was seen.
    pub why: String,
    /// How many seconds it took.
    pub seconds: f64,
    /// What else the reader should know.
    pub notes: Vec<String>,
}

/// Searches. `said` hears of each trial when it is over.
///
/// # Errors
/// Fails if the URL is not answered as visitors want, or the load generator cannot run.
pub fn run(test: &CapacityTest<'_>, said: &mut dyn FnMut(&Trial)) -> Result<Report, String> {
    let begun = Instant::now();
    let local = |error: io::Error| format!("the load generator: {error}");
    let calm = calm(test)?;
    let least = LEAST.min(test.most);
    let mut search = Search::new(Limits {
        start: (0.5 / calm).clamp(LEAST, 1000.0),
        most: test.most,
        least,
        precision: PRECISION,
        trials: TRIALS,
    });
    let mut trials: Vec<Trial> = Vec::new();
    let mut notes = Vec::new();
    while let Some(rate) = search.next() {
        if begun.elapsed() >= test.whole {
            notes.push("the time was up before the knee was known better (--for)".to_owned());
            break;
        }
        let trial = trial(test, rate, calm, trials.len() as u64).map_err(local)?;
        said(&trial);
        let held = trial.verdict == Verdict::Holds;
        search.record(rate, held);
        trials.push(trial);
        match if held { Rest::Quick } else { rests(test, calm).map_err(local)? } {
            Rest::Quick => {}
            Rest::Busy => {
                let waited = REST.as_secs();
                notes.push(format!(
                    "after {rate:.0}/s the server was not at rest within {waited} s: later \
                        trials began with work left over"
                ));
            }
            Rest::Ended => {
                notes.push(format!("after {rate:.0}/s the server took no connection any more"));
                break;
            }
        }
    }
    let beyond = search.breaks();
    let broken: Vec<&Trial> = trials
        .iter()
        .filter(|trial| Some(trial.rate) == beyond && trial.verdict != Verdict::Holds)
        .collect();
    let (ends, why) = match trials.is_empty() {
        true => (Ends::Nothing, "no rate was tried".to_owned()),
        false => ends(&broken, calm),
    };
    let peak = search.holds();
    let is_too_slow = test.bounds.iter().any(|bound| calm > bound.limit.as_secs_f64());
    let is_at_no_rate = peak.is_none() && (is_too_slow || beyond.is_some_and(|rate| rate <= least));
    Ok(Report {
        url: test.target.url.clone(),
        bounds: test.bounds.clone(),
        peak,
        is_at_no_rate,
        beyond,
        is_sure: search.is_sure(),
        calm,
        trials,
        ends,
        why,
        seconds: begun.elapsed().as_secs_f64(),
        notes,
    })
}

/// The response time without load, in seconds.
fn calm(test: &CapacityTest<'_>) -> Result<f64, String> {
    let url = &test.target.url;
    let mut taken = Vec::new();
    for _ in 0..CALM {
        let patience = PATIENCE.max(test.timeout);
        let answer =
            alone(test, patience).map_err(|error| format!("the load generator: {error}"))?;
        match answer.outcome {
            Outcome::Status(300..=399) => {
                return Err(format!(
                    "{url}: answered with {}, a redirect: name the address that it leads to",
                    answer.outcome.name()
                ));
            }
            Outcome::TimedOut => return Err(format!("{url}: no answer within {patience:?}")),
            other if !other.is_good() => return Err(format!("{url}: {}", other.name())),
            _ => taken.push(answer.taken.as_secs_f64()),
        }
    }
    // The first half fills caches.
    let calm = tokamak_observe::trend::median(&taken[CALM / 2..]).unwrap_or(0.0);
    Ok(calm.max(1e-5))
}

/// One request, while there is no other.
fn alone(test: &CapacityTest<'_>, timeout: Duration) -> io::Result<Answer> {
    let rules = Rules { connections: 1, timeout, threads: 1, give_up: None };
    let load = client::run(&test.target, &[Duration::ZERO], rules)?;
    load.answers.first().copied().ok_or_else(|| io::Error::other("it sent nothing"))
}

/// How a server is after a trial that broke its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// It answers as it does without load.
    Quick,
    /// It does not, yet.
    Busy,
    /// It refuses all connections.
    Ended,
}

/// Waits until the server answers two requests in a row as it does without load.
fn rests(test: &CapacityTest<'_>, calm: f64) -> io::Result<Rest> {
    let limit = test.bounds.iter().map(|bound| bound.limit.as_secs_f64()).fold(f64::MAX, f64::min);
    let quick = (2.0 * calm).max(limit / 4.0);
    let (begun, mut in_a_row, mut is_there) = (Instant::now(), 0, false);
    while in_a_row < 2 {
        if begun.elapsed() > REST {
            return Ok(Rest::Busy);
        }
        if begun.elapsed() > ENDED && !is_there {
            return Ok(Rest::Ended);
        }
        let answer = alone(test, test.timeout)?;
        is_there |= answer.outcome != Outcome::Refused;
        let is_calm = answer.outcome.is_good() && answer.taken.as_secs_f64() <= quick;
        in_a_row = if is_calm { in_a_row + 1 } else { 0 };
        if !is_calm {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    Ok(Rest::Quick)
}

/// The fewest slow ones of so many requests with which a part of all is not in time.
fn enough_to_break(requests: usize, part: f64) -> usize {
    requests + 1 - part_of(requests, part).min(requests)
}

/// Holds a rate for a time.
fn trial(test: &CapacityTest<'_>, rate: f64, calm: f64, nth: u64) -> io::Result<Trial> {
    let length = test.step.max(Duration::from_secs_f64((FEWEST / rate).min(30.0)));
    let schedule = arrivals(test.spacing, rate, length, nth);
    let give_up = test
        .bounds
        .iter()
        .map(|bound| (enough_to_break(schedule.len(), bound.part), bound.limit))
        .max_by_key(|(_, limit)| *limit);
    let rules = Rules {
        connections: test.connections,
        timeout: test.timeout,
        threads: threads(rate),
        give_up,
    };
    let (load, sight) = test.watch.during(|| client::run(&test.target, &schedule, rules));
    let load = load?;
    let scarce = rate * calm > test.connections as f64 / 2.0;
    let verdict = judge(&load, &test.bounds, scarce);
    Ok(Trial::new(rate, &load, &test.bounds, verdict, sight))
}

/// One thread is enough for some thousand requests a second; more would only take cores from a
/// server on the same machine.
fn threads(rate: f64) -> usize {
    const OF_ONE: f64 = 5000.0;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    ((rate / OF_ONE) as usize + 1).min(cores.div_ceil(2))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener};

    use proptest::prelude::*;

    use super::*;
    use crate::answers::quantile;
    use crate::print::result;
    use crate::target::Template;

    proptest! {
        #[test]
        fn a_trial_is_given_up_when_its_bound_is_broken_and_not_before(
            requests in 1..2000usize, percent in 1..=99u32
        ) {
            let part = f64::from(percent) / 100.0;
            let slow_ones_break = |slow: usize| {
                let mut taken = vec![Duration::from_secs(1); requests - slow];
                taken.resize(requests, Duration::MAX);
                quantile(&taken, part) == Duration::MAX
            };
            let enough = enough_to_break(requests, part);
            prop_assert!(slow_ones_break(enough) && !slow_ones_break(enough - 1), "{enough}");
        }
    }

    /// A server on a thread that ends with the test's process: it takes 30 ms for a request, and
    /// ends itself after so many of them.
    fn server(requests: usize) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().take(requests) {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 1024]);
                std::thread::sleep(Duration::from_millis(30));
                let _ = stream.write_all(b"HTTP/1.1 204 None\r\nConnection: close\r\n\r\n");
            }
        });
        address
    }

    fn test(address: SocketAddr, limit: Duration, whole: Duration) -> CapacityTest<'static> {
        CapacityTest {
            target: Target::new(&format!("http://{address}/"), &Template::default()).unwrap(),
            bounds: vec![Bound { part: 0.9, limit }],
            most: 1000.0,
            whole,
            step: Duration::from_secs(1),
            timeout: Duration::from_secs(60),
            connections: 10,
            spacing: Spacing::Poisson,
            watch: Watch { address, pids: Vec::new(), ask: &|| None },
        }
    }

    /// What is found when there is no time for a trial.
    fn without_a_trial(limit: Duration) -> Report {
        run(&test(server(usize::MAX), limit, Duration::ZERO), &mut |_| ()).unwrap()
    }

    #[test]
    fn a_server_that_ends_in_the_middle_is_not_asked_for_the_rest_of_the_time() {
        let whole = Duration::from_secs(600);
        let address = server(CALM + 30);
        let found = run(&test(address, Duration::from_secs(30), whole), &mut |_| ()).unwrap();
        assert_eq!((found.ends, found.peak), (Ends::Connections, None), "{found:?}");
        assert!(found.seconds < 300.0 && !found.is_at_no_rate);
        assert!(found.notes[0].contains("took no connection any more"), "{:?}", found.notes);
        assert!(result(&found).starts_with("not known"), "{}", result(&found));
    }

    #[test]
    fn without_time_for_a_trial_nothing_is_known_unless_one_request_takes_too_long() {
        let open = without_a_trial(Duration::from_secs(30));
        assert_eq!((open.peak, open.is_at_no_rate), (None, false));
        assert!(result(&open).starts_with("not known"), "{}", result(&open));
        assert_eq!(open.why, "no rate was tried");
        let never = without_a_trial(Duration::from_millis(10));
        assert!(never.is_at_no_rate);
        assert!(result(&never).starts_with("at no rate"), "{}", result(&never));
    }
}
