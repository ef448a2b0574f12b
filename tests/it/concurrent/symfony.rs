//! The Symfony example in async mode: what its parts take for the current request, while as many
//! requests as it serves wait for the same service.

use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Kind, eventually, get, in_parallel};
use crate::services::gate::Gated;
use crate::symfony::start_with;

/// Requests at once, as many as [`in_parallel`] has threads.
const COUNT: usize = 16;

const PATIENCE: Duration = Duration::from_secs(25);

fn name(number: usize) -> String {
    format!("visitor-{number}")
}

/// What each of the requests was told after all of them had come to the service.
fn answers_of(worker: &str) -> Vec<(usize, Value)> {
    let service = Gated::http();
    let url = format!("http://127.0.0.1:{}/", service.port);
    let settings = |setup: crate::harness::Setup| {
        // One kernel for all of them also misses the session of a request that began none.
        let setup = setup.php_value("display_errors", "0");
        setup.workers(2).site_line("concurrency = 32").env("ASKED_SERVICE", &url)
    };
    let application = start_with(worker, settings, Kind::Async, 0);
    let answers = Mutex::new(Vec::new());
    service.gate.close();
    let all_came = std::thread::scope(|scope| {
        scope.spawn(|| {
            in_parallel(COUNT, |number| {
                let ask = get(&format!("/ask?name={}", name(number)));
                let ask = ask.header("Host", &format!("{}.example", name(number)));
                let answer = application.server.send(&ask).expect(200).json();
                answers.lock().unwrap().push((number, answer));
            });
        });
        let all = || (service.gate.waiting() == COUNT).then_some(());
        let all_came = eventually(PATIENCE, all).is_some();
        service.gate.open();
        all_came
    });
    assert!(all_came, "requests waited for one another");
    answers.into_inner().unwrap()
}

fn expected(number: usize) -> Value {
    let name = name(number);
    json!({
        "service": name,
        "request": name,
        "stack": name,
        "session": name,
        "router": format!("http://{name}.example/ask"),
        "twig": name,
    })
}

#[test]
fn a_kernel_for_each_request_knows_its_own() {
    for (number, answer) in answers_of("async.php") {
        assert_eq!(answer, expected(number));
    }
}

/// Why there is a script for async mode: a kernel that all requests share mixes them. Nothing but
/// what each was handed is its own.
#[test]
fn a_kernel_for_all_requests_mixes_them() {
    let answers = answers_of("worker.php");
    let mixed = answers.iter().filter(|(number, answer)| *answer != expected(*number)).count();
    assert!(mixed > 0, "{answers:#?}");
    for (number, answer) in answers {
        let name = name(number);
        assert_eq!((&answer["request"], &answer["service"]), (&json!(name), &json!(name)));
    }
}
