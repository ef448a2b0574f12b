//! Which web servers, proxies and balancers work in front: a table of `docs/works-with.md`, made
//! from what is seen here. Those that speak FastCGI are before `tokamak fpm`, and beside it before
//! php-fpm; those that speak HTTP are before `tokamak serve`.
//!
//! `scripts/works-with-front-servers` tries those of several releases of Debian; a change tries
//! half of those that are installed.

/// How they are set up for FastCGI.
mod fastcgi;
/// One that has been started.
mod front;
/// How they are set up for HTTP.
mod http;
/// What is tried.
mod uses;
/// What PHP is told.
mod variables;

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::harness::in_threads;
use crate::layers::root;
use crate::works_with::{message, split, written};
use front::{Front, Origin, Row};

/// A folder with a Debian in a folder for each release, such as `sid`.
const UNPACKED: &str = "WORKS_WITH_FRONT_SERVERS_IN";

/// The beginnings of the names of rows that alone are tried, with `|` between them.
const ONLY: &str = "FRONT_SERVERS";

/// Of how many installed servers a change tries one.
const ONE_OF: usize = 2;

/// Rows at once.
const AT_ONCE: usize = 3;

/// A column: what is tried. It returns a note, or panics.
struct Column {
    title: &'static str,
    tried: fn(&mut Front) -> String,
    /// Whether php-fpm is asked, too, behind a server that speaks FastCGI.
    is_compared: bool,
}

const COLUMNS: [Column; 8] = [
    Column { title: "`$_SERVER`", tried: variables::variables, is_compared: false },
    Column { title: "bodies", tried: uses::bodies, is_compared: true },
    Column { title: "HEAD", tried: uses::head, is_compared: true },
    Column { title: "early hints", tried: uses::early_hints, is_compared: false },
    Column { title: "connections", tried: uses::kept, is_compared: false },
    Column { title: "visitor leaves", tried: uses::visitor_leaves, is_compared: true },
    Column { title: "overload", tried: uses::overload, is_compared: false },
    Column { title: "reload", tried: uses::reloads, is_compared: false },
];

/// What is seen of one use.
fn outcome(tried: impl FnOnce() -> String) -> Result<String, String> {
    catch_unwind(AssertUnwindSafe(tried)).map_err(|panic| message(&*panic))
}

/// A cell, from what is seen before Tokamak, and before php-fpm where that is asked.
fn cell(ours: &Result<String, String>, theirs: Option<&Result<String, String>>) -> String {
    let described = |outcome: &Result<String, String>| match outcome {
        Ok(note) if note.is_empty() => "ok".to_owned(),
        Ok(note) => format!("ok: {note}"),
        Err(why) => format!("does not work: {why}"),
    };
    match theirs.filter(|theirs| *theirs != ours) {
        None => described(ours),
        Some(theirs) => format!("{}; php-fpm: {}", described(ours), described(theirs)),
    }
}

/// The cells of a row. What follows a failure has a server of its own.
fn cells(trial: &Trial<'_>) -> Vec<String> {
    let mut front = None;
    let mut cells = Vec::new();
    for column in &COLUMNS {
        let start = || Front::start(trial.row, trial.origin);
        let ours = outcome(|| (column.tried)(front.get_or_insert_with(start)));
        let beside = front.as_mut().and_then(|front| front.beside.as_deref_mut());
        let theirs = beside.filter(|_| column.is_compared);
        let theirs = theirs.map(|theirs| outcome(|| (column.tried)(theirs)));
        if [Some(&ours), theirs.as_ref()].into_iter().flatten().any(Result::is_err) {
            front = None;
        }
        let cell = cell(&ours, theirs.as_ref());
        eprintln!("{}, {}: {cell}", trial.name, column.title);
        cells.push(cell);
    }
    cells
}

