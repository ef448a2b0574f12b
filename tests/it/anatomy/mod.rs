//! `tokamak anatomy`: the phases of nginx with php-fpm and of this server, and what is said where
//! nothing can be measured.

/// Measurements that end early, and servers that do.
mod ends;
/// The same calls as strace counts.
mod exact;
pub mod traced;

use std::process::Command;

use serde_json::Value;

use crate::harness::{Kind, Server, Setup, program};

/// What the page takes, in milliseconds, at least.
const SLEEP: f64 = 20.0;

/// Exit status, standard output, standard error.
fn anatomy(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new("timeout")
        .arg("120")
        .arg(program())
        .arg("anatomy")
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn measured(arguments: &[&str]) -> Value {
    // The table is that of the quickest tenth: of ten requests, so that no single one decides.
    let (status, out, err) = anatomy(&[arguments, &["--json", "-n", "100"]].concat());
    assert_eq!(status, 0, "{err}");
    let mut value: Value = serde_json::from_str(&out).unwrap();
    value["servers"][0].take()
}

/// The same, again while the report says that what is computed is in another row: on a busy machine
/// the kernel notes other calls than strace has seen.
fn measured_with_computing(arguments: &[&str]) -> Value {
    let unknown = "is in the row of the second one";
    let mut report = measured(arguments);
    for _ in 0..4 {
        if !report["notes"].to_string().contains(unknown) {
            break;
        }
        report = measured(arguments);
    }
    report
}

fn url(server: &Server, path: &str) -> String {
    format!("http://{}{path}", server.address)
}

/// The milliseconds of a phase in a request that nothing disturbs; none if it does not occur.
fn phase(report: &Value, key: &str) -> Option<f64> {
    let phases = report["phases"].as_array().unwrap();
    phases.iter().find(|row| row["phase"] == key)?["quiet_ms"].as_f64()
}

/// How often this call is made for a request by programs whose names begin so.
fn calls(report: &Value, program: &str, name: &str) -> f64 {
    let calls = report["calls"].as_array().unwrap();
    let of = calls.iter().filter(|call| call["name"] == name);
    of.filter(|call| call["program"].as_str().unwrap().starts_with(program))
        .map(|call| call["per_request"].as_f64().unwrap())
        .sum()
}

#[test]
fn the_way_through_nginx_and_php_fpm_is_told_apart() {
    let mut server = Setup::new(Kind::Peer).site("anatomy").start();
    let fpm = server.first_process().pid().to_string();
    let report = measured(&[&url(&server, "/index.php"), "--pid", &fpm]);
    let run = phase(&report, "backend_run").expect("php-fpm runs the script");
    // Of programs that fill the machine, up to a tenth is taken for theirs.
    assert!(run >= 0.8 * SLEEP, "{report:#}");
    let keys = ["accept", "read_request", "connect", "send", "backend_accept", "backend_read"];
    for key in keys.into_iter().chain(["read_response", "disconnect", "respond"]) {
        let time = phase(&report, key).unwrap_or_else(|| panic!("no {key} in {report:#}"));
        assert!(time < 0.25 * SLEEP, "{key}: {report:#}");
    }
    // On a machine that does nothing else it is less than a tenth.
    assert!(report["difference"].as_f64().unwrap().abs() < 0.25, "{report:#}");
    for (program, name) in
        [("nginx", "accept4"), ("nginx", "connect"), ("php-fpm", "accept"), ("php-fpm", "getcwd")]
    {
        assert_eq!(calls(&report, program, name), 1.0, "{name}: {report:#}");
    }
    let avoidable = report["avoidable"].to_string();
    assert!(avoidable.contains("connects anew in each request"), "{avoidable}");
    assert!(avoidable.contains("working directory"), "{avoidable}");

    // Without php-fpm's number it says what is missing.
    let report = measured(&[&url(&server, "/index.php")]);
    let notes = report["notes"].to_string();
    assert!(notes.contains("fpm.socket") && notes.contains("--pid"), "{notes}");
}

#[test]
fn the_calls_of_several_clients_at_once_are_told_apart() {
    let mut server = Setup::new(Kind::Peer).workers(4).site("anatomy").start();
    let fpm = server.first_process().pid().to_string();
    let report = measured(&[&url(&server, "/index.php"), "--pid", &fpm, "-c", "4"]);
    assert_eq!((&report["clients"], &report["noted_by_the_kernel"]), (&4.into(), &false.into()));
    // Of calls whose request is not known, the time is in another row; then a note says so.
    let run = phase(&report, "backend_run").expect("php-fpm runs the script");
    let notes = report["notes"].to_string();
    assert!(run >= 0.7 * SLEEP || notes.contains("is not known"), "{report:#}");
    for (program, name) in [("nginx", "connect"), ("php-fpm", "accept"), ("php-fpm", "getcwd")] {
        assert_eq!(calls(&report, program, name), 1.0, "{name}: {report:#}");
    }
    assert!(!notes.contains("have no call"), "{report:#}");
}

#[test]
fn what_a_script_computes_has_a_row_of_its_own() {
    let server = Setup::new(Kind::Classic).site("anatomy").start();
    let report = measured_with_computing(&[&url(&server, "/computes.php"), "--keep-alive"]);
    let [compute, run] = ["backend_compute", "backend_run"].map(|key| phase(&report, key));
    let (compute, run) = (compute.expect("a row"), run.expect("a worker runs the script"));
    // As in the test of the sleep, a part of either may be in a phase beside it.
    assert!((0.6 * SLEEP..1.5 * SLEEP).contains(&compute), "{report:#}");
    assert!((0.6 * SLEEP..1.5 * SLEEP).contains(&run), "{report:#}");
    let of = |key: &str| {
        let phases = report["phases"].as_array().unwrap();
        phases.iter().map(|row| row[key].as_f64().unwrap()).sum::<f64>()
    };
    assert!((of("mean_ms") - report["sum_ms"].as_f64().unwrap()).abs() < 0.001, "{report:#}");
    // The call that follows costs little, and nothing that could be left out costs as much.
    for list in ["avoidable", "typical_request"] {
        let all = report[list].as_array().unwrap();
        let is_call = |one: &&Value| one.to_string().contains("chdir") || list == "avoidable";
        let most = all.iter().filter(is_call).map(|one| one["ms"].as_f64().unwrap());
        assert!(most.fold(0.0, f64::max) < 0.2 * SLEEP, "{report:#}");
    }
    let steps = report["typical_request"].to_string();
    assert!(steps.contains("chdir") && steps.contains(": computes"), "{report:#}");
    // Beside what clients measured without any tracer stands what they measure between its turns.
    assert!(report["before_ms"]["quiet"].as_f64().unwrap() >= SLEEP, "{report:#}");
    // The page that only sleeps computes next to nothing.
    let report = measured(&[&url(&server, "/index.php"), "--keep-alive"]);
    assert!(phase(&report, "backend_compute").unwrap_or_default() < 0.2 * SLEEP, "{report:#}");
}

#[test]
fn this_server_is_followed_to_its_worker_and_the_page_has_all_in_it() {
    let server = Setup::new(Kind::Classic).site("anatomy").start();
    let page = tempfile::NamedTempFile::new().unwrap();
    let path = page.path().to_str().unwrap();
    let address = url(&server, "/index.php");
    let report = measured(&[&address, "--keep-alive"]);
    let run = phase(&report, "backend_run").expect("a worker runs the script");
    // What this server does by the way (messages between its processes, timers) cuts some sleeps,
    // as docs/anatomy.md says; the rest of these counts as a phase beside it.
    assert!(run >= 0.6 * SLEEP, "{report:#}");
    assert_eq!(calls(&report, "tokamak-php", "clock_nanosleep"), 1.0, "{report:#}");
    let (status, _, err) = anatomy(&[&address, "-n", "20", "--compare", &address, "--html", path]);
    assert_eq!(status, 0, "{err}");
    let html = std::fs::read_to_string(path).unwrap();
    for part in ["Side by side", "waterfall of the calls", "Calls for each request", "</html>"] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("src=") && !html.contains("href="), "nothing comes from outside");
}

