//! A canary for each row of state: requests set something to a value of their own and read it back
//! while others do the same, taking turns in an order that a seed draws. `docs/async-state.md` is
//! the table of what they saw.
//!
//! `TOKAMAK_SWITCHES=1000000 cargo test -p tokamak-php --test it -- canaries::` goes on until so
//! many times a request found that another one had run while it waited.

use crate::harness::*;

mod bodies;
mod globals;
mod page;

/// What the worker script includes, by name.
const FILES: &[(&str, &str)] = &[
    ("worker.php", include_str!("worker.php")),
    ("request.php", include_str!("request.php")),
    ("errors.php", include_str!("errors.php")),
    ("settings.php", include_str!("settings.php")),
    ("calls.php", include_str!("calls.php")),
    ("classes_of_8_4.php", include_str!("classes_of_8_4.php")),
    ("shared.php", include_str!("shared.php")),
];

/// Switches in an ordinary run of the tests.
const FEW: u64 = 20_000;

/// As many as the harness has slots for, and fewer.
const MOST_AT_ONCE: u64 = 50;

/// Of a body. PHP's parsers read 5 and 16 kB at a time: pieces are shorter, and longer.
const LONGEST_PIECE: u64 = 24 << 10;

/// A row of state, as the PHP files describe it.
#[derive(Clone, Debug)]
pub struct Row {
    pub topic: String,
    pub name: String,
    /// Shared by all requests, on purpose; what to do instead.
    pub instead: Option<String>,
}

/// The same numbers from the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn start(settings: &[(&str, &str)]) -> Site {
    start_in(&[], settings)
}

/// The same, with more in its environment.
fn start_in(environment: &[(&str, &str)], settings: &[(&str, &str)]) -> Site {
    let mut all = vec![
        ("mode", "async"),
        ("script", "%root%/worker.php"),
        ("concurrency", "64"),
        ("ini.opcache.file_update_protection", "0"),
    ];
    all.extend_from_slice(settings);
    Site::start_in(environment, FILES, &all, 1)
}

fn rows(site: &mut Site) -> Vec<Row> {
    let list = site.get("/?list=1").text();
    let row = |line: &str| {
        let cells: Vec<_> = line.split('\t').map(str::to_owned).collect();
        let [topic, name, kind, instead] = cells.try_into().expect("four cells");
        Row { topic, name, instead: (kind == "shared").then_some(instead) }
    };
    list.lines().map(row).collect()
}

/// A request that takes the part of `n` in a row's canary, and reads so many times, when so many
/// others have set theirs.
fn ask(row: &Row, n: u64, waits: u64, together: u64) -> Ask {
    let target = format!("/?n={n}");
    let (content_type, body) = bodies::body_of(&row.name, n);
    let method = if row.name == bodies::READ_BY_SCRIPT { "PUT" } else { "POST" };
    Ask { method, ..post(&target, content_type, &body) }
        .header("N", &n.to_string())
        .header("Waits", &waits.to_string())
        .header("Together", &together.to_string())
        .header("Topic", &row.topic)
        .header("Row", &row.name)
}

/// What is wrong with a response.
fn finding(n: u64, response: &Response) -> Option<String> {
    let text = response.text();
    let own = format!("({n})");
    let (verdict, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let row = response.header("X-Row");
    if verdict != "own" {
        Some(verdict.to_owned())
    } else if [rest, &row].iter().any(|said| said.contains('(') && !said.contains(&own)) {
        Some(format!("{rest}{row}"))
    } else {
        None
    }
}

/// Each row alone, with as many requests at once as the draw says, and then all kinds beside each
/// other; again until there have been so many switches. What was mixed up.
fn mixed(site: &mut Site, rows: &[Row], seed: u64, wanted: u64) -> Vec<String> {
    let mut random = Random(seed);
    let mut found = Vec::new();
    loop {
        for alone in rows.iter().map(Some).chain(rows.iter().map(|_| None)) {
            let count = 2 + random.below(MOST_AT_ONCE - 1);
            let asks: Vec<_> = (1..=count)
                .map(|n| {
                    let any = &rows[random.below(rows.len() as u64) as usize];
                    let row = alone.unwrap_or(any);
                    (n, row, ask(row, n, 2 + random.below(6), 0))
                })
                .collect();
            let all: Vec<_> = asks.iter().map(|(_, _, ask)| ask.clone()).collect();
            let answers = site.ask_all_in_pieces(&all, || 1 + random.below(LONGEST_PIECE) as usize);
            for ((n, row, _), answer) in asks.iter().zip(&answers) {
                found.extend(finding(*n, answer).map(|what| format!("{}: {what}", row.name)));
            }
        }
        let switches: u64 = site.get("/?count=1").text().parse().expect("a number");
        if switches >= wanted || !found.is_empty() {
            println!("{switches} switches from seed {seed}");
            found.sort();
            found.dedup();
            return found;
        }
    }
}

fn wanted() -> u64 {
    std::env::var("TOKAMAK_SWITCHES").map_or(FEW, |count| count.parse().expect("a number"))
}

fn nothing_is_mixed(settings: &[(&str, &str)]) {
    let seed = 4711;
    let mut site = start(&[&[("seed", "4711")], settings].concat());
    let own: Vec<_> = rows(&mut site).into_iter().filter(|row| row.instead.is_none()).collect();
    let found = mixed(&mut site, &own, seed, wanted());
    assert!(found.is_empty(), "{found:#?}\n{}", site.log());
    assert_eq!(site.log(), "");
}

#[test]
fn nothing_of_one_request_is_seen_by_another() {
    nothing_is_mixed(&[]);
}

#[test]
fn nothing_is_mixed_by_code_that_is_compiled_while_it_runs() {
    nothing_is_mixed(&[
        ("ini.opcache.jit", "tracing"),
        ("ini.opcache.jit_buffer_size", "32M"),
        ("ini.opcache.jit_hot_loop", "2"),
        ("ini.opcache.jit_hot_func", "2"),
        ("ini.opcache.jit_hot_return", "2"),
        ("ini.opcache.jit_hot_side_exit", "2"),
    ]);
}

#[test]
fn nothing_is_mixed_by_functions_that_are_compiled_at_once() {
    nothing_is_mixed(&[("ini.opcache.jit", "function"), ("ini.opcache.jit_buffer_size", "32M")]);
}

#[test]
fn what_is_shared_is_documented() {
    let mut site = start(&[("seed", "1")]);
    let rows = rows(&mut site);
    let shared: Vec<_> = rows.iter().filter(|row| row.instead.is_some()).collect();
    for row in shared {
        let asks: Vec<_> = (1..=12).map(|n| ask(row, n, 4, 12)).collect();
        let answers = site.ask_all(&asks);
        let seen = (1..=12).zip(&answers).any(|(n, answer)| finding(n, answer).is_some());
        let texts: Vec<_> = answers.iter().map(Response::text).collect();
        assert!(seen, "{} is each request's own by now: {texts:?}\n{}", row.name, site.log());
    }
    page::compare(&rows);
}
