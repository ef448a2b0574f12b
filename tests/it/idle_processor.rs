//! What a server without requests costs: next to no time of a processor, however many workers wait.

use std::collections::BTreeSet;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

use crate::anatomy::traced::processes;
use crate::harness::{Kind, Setup, eventually};
use crate::operate::status_when;

/// How often something has woken one of their threads so far.
fn wakes(pids: &BTreeSet<u32>) -> u64 {
    let threads = pids.iter().filter_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok());
    let woken = |path: fs::DirEntry| {
        let status = fs::read_to_string(path.path().join("status")).ok()?;
        let count =
            status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        count.trim().parse::<u64>().ok()
    };
    threads.flatten().flatten().filter_map(woken).sum()
}

/// In five seconds there are 10 to 25. Any one of these adds 15 or more: a look of each worker
/// every two seconds, ticks of the event loops five times a second, looks of the supervisor four
/// times a second. A question to the one zygote twice a second adds too little to be seen here.
#[test]
fn hardly_anything_wakes_it() {
    let mut server = Setup::new(Kind::Classic).workers(40).start();
    server.get("/hello.php").expect(200);
    status_when(&server, "all workers", |status| status["pools"][0]["idle"] == 40);
    let pids = processes(&mut server);
    assert!(pids.len() > 42, "workers, zygote, front, supervisor: {pids:?}");
    let mut last = 0;
    let few = || {
        let before = wakes(&pids);
        sleep(Duration::from_secs(5));
        last = wakes(&pids) - before;
        (last < 30).then_some(())
    };
    // The supervisor looks often until all workers have been there for a while.
    let slept = eventually(Duration::from_secs(120), few);
    slept.unwrap_or_else(|| panic!("{last} wake-ups in five seconds"));
    server.get("/hello.php").expect(200);
}
