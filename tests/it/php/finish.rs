//! `fastcgi_finish_request()` and time limits: when a response ends and when a script does.

use std::time::{Duration, Instant};

use crate::harness::{
    Kind, Setup, check, get, in_every_mode, in_parallel, on_every_server, post, row,
};

on_every_server! { response_ends_and_the_script_goes_on, execution_time, many_finish_at_once }
in_every_mode! { wall_time_is_limited_from_outside }

fn response_ends_and_the_script_goes_on(kind: Kind) {
    let server = Setup::new(kind).workers(1).start();
    let mut connection = server.connect();
    for name in ["one", "two"] {
        let body = format!("body of {name}");
        let held = server.state_file(&format!("hold-finish-{name}"));
        std::fs::write(&held, "").unwrap();
        let response = connection.exchange(&post(
            &format!("/finish.php?name={name}"),
            "text/plain",
            body.clone(),
        ));
        // The script cannot go on before that.
        std::fs::remove_file(held).unwrap();
        let response = response.expect(200);
        assert_eq!((response.text().as_str(), response.header("X-Before")), ("before", Some("1")));
        let seen: serde_json::Value =
            serde_json::from_str(&server.state(&format!("finish-{name}"))).unwrap();
        assert_eq!(seen["first"], true);
        // php-fpm looks whether the connection is closed, and a kept one never is.
        assert_eq!(seen["second"], kind == Kind::Fastcgi);
        assert_eq!(seen["input"], body);
        assert_eq!(seen["aborted"], 0);
    }
    assert_eq!(connection.exchange(&get("/hello.php")).expect(200).text(), "Hello from PHP");
}

fn many_finish_at_once(kind: Kind) {
    let server = Setup::new(kind).workers(4).start();
    in_parallel(16, |number| {
        let response = server.get(&format!("/finish.php?name={number}")).expect(200);
        assert_eq!(response.text(), "before");
    });
    for number in 0..16 {
        assert!(server.state(&format!("finish-{number}")).contains("\"first\":true"));
    }
}

fn execution_time(kind: Kind) {
    let server = Setup::new(kind).workers(1).php_value("max_execution_time", "1").start();
    let exceeded = "Maximum execution time of 1 second exceeded";
    check(
        &server,
        vec![
            row("by php.ini", get("/spin.php")).contains(exceeded),
            row("by the script", get("/spin.php?limit=1")).contains(exceeded),
            row("sleeping does not count", get("/sleep.php?ms=1500")).body("slept"),
            row("next", get("/hello.php")).body("Hello from PHP"),
        ],
    );
}

/// `request_timeout` ends the worker wherever it is; the client gets an answer and the next request
/// a worker.
fn wall_time_is_limited_from_outside(kind: Kind) {
    let server = Setup::new(kind).workers(1).site_line("pool.request_timeout = \"1s\"").start();
    let started = Instant::now();
    let response = server.send(&post("/sleep.php?ms=15000", "text/plain", "x"));
    assert!(matches!(response.status(), 502 | 504), "{response}");
    assert!(started.elapsed() < Duration::from_secs(14), "it took {:?}", started.elapsed());
    server.log_line(&["/sleep.php?ms=15000"]);
    assert_eq!(server.text("/hello.php"), "Hello from PHP");
}
