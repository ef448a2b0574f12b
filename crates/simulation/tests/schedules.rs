//! A hundred thousand schedules. Others: `TOKAMAK_SEEDS=FROM..TO`.

use std::env;
use std::thread;

use tokamak_simulation::{faults_of, run, search};

/// As many as take one or two minutes of one processor.
const SEEDS: u64 = 100_000;
/// Lines of a trace that are shown of a failure.
const SHOWN: usize = 120;

fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = env::var("TOKAMAK_SEEDS") else { return 0..SEEDS };
    let (from, to) = text.split_once("..").expect("TOKAMAK_SEEDS=FROM..TO");
    from.parse().expect("a number")..to.parse().expect("a number")
}

#[test]
fn whatever_goes_wrong_requests_have_one_end_and_all_serves_again() {
    let (seeds, threads) = (seeds(), thread::available_parallelism().map_or(1, usize::from));
    thread::scope(|scope| {
        for first in 0..threads {
            let mine = seeds.clone().skip(first).step_by(threads);
            scope.spawn(move || mine.for_each(look));
        }
    });
}

fn look(seed: u64) {
    let Err(found) = search(seed) else { return };
    let skipped = found.trace.len().saturating_sub(SHOWN);
    let trace = found.trace[skipped..].join("\n");
    panic!(
        "{trace}\n\nseed {seed}: {}\nfaults: {:?}\nall of it: cargo run -p tokamak-simulation -- \
            {seed}",
        found.what, found.faults
    );
}

#[test]
fn a_seed_is_the_same_schedule_each_time() {
    for seed in 0..50 {
        let steps = |seed| run(seed, &faults_of(seed), None).map(|ran| (ran.steps, ran.requests));
        assert_eq!(steps(seed), steps(seed), "seed {seed}");
    }
}

#[test]
fn schedules_do_what_they_are_for() {
    let rans: Vec<_> = (0..200).filter_map(|seed| search(seed).ok()).collect();
    assert!(rans.iter().any(|ran| ran.renewals > 0), "no site was renewed");
    assert!(rans.iter().any(|ran| ran.generations > 1), "nothing was reloaded");
    let (requests, answered) = rans.iter().fold((0, 0), |(requests, answered), ran| {
        (requests + ran.requests, answered + ran.answered)
    });
    assert!(answered * 10 > requests * 7, "{answered} of {requests} were answered");
}
