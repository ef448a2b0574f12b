//! The bill: how long each phase took, once the tracer's own time is taken away.
//!
//! The way of a request is one line of time, from the client's first byte to its last. The end of
//! each call of the request is a mark on it, and the time up to a mark belongs to the phase of that
//! call. The same call at the same place of each request is a *step*; it takes the mean of
//! its times in the quickest tenth of the requests, so that moments in which the machine did
//! something else count for little: with a tracer there are many, since each call lets other
//! processes run.
//!
//! Each step has one traced call in it, so one call's overhead is taken off, and no step becomes
//! shorter than nothing. The overhead is the one with which the steps together take as long as the
//! quickest tenth of the requests without a tracer.
//!
//! Where the kernel has noted the calls, next to nothing is taken off, and the same load ran beside
//! it without notes: then a step's mean is that of all its times.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::driver::Exchange;
use crate::follow::Purpose;
use crate::line::Call;
use crate::phase::{Phase, ROWS};

/// Mean, standard deviation and median of durations, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub deviation: f64,
    /// Median.
    pub median: f64,
    /// Mean of the quickest tenth: with the least disturbances.
    pub quiet: f64,
}

impl Spread {
    /// Of these durations.
    pub fn of(mut values: Vec<f64>) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        values.sort_by(f64::total_cmp);
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let quickest = &values[..values.len().div_ceil(10)];
        let quiet = quickest.iter().sum::<f64>() / quickest.len() as f64;
        let deviation = (squares / count).sqrt();
        Self { mean, deviation, median: values[values.len() / 2], quiet }
    }

    /// Of what clients measured.
    pub fn of_exchanges(exchanges: &[Exchange]) -> Self {
        Self::of(exchanges.iter().map(|it| it.end.saturating_sub(it.start) as f64).collect())
    }
}

/// A piece of a request's time: up to the end of one call, or to the client's last byte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// Whose it is.
    pub phase: Phase,
    /// The call at its end; nothing for the last one, which the client ends.
    pub call: Option<usize>,
    /// Nanoseconds, the tracer's included.
    pub length: u64,
    /// Those of them before the call began: its thread computed, or the tracer had it stopped.
    pub before: u64,
    /// Whether the client has its response already.
    pub is_after: bool,
}

/// The pieces of each request.
pub fn pieces(
    calls: &[Call],
    purposes: &[Option<Purpose>],
    exchanges: &[Exchange],
) -> Vec<Vec<Piece>> {
    let mut of: Vec<Vec<Piece>> = vec![Vec::new(); exchanges.len()];
    let mut now: Vec<u64> = exchanges.iter().map(|exchange| exchange.start).collect();
    // The end of each thread's last call, of whichever request.
    let mut last: HashMap<u32, u64> = HashMap::new();
    for (index, (call, purpose)) in calls.iter().zip(purposes).enumerate() {
        let last = last.insert(call.thread, call.end).unwrap_or(0);
        let Some(Purpose { request, phase }) = *purpose else { continue };
        let (exchange, now) = (&exchanges[request], &mut now[request]);
        let is_after = *now >= exchange.end;
        let until = if is_after { call.end } else { call.end.min(exchange.end) };
        let length = until.saturating_sub(*now);
        // A thread that waited since before, or served another request, has not computed meanwhile.
        let before = call.start.min(until).saturating_sub(last.max(*now));
        *now = until.max(*now);
        of[request].push(Piece { phase, call: Some(index), length, before, is_after });
    }
    for ((request, exchange), now) in of.iter_mut().zip(exchanges).zip(now) {
        if now < exchange.end {
            let length = exchange.end - now;
            let at = request.iter().take_while(|piece| !piece.is_after).count();
            let (phase, call, before) = (Phase::Arrive, None, 0);
            let last = Piece { phase, call, length, before, is_after: false };
            request.insert(at, last);
        }
    }
    of
}

