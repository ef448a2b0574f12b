//! What one request changes, the next does not find, unless the configuration says `keep`.

use serde_json::{Value, json};

use crate::harness::{Kind, Setup, get, in_parallel, on_every_server};

on_every_server! { nothing_stays, shutdown_functions_run_once }

fn nothing_stays(kind: Kind) {
    let server = Setup::new(kind).workers(1).start();
    let before = server.get("/probe.php").expect(200).json();
    for _ in 0..3 {
        assert_eq!(server.get("/pollute.php").expect(418).text(), "polluted shut down");
        let response = server.get("/probe.php").expect(200);
        assert_eq!(response.header("X-Polluted"), None);
        same(&before, &response.json(), &[]);
    }
}

fn shutdown_functions_run_once(kind: Kind) {
    let server = Setup::new(kind).workers(1).start();
    for _ in 0..3 {
        assert_eq!(server.text("/fail.php?how="), "begun [shutdown]");
        assert_eq!(server.text("/hello.php"), "Hello from PHP");
    }
}

/// Fails unless the probes agree in everything but the `kept` entries, which must differ.
fn same(before: &Value, after: &Value, kept: &[&str]) {
    for (name, value) in before.as_object().unwrap() {
        if kept.contains(&name.as_str()) {
            assert_ne!(*value, after[name], "{name} was to be kept");
        } else {
            assert_eq!(*value, after[name], "{name} is not as before");
        }
    }
}

/// Each kind of state can be left alone by itself.
#[test]
fn keep_leaves_state_alone() {
    for (key, kept) in [
        ("ini", &["ini"] as &[&str]),
        ("error_handlers", &["error_handlers"]),
        ("cwd", &["cwd"]),
        ("umask", &["umask"]),
        ("locale", &["locale"]),
        ("timezone", &["timezone"]),
        ("encodings", &["encodings"]),
        ("env", &["env"]),
    ] {
        let server =
            Setup::new(Kind::Worker).workers(1).site_line(&format!("keep = [\"{key}\"]")).start();
        let before = server.get("/probe.php").expect(200).json();
        server.get("/pollute.php").expect(418);
        let mut after = server.get("/probe.php").expect(200).json();
        // Kinds that others are made of: mb_language, ignore_user_abort and session_name are
        // settings too, and $_SERVER has the environment in it.
        let affected: &[&str] = match key {
            "ini" => &["encodings", "abort", "session"],
            "env" => &["superglobals"],
            _ => &[],
        };
        for name in affected {
            after[*name] = before[*name].clone();
        }
        same(&before, &after, kept);
    }
}

#[test]
fn keep_leaves_a_session_open() {
    let server = Setup::new(Kind::Worker).workers(1).site_line("keep = [\"session\"]").start();
    server.get("/pollute.php").expect(418);
    let session = server.get("/probe.php").expect(200).json()["session"].clone();
    assert_eq!(session[0], 2, "the session is active: {session}");
}

/// What the worker script sets before its loop is what every request starts from.
#[test]
fn reset_goes_back_to_the_boot() {
    let server = Setup::new(Kind::Worker).workers(1).worker("worker_boot.php").start();
    let before = server.get("/probe.php").expect(200).json();
    assert_eq!(before["ini"][0], "9");
    assert_eq!(before["ini"][1], 32767 & !8);
    assert_eq!(before["error_handlers"][0], true);
    assert_eq!(before["timezone"], "Europe/Paris");
    assert_eq!(before["encodings"][0], "ISO-8859-15");
    assert_eq!(before["umask"], 0o027);
    assert_eq!(before["cwd"], "/usr");
    server.get("/pollute.php").expect(418);
    same(&before, &server.get("/probe.php").expect(200).json(), &[]);
}

/// A request that pollutes beside requests that do not.
#[test]
fn nothing_stays_under_load() {
    let server = Setup::new(Kind::Worker).start();
    let before = server.get("/probe.php").expect(200).json();
    in_parallel(100, |number| {
        if number % 3 == 0 {
            assert_eq!(server.get("/pollute.php").expect(418).text(), "polluted shut down");
        } else {
            same(&before, &server.send(&get("/probe.php")).expect(200).json(), &[]);
        }
    });
    assert_eq!(before["superglobals"][2], json!([]));
}