#[test]
fn what_a_page_of_async_mode_waits_for_is_in_the_row_of_the_worker() {
    let server = Setup::new(Kind::Async).workers(1).start();
    std::fs::write(server.places.root().join("sleeps.php"), "<?php usleep(20000);").unwrap();
    let report = measured(&[&url(&server, "/sleeps.php"), "--keep-alive"]);
    let [run, send] = ["backend_run", "respond"].map(|key| phase(&report, key).unwrap_or_default());
    assert!(run >= 0.6 * SLEEP && send < 0.3 * SLEEP, "{report:#}");
}

#[test]
fn where_nothing_can_be_measured_it_says_why() {
    let server = Setup::new(Kind::Classic).site("anatomy").start();
    let nobody = crate::harness::free_address();
    let page = url(&server, "/index.php");
    for (arguments, said) in [
        (vec![url(&server, "/away.php")], "redirects to /index.php"),
        (vec![url(&server, "/missing.php")], "answers 404"),
        (vec![format!("http://{nobody}/")], "cannot connect"),
        (vec!["https://127.0.0.1/".to_owned()], "only http://"),
        // An address for documentation; nothing is sent there.
        (vec!["http://192.0.2.1/".to_owned()], "no address of this machine"),
        (vec![page.clone(), "--pid".to_owned(), "4294967295".to_owned()], "no such process"),
        (vec![page.clone(), "--unit".to_owned(), "no-such-unit".to_owned()], "no-such-unit: "),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (status, out, err) = anatomy(&arguments);
        assert_eq!((status, &*out), (1, ""), "{err}");
        assert!(err.contains(said), "{said}: {err}");
    }
    let output =
        Command::new(program()).args(["anatomy", &page]).env("PATH", "/none").output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("strace is not installed"), "{err}");
}
