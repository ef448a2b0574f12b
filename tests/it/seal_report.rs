//! `tokamak seal-report`: every planted leak of `tests/report/leaky.php` is named with its size,
//! nothing is said of an application without leaks, and sealed mode leaves nothing of either.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::harness::extensions::{SCAN_DIRECTORY, scan_directory};
use crate::harness::{Kind, Request, Server, Setup, program};
use crate::layers::root;

/// What the command answered.
struct Answer {
    code: i32,
    out: String,
    err: String,
}

fn seal_report(directory: &Path, arguments: &[&str]) -> Answer {
    let cache = tempfile::tempdir().unwrap();
    let Output { status, stdout, stderr } = Command::new("timeout")
        .arg("120")
        .arg(program())
        .arg("seal-report")
        .args(arguments)
        .current_dir(directory)
        .env("APP_CACHE_DIR", cache.path())
        .env(SCAN_DIRECTORY, scan_directory())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Answer { code: status.code().unwrap(), out: text(stdout), err: text(stderr) }
}

fn json(directory: &Path, arguments: &[&str]) -> (i32, Value) {
    let answer = seal_report(directory, &[&["--json"], arguments].concat());
    let value = serde_json::from_str(&answer.out);
    (answer.code, value.unwrap_or_else(|error| panic!("{error}: {}\n{}", answer.out, answer.err)))
}

fn text<'a>(of: &'a Value, key: &str) -> &'a str {
    of[key].as_str().unwrap_or_else(|| panic!("no {key} in {of:#}"))
}

/// Verdict, kind, name, and how much a request.
fn findings(run: &Value) -> Vec<(&str, &str, &str, f64)> {
    let list = run["findings"].as_array().unwrap_or_else(|| panic!("no findings in {run:#}"));
    list.iter()
        .map(|of| {
            (
                text(of, "verdict"),
                text(of, "kind"),
                text(of, "name"),
                of["per_request"].as_f64().unwrap(),
            )
        })
        .collect()
}

/// What is in the image and another one at each boot: verdict and name.
fn frozen(report: &Value) -> Vec<(&str, &str)> {
    let list = report["frozen"].as_array().unwrap_or_else(|| panic!("no list in {report:#}"));
    list.iter().map(|of| (text(of, "verdict"), text(of, "name"))).collect()
}

/// What `leaky.php` leaks in each request: by how much, in bytes of 64-bit PHP.
const PLANTED: &[(&str, &str, &str, f64)] = &[
    ("grows", "static properties", "Cart::$items", 1048.0),
    ("grows", "globals", "$logger->records", 248.0),
    ("grows", "function statics", "remember() $seen", 152.0),
    ("grows", "globals", "$blob", 64.0),
    ("grows", "globals", "$spl", 40.0),
    ("grows", "globals", "$files", 16.0),
    ("grows", "engine", "autoloaders", 56.0),
    ("grows", "handlers", "error handler", 40.0),
    ("grows", "resources", "", 32.0),
    ("grows", "descriptors", "", 1.0),
];

/// What it leaves otherwise.
const LEFT: &[(&str, &str, &str)] = &[
    ("foreign", "static properties", "Cart::$visitor"),
    ("grows", "memory", "PHP heap"),
    ("grows", "objects", "alive"),
    ("grows", "classes", ""),
    ("carries over", "globals", "$count"),
    ("stays", "settings", "precision"),
    ("stays", "engine", "timezone"),
    ("stays", "engine", "mb_internal_encoding"),
    ("stays", "environment", "REPORT_LEFT"),
    ("stays", "process", "cwd"),
    ("stays", "process", "umask"),
];