/// The same call at the same place of the requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Whose it is.
    pub phase: Phase,
    /// One of its calls; nothing for the client's own end.
    pub call: Option<usize>,
    /// Whether the client has its response already.
    pub is_after: bool,
    /// The part of the requests that have it.
    pub share: f64,
    /// The part of the quickest requests that have it.
    quiet_share: f64,
    /// The mean of its times in those, in nanoseconds, the tracer's included.
    quiet: f64,
    /// What of it came before the call began.
    quiet_before: f64,
    /// The mean of all its times, in nanoseconds, the tracer's included.
    mean: f64,
    /// Half of what the middle half of all its times spreads over.
    spread: f64,
    /// Where it comes in its requests, on average.
    position: f64,
}

/// What makes two pieces of different requests the same step: phase, whether it comes after the
/// response, program, call, and how many like it come before.
type Key<'a> = (Phase, bool, &'a str, &'a str, usize);

fn keys<'a>(
    calls: &'a [Call],
    request: &[Piece],
    program: &impl Fn(u32) -> &'a str,
) -> Vec<Key<'a>> {
    let mut times: HashMap<Key<'a>, usize> = HashMap::new();
    let key = |piece: &Piece| {
        let call = piece.call.map(|index| &calls[index]);
        let (who, name) = call.map_or(("", ""), |call| (program(call.thread), &call.name));
        let mut key = (piece.phase, piece.is_after, who, name, 0);
        let before = times.entry(key).or_default();
        key.4 = *before;
        *before += 1;
        key
    };
    request.iter().map(key).collect()
}

/// What is summed up of a step.
#[derive(Default)]
struct Sums {
    positions: usize,
    lengths: Vec<u64>,
    example: Option<usize>,
    quiet_count: usize,
    quiet: u64,
    quiet_before: u64,
}

/// The tenth of the requests that was answered first: those that were disturbed least. At least
/// one.
fn quickest(requests: &[Vec<Piece>]) -> HashSet<usize> {
    let time = |request: &Vec<Piece>| -> u64 {
        request.iter().filter(|piece| !piece.is_after).map(|piece| piece.length).sum()
    };
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|number| time(&requests[*number]));
    order.truncate(requests.len().div_ceil(10));
    order.into_iter().collect()
}

/// The steps of all requests, in their order. `process` distinguishes the processes of threads by
/// what runs in them.
pub fn steps<'a>(
    calls: &'a [Call],
    requests: &[Vec<Piece>],
    program: impl Fn(u32) -> &'a str,
) -> Vec<Step> {
    let keys: Vec<Vec<Key<'a>>> =
        requests.iter().map(|request| keys(calls, request, &program)).collect();
    let quiet = quickest(requests);
    let mut found: HashMap<Key<'a>, Sums> = HashMap::new();
    for (number, (request, keys)) in requests.iter().zip(&keys).enumerate() {
        for (position, (piece, key)) in request.iter().zip(keys).enumerate() {
            let sums = found.entry(*key).or_default();
            sums.positions += position;
            sums.lengths.push(piece.length);
            sums.example = piece.call;
            if quiet.contains(&number) {
                sums.quiet_count += 1;
                sums.quiet += piece.length;
                sums.quiet_before += piece.before;
            }
        }
    }
    let mut steps: Vec<Step> = found
        .into_iter()
        .map(|((phase, is_after, ..), mut sums)| {
            sums.lengths.sort_unstable();
            let count = sums.lengths.len();
            let at = |quarter: usize| sums.lengths[count * quarter / 4] as f64;
            Step {
                phase,
                call: sums.example,
                is_after,
                share: count as f64 / requests.len() as f64,
                quiet_share: sums.quiet_count as f64 / quiet.len() as f64,
                quiet: sums.quiet as f64 / sums.quiet_count.max(1) as f64,
                quiet_before: sums.quiet_before as f64 / sums.quiet_count.max(1) as f64,
                mean: sums.lengths.iter().sum::<u64>() as f64 / count as f64,
                spread: (at(3) - at(1)) / 2.0 * count as f64 / requests.len() as f64,
                position: sums.positions as f64 / count as f64,
            }
        })
        .collect();
    steps.sort_by(|a, b| {
        (a.is_after, a.position, a.phase, a.call)
            .partial_cmp(&(b.is_after, b.position, b.phase, b.call))
            .expect("positions are numbers")
    });
    steps
}

