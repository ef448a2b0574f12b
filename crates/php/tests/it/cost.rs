//! What a request costs. Run by hand: `cargo test --release -p tokamak-php -- --ignored --nocapture cost`.

use std::time::Instant;

use crate::harness::*;

fn measure(site: &mut Site, what: &str, target: &str, requests: usize) -> f64 {
    let mut done = 0;
    let mut waiting = std::collections::VecDeque::new();
    let (mut started, mut before) = (Instant::now(), 0);
    let warm_up = requests / 5;
    while done < requests + warm_up {
        if done >= warm_up && before == 0 {
            (started, before) = (Instant::now(), cpu(site.pids[0]));
        }
        while waiting.len() < 8 {
            waiting.push_back(site.submit(&get(target)));
        }
        let next = waiting.pop_front().unwrap();
        assert_eq!(site.collect(next, &[], |_| false).status, 200);
        done += 1;
    }
    let each = (cpu(site.pids[0]) - before) as f64 / 1000.0 / requests as f64;
    println!(
        "{what}: {each:.2} µs of CPU a request, {:.2} µs of time",
        started.elapsed().as_micros() as f64 / requests as f64
    );
    while let Some(next) = waiting.pop_front() {
        site.collect(next, &[], |_| false);
    }
    each
}

#[test]
#[ignore = "a measurement"]
fn cost_of_requests() {
    let mut site = Site::classic(&[
        ("echo.php", "<?php echo '{\"errno\":0,\"errmsg\":\"success\",\"data\":\"e\"}';"),
        ("server.php", "<?php echo $_SERVER['REQUEST_URI'];"),
    ]);
    // opcache does not believe in files younger than two seconds.
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let each = measure(&mut site, "classic echo", "/echo.php", 100_000);
    measure(&mut site, "classic $_SERVER", "/server.php", 100_000);
    assert!(each < 60.0);
    let mut site = Site::worker("<?php while (tokamak_handle_request(function () { echo 'x'; })) {}", &[]);
    measure(&mut site, "worker echo", "/echo.php", 100_000);
    let mut site = Site::worker(
        "<?php while (tokamak_handle_request(function () { echo $_SERVER['REQUEST_URI']; })) {}",
        &[],
    );
    measure(&mut site, "worker $_SERVER", "/echo.php", 100_000);
}