#[test]
fn every_planted_leak_is_named_with_its_size_and_nothing_else_is() {
    let (code, report) = json(&root().join("tests/report"), &["leaky.php", "/", "/b?c=d"]);
    let mut found = findings(&report["worker"]);
    found.retain(|finding| finding.0 != "fills once");
    for (verdict, kind, name, each) in PLANTED {
        let finding = found.iter().find(|f| (f.0, f.1, f.2) == (*verdict, *kind, *name));
        let finding = finding.unwrap_or_else(|| panic!("{kind} {name} is missing: {found:#?}"));
        assert!((finding.3 - each).abs() < 0.5, "{finding:?}, not {each} a request");
    }
    for (verdict, kind, name) in LEFT {
        assert!(
            found.iter().any(|f| (f.0, f.1, f.2) == (*verdict, *kind, *name)),
            "{name}: {found:#?}"
        );
    }
    assert_eq!(found.len(), PLANTED.len() + LEFT.len(), "{found:#?}");
    assert_eq!((code, &report["leaks"]), (1, &Value::Bool(true)));
    assert!(findings(&report["sealed"]).is_empty(), "{:#}", report["sealed"]);
    assert!(report["sealed"]["nodes"].as_u64() > Some(100), "{:#}", report["sealed"]);
}

#[test]
fn what_leaves_nothing_is_not_accused() {
    let (code, report) = json(&root().join("tests/report"), &["clean.php"]);
    let found = findings(&report["worker"]);
    assert!(found.iter().all(|f| f.0 == "fills once" && f.1 == "static properties"), "{found:#?}");
    assert_eq!((code, found.len(), &report["leaks"]), (0, 1, &Value::Bool(false)));
    assert!(findings(&report["sealed"]).is_empty(), "{:#}", report["sealed"]);
    assert_eq!(report["worker"]["heap_bytes"][0], report["worker"]["heap_bytes"][1]);
}

/// The last request and response are held by the worker script itself, until the next ones come.
#[test]
fn a_symfony_application_keeps_the_last_request_and_does_not_grow() {
    let (code, report) =
        json(root(), &["examples/symfony/worker.php", "/empty", "/page", "/session"]);
    let found = findings(&report["worker"]);
    assert!(found.iter().any(|f| (f.0, f.2) == ("foreign", "$request")), "{found:#?}");
    assert!(found.iter().all(|f| f.0 != "grows"), "{found:#?}");
    assert_eq!(code, 1);
    assert!(findings(&report["sealed"]).is_empty(), "{:#}", report["sealed"]);
    assert_eq!(report["worker"]["errors"], serde_json::json!([]));
    let answer = seal_report(root(), &["examples/symfony/worker.php", "/nowhere", "--rounds", "2"]);
    assert!(answer.out.contains("note: /nowhere was answered with 404"), "{}", answer.out);
}

/// An application of Laravel's shape: a page that opens a session leaves its token in a singleton.
#[test]
fn values_drawn_by_a_warm_up_request_are_reported() {
    let directory = root().join("tests/report");
    let (code, report) = json(&directory, &["frozen.php", "/login"]);
    let of_report = |report: &Value| {
        let list = report["frozen"].as_array().unwrap().clone();
        list.iter()
            .map(|of| format!("{}: {}", text(of, "verdict"), text(of, "name")))
            .collect::<Vec<_>>()
    };
    let token = "frozen by warm-up: $container->made['Session']->token";
    // The closure has the text too.
    let at_boot = ["frozen at boot: $node", "frozen at boot: $handler use $node"];
    assert_eq!(of_report(&report), [token, at_boot[0], at_boot[1]], "{report:#}");
    assert_eq!((code, &report["leaks"]), (1, &Value::Bool(true)));
    let (code, report) = json(&directory, &["frozen.php", "/up"]);
    assert_eq!((code, of_report(&report)), (0, at_boot.map(str::to_owned).to_vec()), "{report:#}");
    let answer = seal_report(&directory, &["frozen.php", "/login", "--rounds", "2"]);
    assert!(answer.out.contains("in the image: the same for every visitor"), "{}", answer.out);
}

/// What the boot drew is not laid to the warm-up, even if two boots draw the same by chance.
#[test]
fn what_boots_without_warm_up_draw_alike_is_not_the_warm_ups() {
    let (code, report) = json(&root().join("tests/report"), &["drawn_alike.php"]);
    // The length of the file is the number of the boot.
    let at_boot = ["$drawn", "$nth"].map(|name| ("frozen at boot", name));
    assert_eq!((code, &frozen(&report)[..]), (0, &at_boot[..]), "{report:#}");
}