/// The tracer's time that is taken off a step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tracer {
    /// What a traced call takes, in nanoseconds.
    pub call: f64,
    /// The part of it before a call begins.
    pub before: f64,
}

impl Tracer {
    /// A tracer whose calls take so long: most calls follow each other at once, so what usually
    /// comes before one is the tracer's.
    pub fn of(steps: &[Step], overhead: f64) -> Tracer {
        let mut before: Vec<f64> =
            steps.iter().filter(|step| step.call.is_some()).map(|step| step.quiet_before).collect();
        before.sort_by(f64::total_cmp);
        let usual = before.get(before.len() / 2).copied().unwrap_or(0.0);
        Tracer { call: overhead, before: usual.min(overhead) }
    }
}

/// A time before a call that is shorter than this, in nanoseconds, is no computing that could be
/// distinguished from the tracer's work.
const COMPUTED: f64 = 20_000.0;

impl Step {
    /// Nanoseconds in one of the quickest requests without the tracer's.
    pub fn own(&self, overhead: f64) -> f64 {
        self.quiet_share * self.without(self.quiet, overhead)
    }

    /// What of its own time was computed before the call: that is not what the call costs.
    pub fn computed(&self, tracer: Tracer) -> f64 {
        let computed = self.quiet_before - tracer.before;
        if computed < COMPUTED {
            return 0.0;
        }
        (self.quiet_share * computed).min(self.own(tracer.call))
    }

    /// Nanoseconds in a request, on average over all, without the tracer's.
    fn own_mean(&self, overhead: f64) -> f64 {
        self.share * self.without(self.mean, overhead)
    }

    fn without(&self, time: f64, overhead: f64) -> f64 {
        let overhead = if self.call.is_some() { overhead } else { 0.0 };
        (time - overhead).max(0.0)
    }
}

/// What the steps take together with this overhead taken off each call.
fn sum_with(steps: &[Step], overhead: f64) -> f64 {
    steps.iter().filter(|step| !step.is_after).map(|step| step.own(overhead)).sum()
}

/// The overhead of one traced call with which the steps take as long as without the tracer.
pub fn overhead(steps: &[Step], untraced: f64) -> f64 {
    let longest = steps.iter().map(|step| step.quiet).fold(0.0, f64::max);
    let (mut low, mut high) = (0.0, longest);
    // The sum falls as the overhead rises, so halving finds it.
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if sum_with(steps, middle) > untraced { low = middle } else { high = middle }
    }
    low
}

/// Which part of the time of each phase its threads computed, as far as a trace shows it.
pub fn computed_under(tracer: Tracer, steps: &[Step]) -> HashMap<Phase, f64> {
    let mut times: HashMap<Phase, (f64, f64)> = HashMap::new();
    for step in steps.iter().filter(|step| !step.is_after) {
        let (computed, all) = times.entry(step.phase).or_default();
        *computed += step.computed(tracer);
        *all += step.own(tracer.call);
    }
    let part = |(phase, (computed, all)): (Phase, (f64, f64))| {
        (computed > 0.0).then(|| (phase, computed / all))
    };
    times.into_iter().filter_map(part).collect()
}

