//! Processes that live and do nothing any more, and memory that a worker has spoiled: noticed,
//! named, replaced.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::harness::{Kind, Server, eventually, get, in_every_mode, is_root};
use crate::operate::{kill, operated, pid_in, status, status_when, stop, worker_pids};
use crate::supervise::children;

in_every_mode! {
    replaces_a_stopped_zygote, replaces_a_changed_zygote, renews_a_site_with_a_spoiled_queue
}

/// A busy machine lets a process without a fault wait for more than a second, but hardly for three.
const WATCHDOG: &str = "timeouts.watchdog = \"3s\"";

/// A server that notices after three seconds that a process is silent, all its workers there.
fn start(kind: Kind) -> Server {
    start_with(kind, WATCHDOG)
}

/// The same with the default of the watchdog, for faults that it notices without any silence.
fn start_patient(kind: Kind) -> Server {
    start_with(kind, "timeouts.watchdog = \"10s\"")
}

fn start_with(kind: Kind, watchdog: &str) -> Server {
    let server = operated(kind)
        .line(watchdog)
        .line("timeouts.drain = \"5s\"")
        .php_admin_value("ffi.enable", "true")
        .start();
    status_when(&server, "booted workers", |status| status["pools"][0]["idle"] == 2);
    server
}

/// The zygote. A worker of an earlier one, which has the same command line, may be the supervisor's
/// child until it has ended, too.
fn zygote(server: &mut Server) -> u64 {
    let supervisor = server.main_process().pid().into();
    let alone = || <[u64; 1]>::try_from(children(supervisor, "zygote")).ok();
    let [zygote] = eventually(Duration::from_secs(20), alone).expect("one zygote");
    zygote
}

/// Waits until a process is gone.
#[track_caller]
fn ends(pid: u64) {
    let gone = || (!std::path::Path::new(&format!("/proc/{pid}")).exists()).then_some(());
    assert!(eventually(Duration::from_secs(20), gone).is_some(), "process {pid} is left");
}

fn replaces_a_stopped_zygote(kind: Kind) {
    let mut server = start(kind);
    let (before, zygote) = (status(&server), zygote(&mut server));
    let mut long = server.connect();
    long.send(get("/index.php?do=hold&n=1").bytes());
    server.holds("1");
    stop(zygote);
    let after =
        status_when(&server, "other processes", |status| status["pools"][0]["renewals"] == 1);
    assert_eq!(after["front_pid"], before["front_pid"], "the front stays");
    server.log_line(&["ERROR", "[localhost] the PHP zygote gives no sign of life"]);
    server.let_go("1");
    let response = long.response().expect(200);
    assert!(worker_pids(&before).contains(&pid_in(&response.text())), "{response}");
    let new = pid_in(&server.text("/index.php"));
    assert!(!worker_pids(&before).contains(&new));
    ends(zygote);
}

/// Workers inherit limits and priority of their zygote, which is a process of the scripts' own
/// user.
fn replaces_a_changed_zygote(kind: Kind) {
    let mut server = start_patient(kind);
    let front = status(&server)["front_pid"].clone();
    for (renewals, program, words, reason) in [
        (1, "renice", ["-n", "15", "-p"], "its priority or its processors were changed"),
        (2, "ionice", ["-c", "3", "-p"], "its priority or its processors were changed"),
    ] {
        let (before, zygote) = (status(&server), zygote(&mut server));
        // While all workers are idle, the zygote is asked once a minute.
        let (mut long, held) = (server.connect(), renewals.to_string());
        long.send(get(&format!("/index.php?do=hold&n={held}")).bytes());
        server.holds(&held);
        let changed = Command::new(program).args(words).arg(zygote.to_string()).output();
        assert!(changed.expect("util-linux is there").status.success(), "{program}");
        let after = status_when(&server, "other processes", |status| {
            status["pools"][0]["renewals"] == renewals
        });
        assert_eq!(after["front_pid"], front, "the front stays");
        server.log_line(&["ERROR", "the PHP zygote was changed from outside", reason]);
        server.let_go(&held);
        long.response().expect(200);
        let new = pid_in(&server.text("/index.php"));
        assert!(!worker_pids(&before).contains(&new));
        ends(zygote);
    }
}

fn renews_a_site_with_a_spoiled_queue(kind: Kind) {
    let server = start_patient(kind);
    for (renewals, what) in [(1, "far"), (2, "near")] {
        let before = status(&server);
        let answer = server.get(&format!("/index.php?do=spoil&what={what}")).expect(200).text();
        assert!(worker_pids(&before).contains(&pid_in(&answer)), "{answer}");
        // Somebody whose request waits, and is tried again where it can be answered.
        let mut waiting = server.connect();
        waiting.patience(Duration::from_secs(20));
        waiting.send(get("/index.php").bytes());
        status_when(&server, "other processes", |status| {
            status["pools"][0]["renewals"] == renewals
        });
        let response = waiting.response();
        assert!([200, 503].contains(&response.status()), "{what}: {response}");
        let served = server.text("/index.php");
        assert!(!worker_pids(&before).contains(&pid_in(&served)), "{what}: {served}");
        assert_eq!(status(&server)["front_pid"], before["front_pid"], "the front stays");
        for pid in worker_pids(&before) {
            ends(pid);
        }
    }
    server.log_line(&[
        "ERROR",
        "[localhost] the queue is spoiled",
        "more requests wait than there can be",
    ]);
    server.log_line(&[
        "ERROR",
        "[localhost] the queue is spoiled",
        "requests wait beside an idle worker",
    ]);
}

