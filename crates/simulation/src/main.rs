//! Runs schedules of the simulation: `simulate FROM..TO`, or `simulate SEED` for one with all that
//! happens in it.

use std::process::ExitCode;
use std::time::Instant;

use tokamak_simulation::{faults_of, run, search};

fn main() -> ExitCode {
    let argument = std::env::args().nth(1).unwrap_or_default();
    if let Ok(seed) = argument.parse() {
        return show(seed);
    }
    let range = argument.split_once("..");
    let range = range.and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    let Some((from, to)): Option<(u64, u64)> = range else {
        eprintln!("usage: tokamak-simulation FROM..TO | SEED");
        return ExitCode::from(2);
    };
    let begun = Instant::now();
    let (mut steps, mut requests, mut answered, mut renewals, mut longest) = (0, 0, 0, 0, 0);
    let mut failures = 0;
    for seed in from..to {
        match search(seed) {
            Ok(ran) => {
                steps += ran.steps;
                requests += ran.requests;
                answered += ran.answered;
                renewals += ran.renewals;
                longest = longest.max(ran.recovery);
            }
            Err(found) => {
                failures += 1;
                println!("seed {seed}: {}\n  {:?}", found.what, found.faults);
            }
        }
        if (seed - from) % 100_000 == 99_999 {
            println!("{} schedules, {failures} failures", seed - from + 1);
        }
    }
    println!(
        "{} schedules in {:.0} s: {failures} failures; {steps} steps, {requests} requests, \
            {answered} answered, {renewals} renewals, longest recovery {:.1} s",
        to - from,
        begun.elapsed().as_secs_f64(),
        longest as f64 / 1e9
    );
    ExitCode::from(u8::from(failures > 0))
}

fn show(seed: u64) -> ExitCode {
    let mut trace = Vec::new();
    let faults = faults_of(seed);
    let (what, faults) = match search(seed) {
        Ok(_) => (run(seed, &faults, Some(&mut trace)).map(drop), faults),
        Err(found) => {
            trace = found.trace;
            (Err(found.what), found.faults)
        }
    };
    trace.iter().for_each(|line| println!("{line}"));
    println!("seed {seed}: {}\n  {faults:?}", what.err().unwrap_or("all is well".into()));
    ExitCode::SUCCESS
}