/// Which part of the time of each phase its threads computed, before their calls. `calls` have
/// their beginnings; `cost` is what each note of the kernel takes.
pub fn computed(
    calls: &[Call],
    purposes: &[Option<Purpose>],
    exchanges: &[Exchange],
    cost: f64,
) -> HashMap<Phase, f64> {
    let mut now: Vec<u64> = exchanges.iter().map(|exchange| exchange.start).collect();
    // Before the calls, and in them.
    let mut times: HashMap<Phase, (f64, f64)> = HashMap::new();
    for (call, purpose) in calls.iter().zip(purposes) {
        let Some(Purpose { request, phase }) = *purpose else { continue };
        let (exchange, now) = (&exchanges[request], &mut now[request]);
        if *now >= exchange.end {
            continue;
        }
        let until = call.end.clamp(*now, exchange.end);
        // A thread that waited since before has not computed meanwhile.
        let begun = call.start.clamp(*now, until);
        let (before, within) = times.entry(phase).or_default();
        let noted = |is_within| if is_within { cost } else { 0.0 };
        *before += (begun - *now) as f64 - noted(begun > *now && begun == call.start);
        *within += (until - begun) as f64 - noted(until == call.end);
        *now = until;
    }
    let part = |(phase, (before, within)): (Phase, (f64, f64))| {
        let (before, within) = (before.max(0.0), within.max(0.0));
        (before > 0.0).then(|| (phase, before / (before + within)))
    };
    times.into_iter().filter_map(part).collect()
}

/// Moves what was computed in each row into rows of its own, so that the sum stays what it is.
pub fn divided(rows: Vec<Row>, computed: &HashMap<Phase, f64>) -> Vec<Row> {
    let mut found: BTreeMap<Phase, Row> = BTreeMap::new();
    for mut row in rows {
        let part = computed.get(&row.phase).copied().unwrap_or_default();
        let phase = row.phase.computed();
        if part > 0.0 {
            let none = Row { phase, quiet: 0.0, mean: 0.0, spread: 0.0, after: 0.0, calls: 0.0 };
            let to = found.entry(phase).or_insert(none);
            for (to, from) in [
                (&mut to.quiet, &mut row.quiet),
                (&mut to.mean, &mut row.mean),
                (&mut to.spread, &mut row.spread),
            ] {
                let moved = *from * part;
                *to += moved;
                *from -= moved;
            }
        }
        found.insert(row.phase, row);
    }
    ROWS.iter().filter_map(|row| found.remove(&row.0)).collect()
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The phase.
    pub phase: Phase,
    /// Its part of the response time where nothing disturbs, in nanoseconds.
    pub quiet: f64,
    /// Its part of the mean response time: measured where the kernel noted the calls, else the same
    /// share of it as of the quiet one.
    pub mean: f64,
    /// Half of what the middle half of the requests spread over, with calls noted or traced.
    pub spread: f64,
    /// What of it comes after the response, in nanoseconds.
    pub after: f64,
    /// Calls for each request.
    pub calls: f64,
}

/// Steps whose times count.
pub struct Timed<'a> {
    /// The steps.
    pub steps: &'a [Step],
    /// What is taken off each call.
    pub overhead: f64,
    /// How many times as long the mean response is as a quiet one without a tracer: for steps whose
    /// own mean is the tracer's work. Disturbances make it; which phase they hit without a tracer
    /// is not known, so each phase gets its share of them.
    pub scale: Option<f64>,
}

/// The table: the phases that occur, in their order. Calls are those of `counted`.
pub fn rows(counted: &[Step], timed: &Timed<'_>) -> Vec<Row> {
    let &Timed { overhead, scale, .. } = timed;
    let row = |&(phase, ..): &(Phase, &str, &str)| {
        let calls = counted.iter().filter(|step| step.phase == phase);
        let of = timed.steps.iter().filter(|step| step.phase == phase);
        let sum = |is_after, value: &dyn Fn(&Step) -> f64| -> f64 {
            // The sum of nothing is -0, which would be printed so.
            of.clone().filter(|step| step.is_after == is_after).map(value).sum::<f64>() + 0.0
        };
        let quiet = sum(false, &|step| step.own(overhead));
        calls.clone().chain(of.clone()).next().map(|_| Row {
            phase,
            quiet,
            mean: match scale {
                Some(scale) => quiet * scale,
                None => sum(false, &|step| step.own_mean(overhead)),
            },
            spread: sum(false, &|step| step.spread),
            after: sum(true, &|step| step.own(overhead)),
            calls: calls.filter(|s| s.call.is_some()).map(|s| s.share).sum::<f64>() + 0.0,
        })
    };
    ROWS.iter().filter_map(row).collect()
}

