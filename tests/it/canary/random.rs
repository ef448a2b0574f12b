//! Ten thousand requests, over several connections and several workers, and no random value comes twice.
//!
//! A process that is put back to an earlier state would repeat itself, and so would two that were forked from one that
//! had already used a generator: the worker script uses each before its loop.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use serde_json::Value;

use crate::harness::{Kind, Setup, get, in_every_mode};

in_every_mode! { no_value_comes_twice }

const REQUESTS: usize = 10_000;
const CONNECTIONS: usize = 4;
const WORKERS: usize = 3;

/// PHP seeds some generators with little, and behind php-fpm their values come twice as well: those of `mt_rand`, seeded from 32
/// bits, in one run of a hundred; of `lcg_value`, seeded from the clock, a handful in each run. One that repeats itself
/// does so in most requests.
const SHORT_SEEDS: usize = REQUESTS / 100;

/// What came so far.
#[derive(Default)]
struct Seen {
    processes: HashSet<String>,
    /// By generator: its values, and how many of them came before.
    values: HashMap<String, (HashSet<String>, usize)>,
    /// The same for generators with short seeds.
    seeded: HashMap<String, (HashSet<String>, usize)>,
}

fn no_value_comes_twice(kind: Kind) {
    let server = Setup::new(kind).site("canary").workers(WORKERS).start();
    let seen = Mutex::new(Seen::default());
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let mut connection = server.connect();
                for _ in 0..REQUESTS / CONNECTIONS {
                    let answer = connection.exchange(&get("/random.php")).expect(200).json();
                    seen.lock().unwrap().add(&answer);
                }
            });
        }
    });
    let seen = seen.into_inner().unwrap();
    assert!(seen.processes.len() >= WORKERS, "not every worker has served");
    let above = |seen: &HashMap<String, (_, usize)>, most| -> Vec<_> {
        seen.iter()
            .filter(|(_, (_, again))| *again > most)
            .map(|(name, (_, again))| (name.clone(), *again))
            .collect()
    };
    let repeating = [above(&seen.values, 0), above(&seen.seeded, SHORT_SEEDS)].concat();
    assert!(repeating.is_empty(), "{kind:?}: generators repeat themselves: {repeating:?}");
    assert_eq!((seen.values.len(), seen.seeded.len()), (10, 7), "generators");
}

impl Seen {
    fn add(&mut self, answer: &Value) {
        self.processes.insert(answer["pid"].to_string());
        note(&mut self.values, &answer["values"]);
        note(&mut self.seeded, &answer["seeded"]);
    }
}

fn note(seen: &mut HashMap<String, (HashSet<String>, usize)>, came: &Value) {
    for (generator, value) in came.as_object().expect("values by generator") {
        let (values, again) = seen.entry(generator.clone()).or_default();
        *again += usize::from(!values.insert(value.to_string()));
    }
}
