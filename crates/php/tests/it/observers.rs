//! Async mode beside an extension that observes calls and Fibers, as profilers and tracers do: each
//! request's calls are one whole chain for it, however requests take turns.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::concurrent::texts;
use crate::harness::extensions::{SCAN_DIRECTORY, scan_directory};
use crate::harness::*;

/// `observed($n)` calls itself so many times, waits at the innermost call and at each return, and
/// says how many calls of it are observed, if they stay the same.
const WORKER: &str = r"<?php
function calls(): int
{
    return count(array_keys(observed_calls(), 'observed'));
}

function observed(int $n): string
{
    $before = observed_calls();
    usleep(100);
    $below = $n > 1 ? observed($n - 1) : calls();
    usleep(100);

    return observed_calls() === $before ? $below : 'mixed';
}

while (tokamak_handle_request(function () {
    $n = (int) ($_GET['n'] ?? 0);
    include __DIR__ . $_SERVER['SCRIPT_NAME'];
})) {}";

/// What requests do, and what they say beside the number of calls that they are observed in.
const KINDS: &[(&str, &str, &str)] = &[
    ("call", "echo observed($n);", ""),
    (
        "generator",
        "$g = (function () use ($n) {
             foreach ([1, 2, 3] as $x) { usleep(100); yield observed($n); } })();
         $all = []; foreach ($g as $x) { usleep(100); $all[] = $x; }
         echo implode(array_unique($all));",
        "",
    ),
    (
        "exception",
        "$throw = function () use ($n) {
             try { usleep(100); echo observed($n); throw new Exception('!'); }
             finally { usleep(100); } };
         try { $throw(); } catch (Exception $e) { usleep(100); echo calls(), $e->getMessage(); }",
        "0!",
    ),
    ("exit", "(function () use ($n) { usleep(100); echo observed($n); exit; })();", ""),
    (
        "Fiber",
        "$f = new Fiber(function () use ($n) { $x = observed($n); Fiber::suspend(); echo $x; });
         $f->start(); usleep(100); echo calls(), ' '; $f->resume();",
        "0 ",
    ),
    (
        "Fiber that is left behind",
        "$f = new Fiber(function () use ($n) { echo observed($n); Fiber::suspend(); });
         $f->start(); usleep(100); unset($f); echo ' ', calls();",
        " 0",
    ),
    (
        "coroutines",
        "$do = fn() => observed($n);
         echo implode(array_unique(Tokamak\\all([$do, $do, $do])));",
        "",
    ),
    (
        "destructor",
        "$o = new class($n) { function __construct(public $n) {}
             function __destruct() { echo observed($this->n); } }; unset($o);",
        "",
    ),
];

/// The folder with the settings that load the extension, which is compiled for the PHP under test.
fn observer() -> &'static str {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("observer");
        std::fs::create_dir_all(&folder).unwrap();
        let (source, made) = (folder.join("observer.c"), folder.join("observer.so"));
        std::fs::write(&source, include_str!("observers/observer.c")).unwrap();
        let config = std::env::var("PHP_CONFIG").unwrap_or_else(|_| "php-config".into());
        let includes = Command::new(config).arg("--includes").output().unwrap();
        let status = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-D_GNU_SOURCE", "-o"])
            .args([&made, &source])
            .args(String::from_utf8(includes.stdout).unwrap().split_whitespace())
            .status()
            .unwrap();
        assert!(status.success(), "{} does not compile", source.display());
        let line = format!("extension={}\n", made.display());
        std::fs::write(folder.join("observer.ini"), line).unwrap();
        folder
    });
    folder.to_str().unwrap()
}