/// How often a call was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// In all.
    pub calls: u64,
    /// Those that gave an error.
    pub failed: u64,
}

/// How often each program made each call: those of no request too.
pub fn calls_by_name<'a>(
    calls: &'a [Call],
    program: impl Fn(u32) -> &'a str,
) -> BTreeMap<(String, String), Count> {
    let mut table: BTreeMap<_, Count> = BTreeMap::new();
    for call in calls {
        let key = (program(call.thread).to_owned(), call.name.clone());
        let count = table.entry(key).or_default();
        count.calls += 1;
        count.failed += u64::from(call.error.is_some());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, end: u64) -> Call {
        crate::line::call(1, name, "", "0", end - 1, 1)
    }

    fn piece(phase: Phase, call: Option<usize>, length: u64) -> Piece {
        Piece { phase, call, length, before: 0, is_after: false }
    }

    #[test]
    fn the_overhead_makes_the_sum_the_quiet_time_and_no_step_negative() {
        let calls = ["accept", "read", "write"].map(|name| call(name, 9));
        let usual = vec![
            piece(Phase::Accept, Some(0), 50),
            piece(Phase::ReadRequest, Some(1), 90),
            piece(Phase::Respond, Some(2), 10),
            piece(Phase::Arrive, None, 7),
        ];
        let mut disturbed = usual.clone();
        disturbed[1].length = 9000;
        let requests = vec![usual.clone(), disturbed, usual];
        let steps = steps(&calls, &requests, |_| "server");
        let overhead = overhead(&steps, 77.0);
        assert!((overhead - 35.0).abs() < 0.001, "{overhead}");
        let rows = rows(&steps, &Timed { steps: &steps, overhead, scale: Some(2.0) });
        assert!((rows.iter().map(|row| row.quiet).sum::<f64>() - 77.0).abs() < 0.001);
        assert!((rows.iter().map(|row| row.mean).sum::<f64>() - 154.0).abs() < 0.001);
        assert_eq!((rows[2].quiet, rows[3].quiet), (0.0, 7.0));
    }

    #[test]
    fn means_of_noted_calls_are_those_of_all_requests() {
        let calls = ["read", "write"].map(|name| call(name, 9));
        let requests = [40, 70].map(|read| {
            vec![piece(Phase::ReadRequest, Some(0), read), piece(Phase::Respond, Some(1), 20)]
        });
        let steps = steps(&calls, &requests, |_| "server");
        let rows = rows(&steps, &Timed { steps: &steps, overhead: 5.0, scale: None });
        let found: Vec<_> = rows.iter().map(|row| (row.quiet, row.mean)).collect();
        assert_eq!(found, [(35.0, 50.0), (15.0, 15.0)]);
    }

    #[test]
    fn the_time_of_a_request_is_cut_at_the_ends_of_its_calls() {
        let calls = [120, 150, 210, 230, 300].map(|end| call("read", end));
        let exchanges = [Exchange { port: 1, start: 100, end: 200 }];
        let at = |phase| Some(Purpose { request: 0, phase });
        let purposes =
            [at(Phase::Accept), None, at(Phase::Respond), at(Phase::Log), at(Phase::Close)];
        let found = pieces(&calls, &purposes, &exchanges);
        let found: Vec<_> = found[0].iter().map(|p| (p.phase, p.length, p.is_after)).collect();
        let expected = [
            (Phase::Accept, 20, false),
            (Phase::Respond, 80, false),
            (Phase::Log, 30, true),
            (Phase::Close, 70, true),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_step_that_the_quickest_request_has_not_takes_no_time() {
        let calls = [call("read", 9)];
        let requests = vec![vec![piece(Phase::Work, Some(0), 100)], Vec::new()];
        let steps = steps(&calls, &requests, |_| "server");
        assert_eq!((steps.len(), steps[0].share, steps[0].own(20.0)), (1, 0.5, 0.0));
    }

    #[test]
    fn what_comes_before_a_traced_call_is_computed_and_not_what_it_costs() {
        let calls = ["read", "chdir", "write"].map(|name| call(name, 9));
        let piece = |index, length, before| Piece {
            phase: Phase::BackendRun,
            call: Some(index),
            length,
            before,
            is_after: false,
        };
        let request = vec![
            piece(0, 50_000, 20_000),
            piece(1, 9_050_000, 9_020_000),
            piece(2, 60_000, 20_000),
        ];
        let steps = steps(&calls, &[request], |_| "php-fpm");
        let tracer = Tracer::of(&steps, 40_000.0);
        assert_eq!(tracer.before, 20_000.0);
        let found: Vec<_> =
            steps.iter().map(|step| (step.own(40_000.0), step.computed(tracer))).collect();
        assert_eq!(found, [(10_000.0, 0.0), (9_010_000.0, 9_000_000.0), (20_000.0, 0.0)]);
        let parts = computed_under(tracer, &steps);
        assert!((parts[&Phase::BackendRun] - 9.0 / 9.04).abs() < 1e-9, "{parts:?}");
    }

    #[test]
    fn what_a_thread_does_before_its_calls_is_computed() {
        let at = |start, end| crate::line::call(1, "read", "", "0", start, end - start);
        // It waits, reads, computes, writes; the client has its response; it computes on.
        let calls = [at(50, 110), at(112, 122), at(182, 202), at(250, 260)];
        let exchanges = [Exchange { port: 1, start: 100, end: 210 }];
        let purpose = |phase| Some(Purpose { request: 0, phase });
        let purposes = [
            purpose(Phase::Accept),
            purpose(Phase::BackendRead),
            purpose(Phase::BackendRun),
            purpose(Phase::BackendRun),
        ];
        let parts = computed(&calls, &purposes, &exchanges, 2.0);
        // The two nanoseconds before the read are the note's; of the write 58 and 18 are left, and
        // after it the client's last byte comes before the next note.
        assert_eq!(parts.len(), 1, "{parts:?}");
        assert!((parts[&Phase::BackendRun] - 66.0 / 84.0).abs() < 1e-9, "{parts:?}");
        let row = |phase, mean| Row {
            phase,
            quiet: mean / 2.0,
            mean,
            spread: 1.0,
            after: 0.0,
            calls: 1.0,
        };
        let rows = divided(vec![row(Phase::BackendRun, 82.0), row(Phase::Respond, 5.0)], &parts);
        let phases: Vec<_> = rows.iter().map(|row| row.phase).collect();
        assert_eq!(phases, [Phase::BackendRun, Phase::BackendCompute, Phase::Respond]);
        assert!((rows.iter().map(|row| row.mean).sum::<f64>() - 87.0).abs() < 1e-9);
        assert!((rows[1].mean / 82.0 - parts[&Phase::BackendRun]).abs() < 1e-9, "{rows:?}");
    }

    #[test]
    fn a_spread_of_nothing_is_zero() {
        assert_eq!(Spread::of(Vec::new()), Spread::default());
        let spread = Spread::of(vec![3.0, 1.0, 2.0]);
        assert_eq!((spread.mean, spread.median), (2.0, 2.0));
    }
}
