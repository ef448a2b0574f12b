//! The program that changes the zone of a name (DNS-01).

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

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
    let mut command = Command::new(program);
    command.arg(what).arg(&record.name).arg(&record.value);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // With a group of its own, what it has started can be ended with it.
    command.process_group(0);
    let ended = async {
        let mut child = command.spawn()?;
        let mut group = Group::of(&child);
        let said = match child.stderr.take() {
            Some(stderr) => beginning(stderr).await?,
            None => Vec::new(),
        };
        let status = child.wait().await?;
        group.is_over();
        Ok::<_, io::Error>((status, said))
    };
    let named =
        |problem: String| format!("{} {what} {}: {problem}", program.display(), record.name);
    let (status, said) = match tokio::time::timeout(LIMIT, ended).await {
        Ok(Ok(ended)) => ended,
        Ok(Err(error)) => return Err(named(format!("it cannot be run: {error}"))),
        Err(_) => return Err(named(format!("it takes longer than {} s", LIMIT.as_secs()))),
    };
    if status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&said);
    Err(named(format!("{status}: {}", said.trim())))
}

/// A program with all that it has started. They are ended if it is not waited for any more.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Group {
        Group(child.id().and_then(|id| Pid::from_raw(id.cast_signed())))
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
async fn beginning(mut stderr: impl AsyncRead + Unpin) -> io::Result<Vec<u8>> {
    let mut said = Vec::new();
    (&mut stderr).take(LONGEST as u64).read_to_end(&mut said).await?;
    tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await?;
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_program_that_says_much_the_beginning_is_shown() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let endless = tokio::io::repeat(b'x').take(1 << 22);
        let said = runtime.block_on(beginning(endless)).unwrap();
        assert_eq!(said, [b'x'; LONGEST]);
        let record = Record { name: "_acme-challenge.a.example".into(), value: "v".into() };
        let run = |program: &str| runtime.block_on(run(Path::new(program), "add", &record));
        assert_eq!(run("/bin/true"), Ok(()));
        assert!(run("/bin/false").unwrap_err().contains("exit status: 1"));
        assert!(run("/nowhere").unwrap_err().contains("it cannot be run"));
    }
}