fn site(settings: &[(&str, &str)]) -> Site {
    let mut all = vec![("mode", "async"), ("script", "%root%/worker.php"), ("concurrency", "64")];
    all.extend_from_slice(settings);
    let counts = "<?php echo json_encode(observed_counts());";
    // The calls that a fatal error jumps over have ended when a shutdown function runs.
    let fatal = "<?php register_shutdown_function(function () {
            usleep(100); echo count(observed_calls()); });
        function dies($n) { if ($n > 0) { usleep(100); return dies($n - 1); }
            echo 'dead '; trigger_error('dead', E_USER_ERROR); }
        observed(1); dies(3);";
    let fixed = [("worker.php", WORKER), ("counts.php", counts), ("fatal.php", fatal)];
    let mut files = fixed.map(|(name, code)| (name.to_owned(), code.to_owned())).to_vec();
    for (at, (_, code, _)) in KINDS.iter().enumerate() {
        files.push((format!("kind{at}.php"), format!("<?php {code}")));
    }
    let files: Vec<_> = files.iter().map(|(name, code)| (name.as_str(), code.as_str())).collect();
    let folders = format!("{}:{}", scan_directory(), observer());
    Site::start_in(&[(SCAN_DIRECTORY, &folders)], &files, &all, 1)
}

/// 24 requests of each kind, all kinds at once, each with a chain of calls of its own length.
fn each_sees_its_own(site: &mut Site) {
    let asks: Vec<_> = (0..48)
        .map(|number| {
            let (kind, n) = (number % KINDS.len(), 1 + number / KINDS.len());
            get(&format!("/kind{kind}.php?n={n}"))
        })
        .collect();
    for _ in 0..4 {
        let answers = texts(&site.ask_all(&asks));
        for (number, answer) in answers.iter().enumerate() {
            let (name, _, beside) = KINDS[number % KINDS.len()];
            let n = 1 + number / KINDS.len();
            let expected = match name {
                "Fiber" => format!("{beside}{n}"),
                _ => format!("{n}{beside}"),
            };
            assert_eq!(*answer, expected, "{name}\n{}", site.log());
        }
    }
}

fn observers_see_whole_chains(settings: &[(&str, &str)]) {
    for seed in ["0", "11"] {
        let mut site = site(&[settings, &[("seed", seed)]].concat());
        each_sees_its_own(&mut site);
        let counts = site.get("/counts.php").text();
        assert!(counts.contains("\"wrong\":0"), "{counts}\n{}", site.log());
        assert!(!counts.contains("\"begun\":0"), "nothing is observed: {counts}");
        assert_eq!(site.log(), "");
    }
}

#[test]
fn calls_of_requests_that_take_turns_are_whole_chains() {
    observers_see_whole_chains(&[]);
}

#[test]
fn calls_of_code_that_is_compiled_while_it_runs_are_whole_chains() {
    observers_see_whole_chains(&[
        ("ini.opcache.jit", "tracing"),
        ("ini.opcache.jit_buffer_size", "32M"),
        ("ini.opcache.jit_hot_loop", "2"),
        ("ini.opcache.jit_hot_func", "2"),
        ("ini.opcache.jit_hot_return", "2"),
        ("ini.opcache.jit_hot_side_exit", "2"),
    ]);
}

#[test]
fn calls_of_functions_that_are_compiled_at_once_are_whole_chains() {
    observers_see_whole_chains(&[
        ("ini.opcache.jit", "function"),
        ("ini.opcache.jit_buffer_size", "32M"),
    ]);
}

#[test]
fn calls_that_a_fatal_error_jumps_over_have_ended_for_observers() {
    let mut site = site(&[("ini.display_errors", "0"), ("ini.error_reporting", "0")]);
    let asks = ["kind0.php?n=9", "fatal.php?n=1", "kind0.php?n=7", "counts.php"];
    let answers = texts(&site.ask_all(&asks.map(|target| get(&format!("/{target}")))));
    assert_eq!(answers[..3], ["9", "dead 1", "7"], "{}", site.log());
    assert!(answers[3].contains("\"wrong\":0"), "{}", answers[3]);
    assert_eq!(site.hear_exit(), tokamak_sys::control::Status::Code(0), "{}", site.log());
}
