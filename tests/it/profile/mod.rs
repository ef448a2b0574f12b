//! `tokamak profile`: where PHP workers spend their time, read from outside.

mod listener;
mod page;
mod pprof;

use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::time::Duration;

use crate::harness::{Connection, Kind, Process, Response, Server, Setup};
use crate::harness::{eventually, get, in_every_mode, is_root, program, under_load};
use crate::operate::command;

/// Enough samples that chance moves a share by about a point. A worker that waits for a processor
/// stays where it is, so more samples a second would be the same ones again.
const FOR_LONG: [&str; 4] = ["--for", "8s", "--rate", "299"];

fn started(kind: Kind) -> Server {
    Setup::new(kind).workers(2).start()
}

fn ask(target: &'static str) -> impl Fn(&mut Connection, &str) -> Response + Sync {
    move |connection, _| connection.exchange(&get(target)).expect(200)
}

/// `tokamak profile` with these words, while the page is asked for.
fn profile_of(server: &Server, target: &'static str, words: &[&str]) -> String {
    under_load(server, ask(target), |_| profile(server, words))
}

#[track_caller]
fn profile(server: &Server, words: &[&str]) -> String {
    let output = command(server, &[&["profile"], words].concat());
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn refusal(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Samples of stacks with this text.
fn samples_with(folded: &str, part: &str) -> f64 {
    let lines = folded.lines().filter(|line| line.contains(part));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

in_every_mode!(shares_are_true, waiting_is_wall_time, an_idle_worker_is_no_sample);

/// As the page has measured it, since a busy machine takes the processor away from one function for
/// longer than from the other.
fn shares_are_true(kind: Kind) {
    let server = started(kind);
    let words = [&FOR_LONG[..], &["--folded", "-"]].concat();
    let (folded, true_share) = shares(&server, "/hot.php", &words);
    let most = samples_with(&folded, "hot.php;spend_most ");
    let little = samples_with(&folded, "hot.php;spend_little ");
    let share = 100.0 * most / (most + little);
    assert!(most + little > 500.0, "{folded}");
    assert!((share - true_share).abs() <= 3.0, "{share} % instead of {true_share} %:\n{folded}");
}

/// A profile of a page that says how long it was in each of two functions, and by that the share of
/// the first one in percent.
fn shares(server: &Server, page: &str, words: &[&str]) -> (String, f64) {
    let measured = Mutex::new([0.0, 0.0]);
    let ask = |connection: &mut Connection, _: &str| {
        let response = connection.exchange(&get(page)).expect(200);
        let text = response.text();
        let (most, little) = text.split_once(' ').expect("two numbers");
        let mut measured = measured.lock().unwrap();
        measured[0] += most.parse::<f64>().unwrap();
        measured[1] += little.parse::<f64>().unwrap();
        response
    };
    let folded = under_load(server, ask, |_| profile(server, words));
    let [most, little] = *measured.lock().unwrap();
    (folded, 100.0 * most / (most + little))
}

fn waiting_is_wall_time(kind: Kind) {
    let server = started(kind);
    let target = "/hot.php?wait";
    // With some thousand samples, half of them (wall time) or none (processor time) are waits.
    let words = |clock| ["--for", "4s", "--rate", "299", clock, "--by", "url", "--folded", "-"];
    let share =
        |folded: &str| samples_with(folded, ";wait_a_while;usleep") / samples_with(folded, "");
    let wall = profile_of(&server, target, &words("--wall"));
    let cpu = profile_of(&server, target, &words("--cpu"));
    assert!(share(&wall) > share(&cpu) + 0.1, "wall:\n{wall}\ncpu:\n{cpu}");
    assert!(wall.lines().all(|line| line.starts_with("/hot.php;")), "{wall}");
}

fn an_idle_worker_is_no_sample(kind: Kind) {
    let server = started(kind);
    server.get("/hot.php").expect(200);
    let table = profile(&server, &["--for", "300ms"]);
    assert!(table.contains("no request was under way"), "{table}");
    let other = profile_of(&server, "/hot.php", &["--for", "300ms", "--url", "/elsewhere"]);
    assert!(other.contains("no request was under way"), "{other}");
}

/// Three quarters of the time below 900 calls, the rest below one; says how long each was.
const DEEP: &str = "<?php
function down(int $left): int { return $left > 0 ? 1 + down($left - 1) : deep_work(3000); }
function outermost(): int { return down(900); }
function deep_work(int $n): int { for ($i = $sum = 0; $i < 100 * $n; $i++) $sum += $i; return 1; }
function flat_work(int $n): int { for ($i = $sum = 0; $i < 100 * $n; $i++) $sum += $i; return 1; }
for ($i = $deep = $flat = 0; $i < 10; $i++) {
    [$begun, , $between] = [hrtime(true), outermost(), hrtime(true)];
    [, $end] = [flat_work(1000), hrtime(true)];
    [$deep, $flat] = [$deep + $between - $begun, $flat + $end - $between];
}
echo \"$deep $flat\";";

/// A sampler that is slow to read deep stacks comes late to the next look, which may be at one,
/// too.
#[test]
fn deep_stacks_are_seen_as_often_as_flat_ones_and_say_that_calls_are_left_out() {
    let server = started(Kind::Classic);
    std::fs::write(server.places.root().join("deep.php"), DEEP).unwrap();
    let words = ["--for", "5s", "--rate", "999", "--folded", "-"];
    let (folded, true_share) = shares(&server, "/deep.php", &words);
    let deep = samples_with(&folded, ";outermost");
    let share = 100.0 * deep / (deep + samples_with(&folded, ";flat_work "));
    // Beside programs that fill the machine 5 were seen.
    assert!((share - true_share).abs() <= 10.0, "{share} % instead of {true_share} %");
    let line = folded.lines().find(|line| line.contains(";deep_work ")).unwrap();
    let calls: Vec<&str> = line.rsplit_once(' ').unwrap().0.split(';').collect();
    assert_eq!(calls.len(), 501, "{line}");
    assert_eq!((calls[1], calls[100], calls[101]), ("outermost", "(calls left out)", "down"));
    assert!(calls[0].ends_with("deep.php"), "{line}");
}

#[test]
fn workers_that_begin_meanwhile_are_seen() {
    let server = Setup::new(Kind::Classic).workers(2).site_line("pool.max_requests = 20").start();
    let folded = profile_of(
        &server,
        "/hot.php",
        &[&FOR_LONG[..], &["--by", "worker", "--folded", "-"]].concat(),
    );
    let workers: std::collections::BTreeSet<_> =
        folded.lines().filter_map(|line| line.split(';').next()).collect();
    assert!(workers.len() > 2, "{workers:?}");
}

#[test]
fn a_table_names_the_hottest_function_first() {
    let server = started(Kind::Classic);
    let table = profile_of(&server, "/hot.php", &["--for", "2s", "--rate", "500", "--cpu"]);
    let row = table.lines().nth(3).unwrap_or_default();
    assert!(row.ends_with("spend_most"), "{table}");
}

#[test]
fn errors_of_profile_name_the_argument() {
    let server = started(Kind::Classic);
    let why = refusal(&command(&server, &["profile", "--site", "nowhere"]));
    assert!(why.contains("no site nowhere has PHP workers; those are: "), "{why}");
    for (words, part) in [
        (["--url", "shop"], "a path begins with /"),
        (["--for", "11m"], "write 1ms to 600s"),
        (["--rate", "0"], "0 is not in 1..=1000"),
        (["--html", "/proc/missing/page.html"], "/proc/missing/page.html: No such file"),
    ] {
        let why = refusal(&command(&server, &[&["profile"], &words[..]].concat()));
        assert!(why.contains(part), "{why}");
    }
    let why = refusal(&command(&server, &["profile", "--folded", "-", "--html", "-"]));
    assert!(why.contains("only one of the files can be standard output"), "{why}");
}

/// A file that was not there is not there after a profile that failed; each result has its own.
#[test]
fn files_are_neither_left_empty_nor_written_twice() {
    let server = started(Kind::Classic);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (new, again) = (path("new"), path("./new"));
    refusal(&command(&server, &["profile", "--site", "nowhere", "--folded", &new]));
    let words = ["profile", "--for", "1ms", "--folded", &new, "--html", &again];
    let why = refusal(&command(&server, &words));
    assert!(why.contains("is named for two results"), "{why}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    std::fs::write(&new, "of before").unwrap();
    refusal(&command(&server, &["profile", "--site", "nowhere", "--folded", &new]));
    assert_eq!(std::fs::read_to_string(&new).unwrap(), "of before");
}

const PATIENCE: Duration = Duration::from_secs(60);

/// A profile of these sites that is being taken until this is dropped, and how another is refused.
#[track_caller]
fn held(server: &Server, sites: &[&str]) -> (Process, String) {
    let control = server.places.top().join("control").to_str().unwrap().to_owned();
    let words = [&["profile", "--for", "10m", "--control", &control], sites].concat();
    let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    let log = server.places.top().join("held.log");
    let begin = || Process::start(&program(), &words, &[], &log);
    let mut first = begin();
    let refused = eventually(PATIENCE, || {
        // The one below may have been ahead of it.
        if first.ended().is_some() {
            first = begin();
        }
        let second = command(server, &[&["profile", "--for", "1ms"], sites].concat());
        (!second.status.success()).then_some(second)
    });
    (first, refusal(&refused.expect("a refusal")))
}

/// The profile of a site is being taken: another one gets those of the other sites.
#[test]
fn a_site_that_refuses_takes_no_profile_of_others_away() {
    let server = Setup::new(Kind::Classic).workers(2).also("other.example", "php").start();
    let (_first, _) = held(&server, &["--site", "other.example"]);
    let words = ["profile", "--for", "2s", "--rate", "500"];
    let output = under_load(&server, ask("/hot.php"), |_| command(&server, &words));
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(why.contains("no profile of site other.example: a profile of this site is"), "{why}");
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("  spend_most"), "{output:?}");
}

/// Limits the descriptors of a process, as its own user: root may do so to processes of others only
/// with a capability that containers withhold.
#[track_caller]
fn limit_descriptors(pid: &str, most: &str) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let id = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse::<u32>().unwrap()
    };
    let mut command = Command::new("prlimit");
    command.args(["--pid", pid, &format!("--nofile={most}:")]);
    if is_root() {
        command.gid(id("Gid:")).uid(id("Uid:"));
    }
    assert!(command.status().expect("prlimit runs (package util-linux)").success());
}

/// At the limit of its descriptors a zygote takes no profile, and lives.
#[test]
fn a_zygote_without_descriptors_lives() {
    let server = started(Kind::Classic);
    let worker: u32 = server.text("/pid.php").trim().parse().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{worker}/stat")).unwrap();
    let zygote = stat.rsplit(") ").next().unwrap().split(' ').nth(1).unwrap();
    limit_descriptors(zygote, "3");
    let why = refusal(&command(&server, &["profile", "--for", "1ms"]));
    assert!(why.contains("its error log says why"), "{why}");
    server.log_line(&["zygote: no profile: it may open no more files"]);
    limit_descriptors(zygote, "1024");
    let again = || command(&server, &["profile", "--for", "1ms"]);
    eventually(PATIENCE, || Some(again()).filter(|output| output.status.success())).expect("one");
    assert!(!server.log().contains("message too long"), "{}", server.log());
}

/// Two at once would each cost what one does. A client that leaves takes its profile along.
#[test]
fn one_profile_of_a_site_is_taken_at_a_time() {
    let server = started(Kind::Classic);
    let (first, why) = held(&server, &[]);
    assert!(why.contains("a profile of this site is being taken already"), "{why}");
    drop(first);
    let next = || command(&server, &["profile", "--for", "1ms"]);
    eventually(PATIENCE, || Some(next()).filter(|output| output.status.success()))
        .expect("the next profile");
}
