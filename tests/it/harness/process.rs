//! A server process that ends with its test.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::extensions::{SCAN_DIRECTORY, scan_directory};

/// A child process in a process group of its own; dropping it ends the whole group.
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts a program; both output streams are appended to `log`.
    ///
    /// `setpriv` (util-linux) asks the kernel to end the program when the test's thread dies,
    /// however it dies: so start it on the test's own thread.
    pub fn start(
        program: &Path,
        arguments: &[String],
        environment: &[(String, String)],
        log: &Path,
    ) -> Process {
        let output =
            || File::options().append(true).create(true).open(log).expect("the log can be opened");
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "TERM"])
            .arg(program)
            .args(arguments)
            .env(SCAN_DIRECTORY, scan_directory())
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(output())
            .stderr(output())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display()));
        Process { child }
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, by name without `SIG`, to the process.
    pub fn signal(&self, name: &str) {
        signal(name, &self.pid().to_string());
    }

    /// Ends the process and all that it has started, at once.
    pub fn kill_group(&self) {
        signal("KILL", &format!("-{}", self.pid()));
    }

    /// How the process ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the child can be waited for")
    }

    /// Waits for the process to end.
    pub fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        eventually(patience, || self.ended())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.signal("TERM");
            if self.wait(Duration::from_millis(500)).is_none() {
                // A server with a request under way ends at once at the second one.
                self.signal("TERM");
            }
            if self.wait(Duration::from_secs(3)).is_none() {
                self.kill_group();
                let _ = self.child.wait();
            }
        }
    }
}

/// Sends a signal to a process (or, with a minus sign, a group); one that is gone already is no
/// error.
fn signal(name: &str, target: &str) {
    // The shell's own `kill`: the program of that name is not on every machine.
    let script = "kill -s \"$1\" -- \"$2\" 2>/dev/null";
    let _ = Command::new("sh").args(["-c", script, "kill", name, target]).status();
}

/// Asks again and again until there is an answer or the patience ends.
pub fn eventually<T>(patience: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if Instant::now() >= deadline {
            return None;
        }
        sleep(Duration::from_millis(10));
    }
}
