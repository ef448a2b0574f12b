//! A program that must not live longer than the one that starts it.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has the kernel send `SIGTERM` to the program when the thread that starts it ends, however that
/// ends. The program has a process group of its own: what a terminal sends to the starting one,
/// such as a stop, does not reach it.
pub fn end_with_parent(command: &mut Command) {
    let parent = std::process::id();
    let ask = move || {
        // SAFETY: takes numbers only; concerns the new process.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // A parent that has ended already sends no signal.
        // SAFETY: takes nothing, cannot fail.
        if unsafe { libc::getppid() }.unsigned_abs() != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(())
    };
    command.process_group(0);
    // SAFETY: between fork and exec only these two calls are made, which take no lock and no
    // memory: neither an error of the kernel nor one of a number allocates.
    unsafe { command.pre_exec(ask) };
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_program_ends_with_the_thread_that_has_started_it() {
        let mut child = std::thread::spawn(|| {
            let mut command = Command::new("sh");
            command.args(["-c", "echo here; exec cat"]).stdin(Stdio::piped());
            end_with_parent(command.stdout(Stdio::piped()));
            let mut child = command.spawn().unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
            assert_eq!(line, "here\n");
            child
        })
        .join()
        .unwrap();
        // Its input stays open: without the signal this would wait for ever.
        let input = child.stdin.take();
        let ended = child.wait().unwrap();
        drop(input);
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(libc::SIGTERM));
    }
}
