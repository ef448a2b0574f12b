//! A worker script of the shape of Laravel Octane's for FrankenPHP, whose packages are not there to
//! be tested: which server it takes Tokamak for, a copy of the application for each request, its
//! own answer to errors, and a loop that ends.

use std::fs;
use std::time::Duration;

use serde_json::json;

use crate::harness::{Kind, Server, Setup, eventually, get};

/// Longest wait for what happens after a response.
const PATIENCE: Duration = Duration::from_secs(20);

/// Requests after which the script ends by itself.
const MOST: usize = 5;

fn start(kind: Kind) -> Server {
    Setup::new(kind)
        .site("sites/octane")
        .public("public")
        .worker("frankenphp-worker.php")
        .front_controller("frankenphp-worker.php")
        .workers(1)
        .env("LARAVEL_OCTANE", "1")
        .env("MAX_REQUESTS", &MOST.to_string())
        .start()
}

#[test]
fn classic_mode_is_none_that_it_knows() {
    let server = start(Kind::Classic);
    assert_eq!(server.get("/").expect(200).text(), "This is a worker script.");
}

#[test]
fn worker_mode_keeps_what_the_application_keeps() {
    let server = start(Kind::Worker);
    assert_eq!(
        ask(&server, "Ada"),
        json!({"config": "booted", "seen": [], "now": "Ada", "octane": "1"})
    );
    assert_eq!(
        ask(&server, "Grace"),
        json!({"config": "booted", "seen": ["Ada"], "now": "Grace", "octane": "1"})
    );
    // Begun anew, it has seen nobody.
    for _ in 2..MOST {
        ask(&server, "somebody");
    }
    assert_eq!(ask(&server, "Ada")["seen"], json!([]));
    server.log_line(&["worker script ended after 5 requests"]);
    answers_errors_itself(&server);
}

#[test]
fn sealed_mode_keeps_nothing_and_has_no_end() {
    let server = start(Kind::Sealed);
    for _ in 0..3 * MOST {
        assert_eq!(
            ask(&server, "Ada"),
            json!({"config": "booted", "seen": [], "now": "Ada", "octane": "1"})
        );
    }
    answers_errors_itself(&server);
    assert!(!server.log().contains("worker script ended"), "{}", server.log());
}

/// The script's handler has seen the request, and does something more when the response has left.
fn ask(server: &Server, name: &str) -> serde_json::Value {
    let answer = server.get(&format!("/?name={name}")).expect(200).json();
    let done = server.state_file("terminated");
    let terminated = || fs::read_to_string(&done).is_ok_and(|text| text == name).then_some(());
    eventually(PATIENCE, terminated).expect("the request is terminated");
    fs::remove_file(done).unwrap();
    answer
}

fn answers_errors_itself(server: &Server) {
    let response = server.send(&get("/?fail"));
    assert_eq!((response.status(), response.text().as_str()), (500, "Internal Server Error"));
    server.log_line(&["failed on purpose"]);
    assert_eq!(ask(server, "Grace")["now"], "Grace");
}
