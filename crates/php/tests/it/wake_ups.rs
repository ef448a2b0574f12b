//! Async mode: how its workers are woken.

use std::time::{Duration, Instant};

use tokamak_sys::channel::{Watch, poll};

use crate::harness::*;

const SCRIPT: &str = "<?php
while (tokamak_handle_request(function () { echo 'here'; })) {}";

#[test]
fn a_worker_leaves_the_ring_to_who_has_the_same_doorbell() {
    let settings = [("mode", "async"), ("script", "%root%/worker.php"), ("concurrency", "4")];
    let mut site = Site::start(&[("worker.php", SCRIPT)], &settings, 1);
    let until = Instant::now() + Duration::from_secs(60);
    // Only a worker that sleeps is rung.
    while !site.producer.wake_worker() {
        assert!(Instant::now() < until, "{}", site.log());
        std::thread::sleep(Duration::from_millis(1));
    }
    // It has heard it when it answers.
    assert_eq!(site.get("/").text(), "here");
    // While a pool is replaced, a worker of the other one may be meant.
    let mut doorbell = [Watch::read(site.doorbell(0))];
    poll(&mut doorbell, Some(Duration::ZERO)).unwrap();
    assert!(doorbell[0].readable, "{}", site.log());
}
