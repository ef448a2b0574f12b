//! The program that changes the zone of a name (DNS-01).

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

/// How long the program may take: name servers of large providers need minutes to have a record
/// everywhere. With a tenth, it would be ended meanwhile; with ten times more, one that hangs would
/// hold up all other names for an hour.
const LIMIT: Duration = Duration::from_secs(300);

/// Bytes of what it says that are shown when it fails.
const LONGEST: usize = 300;

/// A TXT record.
#[derive(Clone, Debug)]
pub struct Record {
    /// Where it is.
    pub name: String,
    /// What it says.
    pub value: String,
}

/// Runs the program: `add` makes the record, and returns when it can be seen; `remove` takes it
/// away.
///
/// # Errors
/// Fails if the program cannot be run, says that it failed, or takes too long.
pub async fn run(program: &Path, what: &str, record: &Record) -> Result<(), String> {
    run_within(LIMIT, program, what, record).await
}

async fn run_within(
    limit: Duration,
    program: &Path,
    what: &str,
    record: &Record,
) -> Result<(), String> {
    let named =
        |problem: String| format!("{} {what} {}: {problem}", program.display(), record.name);
    let cannot = |error: io::Error| named(format!("it cannot be run: {error}"));
    let mut command = Command::new(program);
    command.arg(what).arg(&record.name).arg(&record.value);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // With a group of its own, what it has started can be ended with it.
    command.process_group(0);
    let child = command.spawn().map_err(cannot)?;
    let mut group = Group::of(&child);
    // By a thread: with its own way to wait, the runtime of each event loop of the server would
    // look for ended processes before it sleeps.
    let ended = tokio::task::spawn_blocking(move || wait(child));
    let ended = tokio::time::timeout(limit, ended).await;
    let ended =
        ended.map_err(|_| named(format!("it takes longer than {} s", limit.as_secs_f64())))?;
    group.is_over();
    let (status, said) = ended.map_err(|error| named(error.to_string()))?.map_err(cannot)?;
    if status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&said);
    Err(named(format!("{status}: {}", said.trim())))
}

/// Waits for the end of a program; how it has ended, and what it has said.
fn wait(mut child: Child) -> io::Result<(ExitStatus, Vec<u8>)> {
    let said = child.stderr.take().map_or_else(|| Ok(Vec::new()), beginning)?;
    Ok((child.wait()?, said))
}

/// A program with all that it has started. They are ended if it is not waited for any more.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Group {
        Group(Pid::from_raw(child.id().cast_signed()))
    }

    /// The program has ended; its number may be another one's soon.
    fn is_over(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // That they have ended meanwhile is no error.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

/// The beginning of what it says. The rest is read and forgotten: a program that says much must not
/// wait for a reader, and takes no memory.
fn beginning(mut stderr: impl Read) -> io::Result<Vec<u8>> {
    let mut said = Vec::new();
    (&mut stderr).take(LONGEST as u64).read_to_end(&mut said)?;
    io::copy(&mut stderr, &mut io::sink())?;
    Ok(said)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn of_a_program_that_says_much_the_beginning_is_shown() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let endless = io::repeat(b'x').take(1 << 22);
        assert_eq!(beginning(endless).unwrap(), [b'x'; LONGEST]);
        let record = Record { name: "_acme-challenge.a.example".into(), value: "v".into() };
        let run = |program: &str| runtime.block_on(run(Path::new(program), "add", &record));
        assert_eq!(run("/bin/true"), Ok(()));
        assert!(run("/bin/false").unwrap_err().contains("exit status: 1"));
        assert!(run("/nowhere").unwrap_err().contains("it cannot be run"));
    }

    #[test]
    fn one_that_takes_too_long_is_ended_with_what_it_has_started() {
        let folder = tempfile::tempdir().unwrap();
        let (program, note) = (folder.path().join("hook"), folder.path().join("child"));
        let script = format!("#!/bin/sh\nsleep 600 &\necho $! >{}\nwait\n", note.display());
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let record = Record { name: "_acme-challenge.a.example".into(), value: "v".into() };
        let started = || std::fs::read_to_string(&note).ok()?.trim().parse::<u32>().ok();
        // A busy machine may take long to begin it.
        let child = (1..=20u64).find_map(|second| {
            let limit = Duration::from_secs(second);
            let ended = runtime.block_on(run_within(limit, &program, "add", &record));
            assert!(ended.unwrap_err().contains("it takes longer than"));
            started()
        });
        let child = child.expect("it has begun");
        let is_over = || {
            let stat = tokamak_sys::proc::stat(tokamak_sys::proc::Task::Process(child));
            stat.is_none_or(|stat| stat.state == 'Z')
        };
        let waited = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            is_over()
        });
        assert!(waited, "{child} goes on");
    }
}