/// Each with its place; nothing else of the script is named.
#[test]
fn what_the_boot_reads_is_named_with_its_file_and_line() {
    let directory = root().join("tests/report");
    let (code, report) = json(&directory, &["boot.php"]);
    let reads = report["read_before_image"].as_array().unwrap();
    let found: Vec<_> = reads
        .iter()
        .map(|read| {
            assert!(text(read, "file").ends_with("tests/report/boot.php"), "{read}");
            (text(read, "kind"), text(read, "what"), text(read, "line"))
        })
        .collect();
    let mut expected = vec![
        ("request", "$_SERVER['HTTP_HOST']", "5"),
        ("request", "$_COOKIE['language']", "6"),
        ("request", "$_POST", "7"),
        ("request", "file_get_contents()", "8"),
        ("time", "time()", "9"),
        ("time", "new DateTimeImmutable", "10"),
        ("time", "date()", "11"),
        ("random numbers", "random_int()", "12"),
        ("environment", "getenv()", "13"),
    ];
    // APCu need not be there.
    expected.extend(found.iter().filter(|read| **read == ("shared cache", "apcu_fetch()", "14")));
    assert_eq!(found, expected);
    assert_eq!(code, 0, "to know them is no verdict: {report:#}");
    let answer = seal_report(&directory, &["boot.php", "--rounds", "2"]);
    assert!(answer.out.contains("read before the image:"), "{}", answer.out);
    let line = answer.out.lines().find(|line| line.contains("$_SERVER['HTTP_HOST']"));
    assert!(line.is_some_and(|line| line.ends_with("boot.php:5")), "{}", answer.out);
    let (_, report) = json(&directory, &["clean.php", "--rounds", "2"]);
    assert_eq!(report["read_before_image"], serde_json::json!([]));
}

/// A boot script has no loop, and runs in sealed mode only.
#[test]
fn what_a_boot_script_reads_is_named_with_its_file_and_line() {
    let directory = root().join("tests/report/prepared");
    let (code, report) = json(&directory, &["--boot", "boot.php", "/", "/b?c=d"]);
    let reads = report["read_before_image"].as_array().unwrap();
    let found: Vec<_> = reads
        .iter()
        .map(|read| {
            assert!(text(read, "file").ends_with("tests/report/prepared/boot.php"), "{read}");
            (text(read, "kind"), text(read, "what"), text(read, "line"))
        })
        .collect();
    let expected = [
        ("request", "$_COOKIE['language']", "5"),
        ("request", "$_SERVER['HTTP_HOST']", "6"),
        ("time", "microtime()", "7"),
        ("random numbers", "random_bytes()", "8"),
        ("environment", "getenv()", "9"),
    ];
    assert_eq!(found, expected);
    assert_eq!(frozen(&report), [("frozen at boot", "$key"), ("frozen at boot", "$started")]);
    assert!(findings(&report["sealed"]).is_empty(), "{:#}", report["sealed"]);
    assert_eq!((code, &report["worker"]), (0, &Value::Null), "{report:#}");
    let answer = seal_report(&directory, &["--boot", "boot.php", "/missing", "--rounds", "2"]);
    let line = answer.out.lines().find(|line| line.contains("$_SERVER['HTTP_HOST']"));
    assert!(line.is_some_and(|line| line.ends_with("boot.php:6")), "{}", answer.out);
    assert!(answer.out.contains("note: /missing was answered with 404"), "{}", answer.out);
    assert!(!answer.out.contains("worker"), "{}", answer.out);
}