/// The machine, and the releases of Debian that are in folders.
fn origins() -> Vec<Origin> {
    let machine = Origin { release: String::new(), root: None };
    let Some(folder) = std::env::var_os(UNPACKED) else { return vec![machine] };
    let entries = fs::read_dir(Path::new(&folder)).expect("the folder").map(|entry| entry.unwrap());
    let paths = entries.map(|entry| entry.path());
    let folders = paths.filter(|path| path.is_dir() && path.extension().is_none());
    let mut others: Vec<Origin> = folders
        .map(|path| Origin {
            release: format!(", Debian {}", path.file_name().unwrap().display()),
            root: Some(path),
        })
        .collect();
    others.sort_by(|a, b| a.release.cmp(&b.release));
    [machine].into_iter().chain(others).collect()
}

/// A row that is tried: where, with which name, of which version.
struct Trial<'a> {
    row: &'a Row,
    origin: &'a Origin,
    name: String,
    version: String,
}

/// The rows that are meant and whose servers are there.
fn trials(origins: &[Origin]) -> Vec<Trial<'_>> {
    let only = std::env::var(ONLY).ok();
    let is_meant = |name: &str| {
        only.as_ref().is_none_or(|only| only.split('|').any(|begin| name.starts_with(begin)))
    };
    let mut trials = Vec::new();
    for row in fastcgi::ROWS.iter().chain(&http::ROWS).filter(|row| is_meant(row.name)) {
        for origin in origins {
            if let Some(version) = origin.version(row.package) {
                let name = format!("{}{}", row.name, origin.release);
                trials.push(Trial { row, origin, name, version });
            }
        }
    }
    trials
}

/// The rows of the page, of which some have been tried anew.
fn renewed(rows: &str, tried: &BTreeMap<&str, String>) -> String {
    let name = |row: &str| row[2..].split(" | ").next().unwrap_or_default().to_owned();
    let kept = rows.lines().filter(|row| !tried.contains_key(name(row).as_str()));
    let mut all: Vec<String> = kept.map(str::to_owned).chain(tried.values().cloned()).collect();
    all.sort_by_key(|row| name(row).to_lowercase());
    all.iter().map(|row| format!("{row}\n")).collect()
}

const HEADING: &str = "| front server | version |";

#[test]
fn front_servers_work_as_the_page_says() {
    let path = root().join("docs/works-with.md");
    let page = fs::read_to_string(&path).expect("the page");
    let titles = COLUMNS.map(|column| column.title);
    assert!(page.contains(&format!("{HEADING} {} |", titles.join(" | "))), "other columns");
    let [before, rows, after] = split(&page, HEADING);
    let (origins, writes) = (origins(), std::env::var_os("UPDATE_DOCS").is_some());
    // Other releases of Debian have other versions, which may do something else.
    let is_of_page =
        |trial: &Trial<'_>| written(rows, &trial.name).is_some_and(|row| row[0] == trial.version);
    let is_all = writes || origins.len() > 1 || std::env::var_os(ONLY).is_some();
    let trials = trials(&origins).into_iter().filter(|trial| writes || is_of_page(trial));
    let trials: Vec<_> = trials.step_by(if is_all { 1 } else { ONE_OF }).collect();
    let found = in_threads(AT_ONCE, trials.len(), |number| cells(&trials[number]));
    if writes {
        let row = |(trial, cells): (&Trial<'_>, &Vec<String>)| {
            format!("| {} | {} | {} |", trial.name, trial.version, cells.join(" | "))
        };
        let lines = trials.iter().zip(&found).map(row);
        let tried = trials.iter().map(|trial| trial.name.as_str()).zip(lines).collect();
        let rows = renewed(rows, &tried);
        fs::write(&path, format!("{before}{rows}{after}")).expect("docs/ is there");
        return;
    }
    for (trial, cells) in trials.iter().zip(&found) {
        let written = written(rows, &trial.name).expect("it is one of the page");
        for ((title, cell), written) in titles.iter().zip(cells).zip(&written[1..]) {
            assert_eq!(cell, written, "{}, {title}", trial.name);
        }
    }
}
