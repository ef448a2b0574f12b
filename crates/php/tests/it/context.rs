//! What `Tokamak\Context` tells a request of itself, in every mode.

use std::collections::HashSet;
use std::time::Duration;

use crate::harness::*;

const WORKER: &str = "<?php
    $outside = [Tokamak\\Context::id(), Tokamak\\Context::deadline(),
        Tokamak\\Context::isCancelled()];
    while (tokamak_handle_request(function () use ($outside) {
        include __DIR__ . $_SERVER['SCRIPT_NAME']; })) {}";

/// A site in each mode, with this page.
fn sites(name: &str, code: &str) -> Vec<(&'static str, Site)> {
    let mode = |mode: &'static str| {
        let files = [("worker.php", WORKER), (name, code)];
        let mut settings = vec![("mode", mode)];
        if mode != "classic" {
            settings.push(("script", "%root%/worker.php"));
        }
        if mode == "async" {
            settings.extend([("concurrency", "16"), ("seed", "7")]);
        }
        (mode, Site::start(&files, &settings, 1))
    };
    let mut all = vec![mode("classic"), mode("worker"), mode("async")];
    if can_be_sealed() {
        all.push(mode("sealed"));
    }
    all
}

#[test]
fn a_request_has_one_name_in_its_code_and_in_the_log() {
    let code = "<?php use Tokamak\\Context; use function Tokamak\\{async, await};
        $id = Context::id(); usleep(1000); tokamak_log('said ' . $id);
        $fiber = new Fiber(fn() => Context::id()); $fiber->start();
        $all = [$id, Context::id(), await(async(fn() => Context::id())), $fiber->getReturn()];
        echo count(array_unique($all)), ' ', $id, ' ', json_encode($outside ?? null);";
    for (mode, mut site) in sites("id.php", code) {
        let asks: Vec<_> = (0..20).map(|_| get("/id.php")).collect();
        let answers: Vec<_> = match mode {
            "async" => site.ask_all(&asks).iter().map(Response::text).collect(),
            _ => asks.iter().map(|ask| site.ask(ask.clone()).text()).collect(),
        };
        let mut ids = HashSet::new();
        for answer in &answers {
            let [one, id, outside] = answer.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{mode}: {answer}\n{}", site.log())
            };
            let expected = if mode == "classic" { "null" } else { r#"["",null,false]"# };
            assert_eq!((one, outside), ("1", expected), "{mode}: {answer}");
            assert!(id.len() == 24 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{mode}: {id}");
            let log = site.wait_for_log(&format!("said {id}"));
            let line = log.lines().find(|line| line.contains(&format!("said {id}"))).unwrap();
            assert!(line.ends_with(&format!(" id=\"{id}\"")), "{mode}: {line}");
            ids.insert(id.to_owned());
        }
        assert_eq!(ids.len(), answers.len(), "{mode}");
    }
}

#[test]
fn a_request_knows_when_it_is_to_end() {
    let code = "<?php $due = Tokamak\\Context::deadline(); usleep(1000);
        $later = Tokamak\\Context::deadline(); $left = $due - $_SERVER['REQUEST_TIME_FLOAT'];
        echo json_encode($due === null ? null : [abs($later - $due) < 0.01,
            round($left, -1), $due > microtime(true)]);";
    for (mode, mut site) in sites("due.php", code) {
        assert_eq!(site.get("/due.php").text(), "null", "{mode}");
        site.producer.segment().set_request_timeout(Duration::from_secs(300));
        assert_eq!(site.get("/due.php").text(), "[true,300,true]", "{mode}");
    }
}

/// It computes, so that it has no wait that could be cancelled, until the test stops it.
const COMPUTES: &str = "<?php use Tokamak\\Context;
    file_put_contents(__DIR__ . '/new', (int) Context::isCancelled());
    rename(__DIR__ . '/new', __DIR__ . '/begun');
    $seen = 0;
    // In worker mode it is true at first.
    ignore_user_abort(false);
    try {
        for ($end = hrtime(true) + 60e9; hrtime(true) < $end; ) {
            $seen += (int) Context::isCancelled();
            Context::throwIfCancelled();
        }
    } finally {
        file_put_contents(__DIR__ . '/new', \"$seen \" . (int) Context::isCancelled());
        rename(__DIR__ . '/new', __DIR__ . '/ended');
    }";

#[test]
fn a_request_that_computes_can_ask_whether_its_client_is_there() {
    for (mode, mut site) in sites("compute.php", COMPUTES) {
        let (slot, _) = site.submit(&get("/compute.php"));
        assert_eq!(said(&site, "begun"), "0", "{mode}");
        site.producer.abort(slot);
        assert!(matches!(said(&site, "ended").as_str(), "0 1" | "1 1"), "{mode}");
        until("the end", || site.producer.has_ended(slot));
        assert!(site.producer.drain(slot, &mut Vec::new()).is_ok());
        site.producer.release(slot);
        // The next request of the process is another one.
        std::fs::remove_file(site.file("begun")).unwrap();
        std::fs::remove_file(site.file("ended")).unwrap();
        let (slot, _) = site.submit(&get("/compute.php"));
        assert_eq!(said(&site, "begun"), "0", "{mode}");
        site.producer.abort(slot);
        until("the end", || site.producer.has_ended(slot));
        if mode == "async" {
            assert_eq!(site.log(), "");
        }
    }
}

#[test]
fn a_request_that_computes_can_ask_whether_its_time_is_over() {
    for (mode, mut site) in sites("compute.php", COMPUTES) {
        site.producer.segment().set_request_timeout(Duration::from_millis(200));
        let request = site.submit(&get("/compute.php"));
        let status = site.collect(request, b"", |_| false).status;
        if mode == "async" {
            assert_eq!(status, 504, "{}", site.log());
            let log = site.wait_for_log("Uncaught Tokamak\\CancellationError");
            assert!(log.contains("request=\"GET /compute.php\""), "{log}");
            let cause = "The request took longer than pool.request_timeout seconds=";
            assert!(site.log().contains(cause), "{}", site.log());
        }
        assert!(said(&site, "ended").ends_with('1'), "{mode}");
    }
}

#[test]
fn a_request_that_ignores_the_clients_end_is_not_cancelled() {
    let code = "<?php ignore_user_abort(true); touch(__DIR__ . '/begun');
        while (!file_exists(__DIR__ . '/left')) { clearstatcache(); usleep(1000); }
        Tokamak\\Context::throwIfCancelled();
        file_put_contents(__DIR__ . '/new', (int) Tokamak\\Context::isCancelled());
        rename(__DIR__ . '/new', __DIR__ . '/ended');";
    for (mode, mut site) in sites("ignore.php", code) {
        let (slot, _) = site.submit(&get("/ignore.php"));
        said(&site, "begun");
        site.producer.abort(slot);
        std::fs::write(site.file("left"), "").unwrap();
        assert_eq!(said(&site, "ended"), "0", "{mode}");
    }
}
