//! The program that changes the zone of a name (DNS-01).

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

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
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let named =
        |problem: String| format!("{} {what} {}: {problem}", program.display(), record.name);
    let output = match tokio::time::timeout(LIMIT, command.output()).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => return Err(named(format!("it cannot be run: {error}"))),
        Err(_) => return Err(named(format!("it takes longer than {} s", LIMIT.as_secs()))),
    };
    if output.status.success() {
        return Ok(());
    }
    let said = &output.stderr[..output.stderr.len().min(LONGEST)];
    let said = String::from_utf8_lossy(said);
    Err(named(format!("{}: {}", output.status, said.trim())))
}
