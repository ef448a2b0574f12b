use super::*;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

// The test harness has threads, so a debug build refuses to fork. The real thing runs in a process
// of its own: this test binary, started again with one of these tests' names and this variable set.
const ALONE: &str = "TOKAMAK_TEST_ALONE";

/// Runs `body` in a process with a single thread, where `fork` is allowed.
fn alone(name: &str, body: fn()) {
    if std::env::var_os(ALONE).is_none() {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(ALONE, "1");
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
        return;
    }
    body();
}

fn wait_for(child: &Child) -> Status {
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end {
        match reap() {
            Some((pid, status)) => {
                assert_eq!(pid, child.id());
                return status;
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    }
    child.kill();
    panic!("the child does not end");
}

fn shell<'a>(script: &'a [&'a str; 2], fds: &'a [BorrowedFd<'a>]) -> Program<'a> {
    Program { arguments: script, fds, ..Program::new(Path::new("/bin/sh")) }
}

#[test]
fn an_opened_program_is_started_whatever_its_path_leads_to_by_now() {
    alone("process::tests::an_opened_program_is_started_whatever_its_path_leads_to_by_now", || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shell");
        fs::copy("/bin/sh", &path).unwrap();
        let executable = Executable::open(&path).unwrap();
        assert!(!executable.is_replaced());
        fs::remove_file(&path).unwrap();
        assert!(executable.is_replaced());
        fs::copy("/bin/false", &path).unwrap();
        assert!(executable.is_replaced());
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let fds = [theirs.as_fd()];
        let script = ["-c", "ls /proc/self/fd | tr '\\n' ' ' >&3; echo $0 >&3"];
        let program = Program { arguments: &script, fds: &fds, ..Program::of(&executable) };
        let child = program.spawn().unwrap();
        drop(theirs);
        let mut text = String::new();
        ours.read_to_string(&mut text).unwrap();
        assert_eq!(text, format!("0 1 2 3 4 {}\n", path.display()));
        assert_eq!(wait_for(&child), Status::Code(0));
        // A script's interpreter opens it by its path.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "#!/bin/sh\nexit 7\n").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        let script = Executable::open(&path).unwrap();
        let child = Program::of(&script).spawn().unwrap();
        assert_eq!(wait_for(&child), Status::Code(7));
    });
}

#[test]
fn a_program_gets_its_descriptors_in_order_and_no_others() {
    alone("process::tests::a_program_gets_its_descriptors_in_order_and_no_others", || {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let (_other, second) = UnixStream::pair().unwrap();
        // The later descriptor first: placing must not overwrite a source.
        let fds = [second.as_fd(), theirs.as_fd()];
        let script = "ls /proc/self/fd | tr '\\n' ' ' >&4; echo >&4; readlink /proc/self/fd/0 >&4";
        let child = shell(&["-c", script], &fds).spawn().unwrap();
        drop(theirs);
        let mut text = String::new();
        ours.read_to_string(&mut text).unwrap();
        // `ls` itself opens one more: the directory.
        assert_eq!(text, "0 1 2 3 4 5 \n/dev/null\n");
        assert_eq!(wait_for(&child), Status::Code(0));
        assert_eq!(reap(), None);
    });
}

#[test]
fn a_program_gets_only_the_environment_it_is_given() {
    alone("process::tests::a_program_gets_only_the_environment_it_is_given", || {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let environment = [("NAME".into(), "a value".into())];
        let fds = [theirs.as_fd()];
        let child =
            Program { environment: &environment, ..shell(&["-c", "/usr/bin/env >&3"], &fds) }
                .spawn()
                .unwrap();
        drop(theirs);
        let mut text = String::new();
        ours.read_to_string(&mut text).unwrap();
        assert!(text.contains("NAME=a value\n") && !text.contains(ALONE), "{text}");
        wait_for(&child);
    });
}

#[test]
fn a_program_gets_its_streams_and_its_directory() {
    alone("process::tests::a_program_gets_its_streams_and_its_directory", || {
        let (mut input, theirs) = UnixStream::pair().unwrap();
        let (mut output, said) = UnixStream::pair().unwrap();
        let script = ["-c", "pwd; cat; echo complaint >&2; ls /proc/self/fd | tr '\\n' ' '"];
        let child = Program {
            input: Some(theirs.as_fd()),
            output: Some(said.as_fd()),
            directory: Some(Path::new("/proc")),
            ..shell(&script, &[])
        };
        let child = child.spawn().unwrap();
        drop((theirs, said));
        input.write_all(b"given\n").unwrap();
        drop(input);
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        assert_eq!(text, "/proc\ngiven\ncomplaint\n0 1 2 3 ");
        assert_eq!(wait_for(&child), Status::Code(0));
        let lost =
            Program { directory: Some(Path::new("/nonexistent")), ..shell(&["-c", ":"], &[]) };
        assert_eq!(lost.spawn().unwrap_err().kind(), io::ErrorKind::NotFound);
    });
}

#[test]
fn a_program_is_asked_to_end_and_its_group_is_ended() {
    alone("process::tests::a_program_is_asked_to_end_and_its_group_is_ended", || {
        for (asking, status) in [
            (Asking::Terminate, Status::Signal(15)),
            (Asking::User1, Status::Signal(10)),
            (Asking::Interrupt, Status::Signal(2)),
            (Asking::Quit, Status::Signal(3)),
        ] {
            let child = shell(&["-c", "ulimit -c 0; exec sleep 60"], &[]).spawn().unwrap();
            child.signal(asking);
            assert_eq!(wait_for(&child), status);
        }
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let fds = [theirs.as_fd()];
        let child = shell(&["-c", "sleep 60 & echo >&3; sleep 60"], &fds).spawn().unwrap();
        drop(theirs);
        ours.read_exact(&mut [0]).unwrap();
        child.kill_group();
        wait_for(&child);
        // The other end is closed when no process of the group is left.
        assert_eq!(ours.read(&mut [0]).unwrap(), 0);
    });
}

#[test]
fn a_failed_exec_reports_its_error() {
    alone("process::tests::a_failed_exec_reports_its_error", || {
        let program = Program { path: Path::new("/nonexistent/x"), ..shell(&["", ""], &[]) };
        assert_eq!(program.spawn().unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(reap(), None);
    });
}

#[test]
fn a_signal_is_not_taken_for_an_exit() {
    alone("process::tests::a_signal_is_not_taken_for_an_exit", || {
        let child = shell(&["-c", "exit 7"], &[]).spawn().unwrap();
        assert_eq!(wait_for(&child), Status::Code(7));
        let child = shell(&["-c", "exec sleep 60"], &[]).spawn().unwrap();
        child.kill();
        assert_eq!(wait_for(&child), Status::Signal(9));
    });
}

#[test]
fn a_forked_child_keeps_what_it_needs_only() {
    alone("process::tests::a_forked_child_keeps_what_it_needs_only", || {
        let (_a, _b) = UnixStream::pair().unwrap();
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let child = fork(&[theirs.as_raw_fd()], None, move || {
            let open = fs::read_dir("/proc/self/fd").unwrap().count();
            write!(theirs, "{open}").unwrap();
            3
        });
        let child = child.unwrap();
        let mut text = String::new();
        ours.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut bytes = [0; 8];
        let count = ours.read(&mut bytes).unwrap();
        text.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
        assert_eq!(text, "5"); // 0, 1, 2, the kept one, the directory being listed
        assert_eq!(wait_for(&child), Status::Code(3));
    });
}

#[test]
fn a_panic_in_a_forked_child_ends_it() {
    alone("process::tests::a_panic_in_a_forked_child_ends_it", || {
        let child = fork(&[], None, || panic!("on purpose")).unwrap();
        assert_eq!(wait_for(&child), Status::Code(101));
    });
}

#[test]
fn an_orphan_finds_a_new_parent() {
    alone("process::tests::an_orphan_finds_a_new_parent", || {
        adopt_orphans().unwrap();
        let child = shell(&["-c", "sleep 0.2 & exit 4"], &[]).spawn().unwrap();
        assert_eq!(wait_for(&child), Status::Code(4));
        let end = Instant::now() + Duration::from_secs(10);
        let mut orphan = None;
        while orphan.is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
            orphan = reap();
        }
        assert_eq!(orphan.expect("the sleep ends here").1, Status::Code(0));
    });
}

#[test]
fn root_can_become_somebody_else_for_good() {
    alone("process::tests::root_can_become_somebody_else_for_good", || {
        if !is_root() {
            return;
        }
        let identity = Identity::find("nobody", None).unwrap();
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let fds = [theirs.as_fd()];
        let script = ["-c", "id -u >&3; grep -E '^(Groups|Gid)' /proc/self/status >&3"];
        let child = Program { identity: Some(&identity), ..shell(&script, &fds) }.spawn().unwrap();
        drop(theirs);
        let mut text = String::new();
        ours.read_to_string(&mut text).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next().unwrap(), identity.uid().to_string());
        assert_eq!(
            lines.next().unwrap().split_whitespace().nth(1).unwrap(),
            identity.gid().to_string()
        );
        let groups: Vec<&str> = lines.next().unwrap().split_whitespace().skip(1).collect();
        assert_eq!(groups, [identity.gid().to_string()]);
        wait_for(&child);
    });
}

#[test]
fn names_are_looked_up() {
    let root = Identity::find("root", None).unwrap();
    assert_eq!((root.uid(), root.gid()), (0, 0));
    assert!(root.groups().contains(&0));
    let error = Identity::find("no-such-user", None).unwrap_err().to_string();
    assert_eq!(error, "there is no user \"no-such-user\"");
    let error = Identity::find("root", Some("no-such-group")).unwrap_err().to_string();
    assert_eq!(error, "there is no group \"no-such-group\"");
}

#[test]
fn memory_of_this_process() {
    let memory = memory(std::process::id()).unwrap();
    assert!(memory.resident > 100_000 && memory.shared < memory.resident, "{memory:?}");
    assert_eq!(super::memory(u32::MAX), None);
}

#[test]
fn demand_of_a_process_that_computes_and_of_one_that_waits() {
    let run = |script: &str| std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
    let (mut busy, mut idle) = (run("while :; do :; done"), run("exec sleep 60"));
    let until = |pid: u32, right: &dyn Fn(Demand) -> bool| {
        let end = Instant::now() + Duration::from_secs(20);
        while !demand(pid).is_some_and(right) {
            assert!(Instant::now() < end, "{:?}", demand(pid));
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    until(busy.id(), &|demand| demand.time > 20_000_000 && demand.is_runnable);
    until(idle.id(), &|demand| !demand.is_runnable);
    for child in [&mut busy, &mut idle] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(demand(u32::MAX), None);
}

#[test]
fn sockets_for_another_process_are_left_alone() {
    // No LISTEN_PID here, or one of another process.
    assert!(passed_sockets().is_empty());
}