#[test]
fn replaces_a_stopped_front() {
    let server = start(Kind::Classic);
    let front = status(&server)["front_pid"].as_u64().unwrap();
    stop(front);
    // Clients that connect from here on wait for the next front.
    server.get("/index.php").expect(200);
    server.log_line(&["ERROR", "the front gives no sign of life", &format!("pid={front}")]);
    let after = status_when(&server, "another front", |status| status["generation"] == 2);
    assert_ne!(after["front_pid"].as_u64(), Some(front));
    ends(front);
}

/// Stops one thread of a process for as long as it runs itself.
const HOLD: &str = "
import ctypes, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long
SEIZE, INTERRUPT = 0x4206, 0x4207
for request in SEIZE, INTERRUPT:
    if libc.ptrace(request, int(sys.argv[1]), None, None) != 0:
        sys.exit('ptrace: %d' % ctypes.get_errno())
print('held', flush=True)
time.sleep(60)
";

/// One event loop does not come back from what it does. The other one answers what it has, and a
/// new front takes over.
#[test]
fn replaces_a_front_with_an_event_loop_that_is_stuck() {
    // Nobody else may look into the front.
    if !is_root() {
        return;
    }
    let server = start(Kind::Classic);
    let front = status(&server)["front_pid"].as_u64().unwrap();
    let threads = std::fs::read_dir(format!("/proc/{front}/task")).unwrap().flatten();
    let name =
        |thread: &std::fs::DirEntry| std::fs::read_to_string(thread.path().join("comm")).unwrap();
    let stuck =
        threads.into_iter().find(|thread| name(thread).trim() == "loop-1").expect("an event loop");
    let mut holder = Command::new("python3")
        .args(["-c", HOLD, stuck.file_name().to_str().unwrap()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs");
    let mut held = [0; 4];
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut held)
        .expect("the thread is held");
    let after = status_when(&server, "another front", |status| status["generation"] == 2);
    assert_ne!(after["front_pid"].as_u64(), Some(front));
    server.get("/index.php").expect(200);
    server.log_line(&["ERROR", "event loop 1 of the front does not turn any more"]);
    // The old one is killed when its time to drain has passed, and cannot end while a thread of it
    // is held. That is said once, however often the supervisor looks.
    let late = "the old front did not finish in time and is killed";
    let is_said = || server.log().contains(late).then_some(());
    assert!(eventually(Duration::from_secs(20), is_said).is_some(), "{}", server.log());
    for _ in 0..10 {
        status(&server);
    }
    assert_eq!(server.log().matches(late).count(), 1, "{}", server.log());
    holder.kill().unwrap();
    holder.wait().unwrap();
    ends(front);
}

/// A suspended machine, or Control-Z: everything stops, and goes on.
#[test]
fn leaves_a_server_alone_that_was_stopped_as_a_whole() {
    let mut server = start(Kind::Classic);
    let before = status(&server);
    let supervisor = u64::from(server.main_process().pid());
    let mut all = vec![supervisor, before["front_pid"].as_u64().unwrap(), zygote(&mut server)];
    all.extend(worker_pids(&before));
    all.iter().for_each(|pid| stop(*pid));
    // Longer than the watchdog waits; the supervisor counts only a part of one look of it.
    std::thread::sleep(Duration::from_millis(3500));
    // The supervisor first, but the others at once: on a busy machine, programs that are started
    // one after the other take as long as the supervisor is patient.
    let pids: Vec<String> = all.iter().map(u64::to_string).collect();
    let go_on = format!("kill -s CONT {}", pids.join(" "));
    assert!(Command::new("sh").args(["-c", &go_on]).status().unwrap().success());
    // If the supervisor counted the pause as silence, it would replace the processes at its first
    // look, a quarter of a second later.
    std::thread::sleep(Duration::from_secs(2));
    let after = status(&server);
    for key in ["generation", "front_pid"] {
        assert_eq!(after[key], before[key], "{}", server.log());
    }
    assert_eq!(worker_pids(&after), worker_pids(&before), "{}", server.log());
    server.get("/index.php").expect(200);
}

/// For a debugger, which stops processes for as long as somebody thinks.
#[test]
fn can_be_switched_off() {
    let mut server = operated(Kind::Classic).line("timeouts.watchdog = 0").start();
    status_when(&server, "booted workers", |status| status["pools"][0]["idle"] == 2);
    let (before, zygote) = (status(&server), zygote(&mut server));
    let front = before["front_pid"].as_u64().unwrap();
    for pid in [zygote, front] {
        stop(pid);
    }
    // The supervisor looks four times a second, and would act at its first look.
    std::thread::sleep(Duration::from_millis(1500));
    for pid in [zygote, front] {
        kill("CONT", pid);
    }
    server.get("/index.php").expect(200);
    let after = status(&server);
    assert_eq!(
        (&after["front_pid"], worker_pids(&after)),
        (&before["front_pid"], worker_pids(&before))
    );
}

/// systemd's `WatchdogSec`.
#[test]
fn gives_the_service_manager_the_signs_of_life_that_it_asks_for() {
    let name = format!("tokamak-it-watchdog-{}", std::process::id());
    let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let setup = operated(Kind::Classic).server_env("NOTIFY_SOCKET", &format!("@{name}"));
    let _server = setup.server_env("WATCHDOG_USEC", "200000").start();
    let (mut signs, mut buffer) = (0, [0; 1000]);
    while signs < 5 {
        let count = manager.recv(&mut buffer).expect("a word of the server");
        signs += usize::from(&buffer[..count] == b"WATCHDOG=1\n");
    }
}
