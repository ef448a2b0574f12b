//! What workers have done stays counted when they are replaced.

use std::fs;

use super::*;
use crate::operate::command;

/// Lets a worker compute for at least 0.3 s of processor time.
const COMPUTES: &str = "<?php $used = fn() => array_sum(array_map(fn($part) => \
    getrusage()[\"ru_{$part}.tv_sec\"] * 1e6 + getrusage()[\"ru_{$part}.tv_usec\"], \
    ['utime', 'stime'])); $begin = $used(); while ($used() - $begin < 3e5); echo 'done';";

const CPU: &str = "tokamak_worker_cpu_seconds_total{site=\"localhost\"}";

/// The samples once this one is at least so much.
fn at_least(server: &Server, name: &str, least: f64) -> Samples {
    let look = || Some(samples(server)).filter(|it| it.get(name).is_some_and(|it| *it >= least));
    eventually(Duration::from_secs(20), look)
        .unwrap_or_else(|| panic!("{name} is below {least}: {:#?}", samples(server)))
}

/// The workers of the only pool, once both are there and none of them is among these.
fn others(server: &Server, before: &[u64]) -> Vec<u64> {
    let is_new = |status: &serde_json::Value| {
        let pids = worker_pids(status);
        status["pools"][0]["idle"] == 2 && pids.iter().all(|pid| !before.contains(pid))
    };
    worker_pids(&status_when(server, "other workers", is_new))
}

#[test]
fn processor_time_outlives_workers_and_their_zygotes() {
    let server = start(Setup::new(Kind::Classic));
    fs::write(server.places.root().join("computes.php"), COMPUTES).unwrap();
    let first = others(&server, &[]);
    let begin = samples(&server)[CPU];
    server.get("/computes.php").expect(200);
    // The system tells it in steps of 0.01 s, for each process user's and system's apart.
    let used = at_least(&server, CPU, begin + 0.28)[CPU];
    first.iter().for_each(|pid| kill("KILL", *pid));
    let second = others(&server, &first);
    let after = samples(&server)[CPU];
    assert!(after >= used, "{after} after {used}");
    let reload = command(&server, &["reload", "--site", "localhost"]);
    assert!(reload.status.success(), "{reload:?}");
    others(&server, &second);
    samples_when(&server, "tokamak_renewals_total{site=\"localhost\"}", 1.0);
    let last = samples(&server)[CPU];
    assert!(last >= after, "{last} after {after}");
}

#[test]
fn roll_backs_are_counted_one_by_one() {
    let server = start(Setup::new(Kind::Sealed));
    let first = others(&server, &[]);
    let names = ["seconds", "pages"].map(|unit| format!("tokamak_roll_back_{unit}"));
    let of = |samples: &Samples, end: &str| {
        names.each_ref().map(|name| samples[&format!("{name}{end}{{site=\"localhost\"}}")])
    };
    let begin = samples(&server);
    for _ in 0..20 {
        server.get("/hello.php").expect(200);
    }
    let count = of(&begin, "_count").map(|count| count + 20.0);
    let name = format!("{}_count{{site=\"localhost\"}}", names[1]);
    let samples = samples_when(&server, &name, count[1]);
    assert_eq!(of(&samples, "_count"), count);
    let [seconds, pages] = of(&samples, "_sum");
    assert!(
        seconds > of(&begin, "_sum")[0] && pages >= of(&begin, "_sum")[1] + 20.0,
        "{samples:?}"
    );
    let image =
        |kind| samples[&format!("tokamak_image_bytes{{memory=\"{kind}\",site=\"localhost\"}}")];
    assert!(image("private") > 1e6 && image("shared") > 1e6, "{samples:?}");

    first.iter().for_each(|pid| kill("KILL", *pid));
    others(&server, &first);
    let after = of(&super::samples(&server), "_count");
    assert!(after.iter().zip(&count).all(|(after, before)| after >= before), "{after:?} {count:?}");
}

#[test]
fn requests_under_way_in_async_mode_are_shown() {
    let server = start(Setup::new(Kind::Async));
    let names = ["one", "two", "three"];
    let mut connections = names.map(|name| {
        let mut connection = server.connect();
        let head = format!("GET /hold.php?name={name} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        connection.send(head);
        server.holds(name);
        connection
    });
    samples_when(&server, "tokamak_worker_requests_under_way{site=\"localhost\"}", 3.0);
    names.iter().for_each(|name| server.let_go(name));
    for connection in &mut connections {
        connection.response().expect(200);
    }
    let samples =
        samples_when(&server, "tokamak_worker_requests_under_way{site=\"localhost\"}", 0.0);
    assert!(samples.contains_key("tokamak_worker_waits_held_total{site=\"localhost\"}"));
}