/// Each visitor would get the warm-up's page.
#[test]
fn an_application_that_keeps_its_request_is_reported() {
    let directory = root().join("tests/report");
    let (code, report) = json(&directory, &["keeps_request.php", "/a", "/b", "--rounds", "2"]);
    let stale: Vec<_> = report["stale"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| (text(of, "target"), text(of, "answered_as")))
        .collect();
    assert_eq!(stale, [("/b", "/a"), ("/tokamak-seal-report/elsewhere", "/a")]);
    assert_eq!((code, &report["leaks"]), (1, &Value::Bool(true)));
    let answer = seal_report(&directory, &["keeps_request.php", "/a", "--rounds", "2"]);
    assert!(answer.out.contains("elsewhere is answered as /a was"), "{}", answer.out);
    let (_, report) = json(&directory, &["clean.php", "/a", "/b", "--rounds", "2"]);
    assert_eq!(report["stale"], serde_json::json!([]));
}

/// The server says so when it starts, by the page and the cookie.
#[test]
fn a_warm_up_request_that_opens_a_session_is_warned_of() {
    let start = |target: &str| {
        let setup = Setup::new(Kind::Sealed).site("report").worker("frozen.php");
        setup.front_controller("frozen.php").warm(&[target]).start()
    };
    let tokens = |server: &Server| ["/a", "/b"].map(|page| server.text(page));

    let server = start("/login");
    server.log_line(&[
        "WARN",
        "warm-up request /login sets the cookie laravel_session:",
        "seal-report",
    ]);
    let [one, other] = tokens(&server);
    assert_eq!((one.len(), &one), (40, &other), "the warning is not for nothing");
    let server = start("/hidden");
    server.log_line(&["WARN", "warm-up request /hidden has opened a session:"]);
    let server = start("/up");
    let [one, other] = tokens(&server);
    assert_ne!(one, other);
    assert!(!server.log().contains("warm-up request"), "{}", server.log());
}

#[test]
fn the_table_says_the_same_in_words() {
    let answer = seal_report(&root().join("tests/report"), &["leaky.php", "--rounds", "10"]);
    let line = |start: &str| {
        let found = answer.out.lines().find(|line| line.trim_start().starts_with(start));
        found.unwrap_or_else(|| panic!("no line {start:?}:\n{}", answer.out)).to_owned()
    };
    assert!(line("foreign").contains("Cart::$visitor"));
    assert!(line("grows         static properties").ends_with("+1.0 kB"));
    assert!(line("stays         settings").contains("precision *"));
    assert!(line("sealed mode:").contains("nothing is left behind"));
    assert_eq!(answer.code, 1);
}

#[test]
fn what_cannot_be_looked_at_has_a_status_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    write("never.php", "<?php echo 'no loop';");
    write(
        "dies.php",
        "<?php while (tokamak_handle_request(fn () => posix_kill(getmypid(), 9))) {}",
    );
    write("index.php", "<?php echo 'served in classic mode';");
    write("pipe.php", "<?php $held = popen('exec cat', 'w');");
    write("throws.php", "<?php throw new Exception('no boot');");
    for (script, words) in [
        (&["missing.php"][..], "missing.php"),
        (&["never.php"], "before its first tokamak_handle_request"),
        (&["dies.php"], "ended by signal 9"),
        (&["--boot", "throws.php"], "the boot script failed"),
        (&["--boot", "pipe.php"], "no image can be taken: a pipe"),
    ] {
        let script = [script, &["--rounds", "2"]].concat();
        let answer = seal_report(directory.path(), &script);
        assert_eq!(answer.code, 2, "{}{}", answer.out, answer.err);
        assert!(answer.err.contains(words), "{script:?}: {}", answer.err);
    }
}

/// Only `STATE` requests of a report are answered by the server: for all others it is a method like
/// any other.
#[test]
fn without_a_report_the_application_answers() {
    for kind in [Kind::Worker, Kind::Sealed] {
        let server = Setup::new(kind)
            .site("report")
            .worker("clean.php")
            .front_controller("clean.php")
            .start();
        let answer = server.send(&Request::new("STATE", "/"));
        assert!(answer.expect(200).text().starts_with("name 1,name 2"), "{kind:?}");
    }
}
