//! Processes: making them, ending them, and what they may do.
//!
//! A process can only be signalled through a [`Child`] that this process made itself: a number that
//! was received in a message is never killed.

use std::ffi::{CString, OsString};
use std::fs;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::control::Status;
use crate::proc;

mod bounds;
mod companion;
mod executable;
mod paths;
mod privacy;
mod usage;
mod users;

pub use bounds::{Bounds, largest_core, most_files, open_files, reserve};
pub use companion::end_with_parent;
pub use executable::{Executable, set_name};
pub use paths::{current_directory, find_in_path, is_same_file};
pub use privacy::{Guard, allow_tracing, forbid_tracing, may_change_users, open_own};
pub use usage::{Demand, Memory, demand, memory, processor_time};
pub use users::{
    Account, Identity, effective_uid, find_group, find_group_of, find_user, group_id, is_root,
    user_id,
};

/// First descriptor after standard input, output and error.
const FIRST: RawFd = 3;

/// Exit status of a forked child that panicked; the same as of any Rust program.
const PANICKED: u8 = 101;

/// Exit status of a forked child that could not change its user; nothing else uses it here.
const NOT_READY: u8 = 126;

/// A process that this process made and has not yet reaped.
#[derive(Debug, PartialEq, Eq)]
pub struct Child {
    pid: libc::pid_t,
}

impl Child {
    /// Its process id, for people and for [`reap`]'s answers.
    pub fn id(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// Asks it to end, or to do whatever else it does at this signal.
    pub fn signal(&self, signal: Asking) {
        // SAFETY: as in `kill`.
        unsafe { libc::kill(self.pid, signal.number()) };
    }

    /// Ends it at once, and what it has started in its process group.
    pub fn kill_group(&self) {
        // SAFETY: signals the group that our child, not yet reaped, leads: see `own_group`.
        unsafe { libc::kill(-self.pid, libc::SIGKILL) };
    }

    /// Ends it at once. That it has already ended is no error; its number is not reused before
    /// [`reap`].
    pub fn kill(&self) {
        // SAFETY: signals one process; `pid` is our child, not yet reaped.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
    }
}

/// A signal that a process may answer in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// `SIGTERM`
    Terminate,
    /// `SIGUSR1`
    User1,
    /// `SIGINT`
    Interrupt,
    /// `SIGQUIT`
    Quit,
}

impl Asking {
    fn number(self) -> libc::c_int {
        match self {
            Asking::Terminate => libc::SIGTERM,
            Asking::User1 => libc::SIGUSR1,
            Asking::Interrupt => libc::SIGINT,
            Asking::Quit => libc::SIGQUIT,
        }
    }
}

/// The next child that has ended, if one has: its process id, and how it ended.
pub fn reap() -> Option<(u32, Status)> {
    let mut status = 0;
    // SAFETY: `status` is writable; WNOHANG never waits.
    let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
    if pid <= 0 {
        return None;
    }
    let status = if libc::WIFSIGNALED(status) {
        Status::Signal(libc::WTERMSIG(status) as u8)
    } else {
        Status::Code(libc::WEXITSTATUS(status) as u8)
    };
    Some((pid.unsigned_abs(), status))
}

/// Forks. The child closes every descriptor but 0, 1, 2 and `keep`, dies with this process, is its
/// own process group (a terminal's Ctrl-C does not reach it), becomes `identity` if there is one,
/// and exits with what `child` returns.
///
/// `keep` must name every descriptor that `child` owns; those of the caller's other values are
/// closed under them, which is safe because the child never returns to code that could use or drop
/// them.
///
/// # Panics
///
/// In debug builds, when the process has more than one thread: the others would vanish in the child
/// while they hold locks.
pub fn fork(
    keep: &[RawFd],
    identity: Option<&Identity>,
    child: impl FnOnce() -> u8,
) -> io::Result<Child> {
    debug_assert!(is_alone(), "fork needs a process with one thread");
    let mut keep = keep.to_vec();
    keep.sort_unstable();
    let parent = std::process::id();
    // SAFETY: there is one thread, so the child is a complete copy, and may do whatever this
    // process may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let run = std::panic::AssertUnwindSafe(|| {
                close_all_but(&keep);
                own_group();
                // Changing the user clears the parent-death signal, so that comes after.
                let ready = Identity::assume_if_any(identity).and_then(|()| die_with(parent));
                match ready {
                    Ok(()) => child(),
                    Err(_) => NOT_READY,
                }
            });
            // A panic must not unwind into the caller's frames, which belong to the parent.
            exit_now(std::panic::catch_unwind(run).unwrap_or(PANICKED).into())
        }
        pid => Ok(Child { pid }),
    }
}

/// A program to start.
#[derive(Debug)]
pub struct Program<'a> {
    /// The executable file, and the program's name.
    pub path: &'a Path,
    /// The same file, if it was opened before: see [`Program::of`].
    pub opened: Option<BorrowedFd<'a>>,
    /// Arguments, without the program's name.
    pub arguments: &'a [&'a str],
    /// The whole environment.
    pub environment: &'a [(OsString, OsString)],
    /// Descriptors that it gets as 3, 4, … in this order; beyond these it gets 0, 1 and 2.
    pub fds: &'a [BorrowedFd<'a>],
    /// Its descriptor 0; [`None`]: `/dev/null`.
    pub input: Option<BorrowedFd<'a>>,
    /// Its descriptors 1 and 2; [`None`]: those of this process.
    pub output: Option<BorrowedFd<'a>>,
    /// Its descriptor 2, if not as the above.
    pub error: Option<BorrowedFd<'a>>,
    /// The user it runs as; [`None`]: that of this process.
    pub identity: Option<&'a Identity>,
    /// What keeps others of that user from looking into it from its first moment on.
    pub guard: Option<Guard>,
    /// Where it starts; [`None`]: where this process is.
    pub directory: Option<&'a Path>,
    /// What it may use, taken on before it changes its user.
    pub bounds: Bounds,
    /// Whether it goes on when this process ends.
    pub outlives: bool,
}

impl<'a> Program<'a> {
    /// One that gets nothing.
    pub fn new(path: &'a Path) -> Program<'a> {
        Program {
            path,
            opened: None,
            arguments: &[],
            environment: &[],
            fds: &[],
            input: None,
            output: None,
            error: None,
            identity: None,
            guard: None,
            directory: None,
            bounds: Bounds::default(),
            outlives: false,
        }
    }

    /// One that gets nothing, whatever its path leads to by now.
    pub fn of(executable: &'a Executable) -> Program<'a> {
        Program { opened: executable.file(), ..Program::new(executable.path()) }
    }

    /// Starts it: no signal is blocked or ignored, it is its own process group, and, unless it
    /// outlives this process, dies with it.
    ///
    /// An error of the child before and in `exec` is returned here.
    ///
    /// # Panics
    ///
    /// As [`fork`].
    pub fn spawn(&self) -> io::Result<Child> {
        debug_assert!(is_alone(), "fork needs a process with one thread");
        // Everything that allocates comes before the fork.
        let path = CString::new(self.path.as_os_str().as_bytes())?;
        // Its whole path for its name: a Python finds its virtual environment by that.
        let mut arguments = vec![path.clone()];
        for argument in self.arguments {
            arguments.push(CString::new(*argument)?);
        }
        let mut environment = Vec::new();
        for (name, value) in self.environment {
            environment.push(CString::new([name.as_bytes(), b"=", value.as_bytes()].concat())?);
        }
        let argv = pointers(&arguments);
        let envp = pointers(&environment);
        let directory =
            self.directory.map(|path| CString::new(path.as_os_str().as_bytes())).transpose()?;
        let null = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
        let input = self.input.unwrap_or(null.as_fd());
        let sources: Vec<RawFd> = self.fds.iter().map(AsRawFd::as_raw_fd).collect();
        let mut copies = vec![-1; sources.len()];
        let (report, reported) = pipe()?;
        let parent = std::process::id();
        // SAFETY: the child only makes system calls until `exec` or `_exit`.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let error = (|| -> io::Result<()> {
                let opened = place(
                    [Some(input), self.output, self.error.or(self.output)],
                    &sources,
                    &mut copies,
                    [Some(reported.as_fd()), self.opened],
                )?;
                own_group();
                reset_signals();
                self.bounds.assume()?;
                // Before `die_with`, as in `fork`.
                match (self.identity, self.guard) {
                    (Some(identity), Some(guard)) => guard.assume(identity)?,
                    // The same server, of another version.
                    (None, _) if self.outlives => {}
                    (identity, _) => Identity::assume_if_any(identity)?,
                }
                if !self.outlives {
                    die_with(parent)?;
                }
                // SAFETY: the text is NUL-terminated and outlives the call.
                if directory.as_ref().is_some_and(|path| unsafe { libc::chdir(path.as_ptr()) } != 0)
                {
                    return Err(io::Error::last_os_error());
                }
                // SAFETY: all texts are NUL-terminated and outlive the calls; argv and envp end
                // with null.
                unsafe {
                    if let Some(file) = opened {
                        let empty = c"".as_ptr();
                        let flags = libc::AT_EMPTY_PATH;
                        let (argv, envp) = (argv.as_ptr(), envp.as_ptr());
                        libc::syscall(libc::SYS_execveat, file, empty, argv, envp, flags);
                    }
                    // qemu-user 7.2 has no such call: then the file of the path.
                    if opened.is_none() || *libc::__errno_location() == libc::ENOSYS {
                        libc::execve(path.as_ptr(), argv.as_ptr(), envp.as_ptr());
                    }
                }
                Err(io::Error::last_os_error())
            })();
            let code = error.err().and_then(|error| error.raw_os_error()).unwrap_or(libc::EINVAL);
            // SAFETY: `code` is readable; the report pipe comes after the sources, see `place`.
            unsafe {
                libc::write(
                    FIRST + sources.len() as RawFd,
                    (&raw const code).cast(),
                    mem::size_of_val(&code),
                )
            };
            exit_now(127);
        }
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        drop(reported);
        let mut code = 0_i32;
        // SAFETY: `code` is writable. The read ends when `exec` closes the child's end.
        let count = unsafe {
            libc::read(report.as_raw_fd(), (&raw mut code).cast(), mem::size_of_val(&code))
        };
        if count == mem::size_of_val(&code) as isize {
            // SAFETY: our child, which is exiting; reaped here because the caller never learns of
            // it.
            unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
            return Err(io::Error::from_raw_os_error(code));
        }
        Ok(Child { pid })
    }
}

/// Has the C library's allocator give the system what it keeps. Where Rust has another allocator,
/// that is the memory of C libraries, such as what TLS needs for each connection. Other threads
/// that use that allocator wait meanwhile.
pub fn trim_c_memory() {
    // SAFETY: any thread may call it at any time.
    unsafe { libc::malloc_trim(0) };
}

/// In the child: 0, 1 and 2 from `standard` (or as they are), `sources` at 3…, and after them,
/// until `exec`, the two of `passing`: the report pipe, and the program's file, whose number is
/// returned. The rest is closed.
///
/// A source may sit where another one belongs, so all of them are first copied out of the way.
fn place(
    standard: [Option<BorrowedFd<'_>>; 3],
    sources: &[RawFd],
    copies: &mut [RawFd],
    passing: [Option<BorrowedFd<'_>>; 2],
) -> io::Result<Option<RawFd>> {
    let check =
        |result: RawFd| if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) };
    let end = FIRST + sources.len() as RawFd;
    let last = end + 1;
    // SAFETY: each call takes numbers only; the process has no other thread, and no value of it is
    // used after its descriptor is overwritten.
    unsafe {
        for (copy, source) in copies.iter_mut().zip(sources) {
            *copy = check(libc::fcntl(*source, libc::F_DUPFD_CLOEXEC, last + 1))?;
        }
        let mut passing_copies = [None; 2];
        for (copy, source) in passing_copies.iter_mut().zip(passing) {
            if let Some(source) = source {
                let number = source.as_raw_fd();
                *copy = Some(check(libc::fcntl(number, libc::F_DUPFD_CLOEXEC, last + 1))?);
            }
        }
        for (target, source) in (0..).zip(standard) {
            if let Some(source) = source {
                check(libc::dup2(source.as_raw_fd(), target))?;
            }
        }
        for (target, copy) in (FIRST..).zip(copies.iter()) {
            check(libc::dup2(*copy, target))?;
        }
        for (target, copy) in (end..).zip(passing_copies) {
            match copy {
                Some(copy) => check(libc::dup3(copy, target, libc::O_CLOEXEC))?,
                None => libc::close(target),
            };
        }
    }
    close_range(last + 1, RawFd::MAX);
    Ok(passing[1].map(|_| last))
}

fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [-1; 2];
    // SAFETY: `fds` has room for both descriptors.
    if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, no other owner.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

/// Closes all descriptors from 3 on but the `keep`, which are sorted.
fn close_all_but(keep: &[RawFd]) {
    let mut from = FIRST;
    for &fd in keep.iter().filter(|fd| **fd >= FIRST) {
        if fd > from {
            close_range(from, fd - 1);
        }
        from = fd + 1;
    }
    close_range(from, RawFd::MAX);
}

fn close_range(first: RawFd, last: RawFd) {
    // SAFETY: takes numbers only; both callers run in a new child that uses none of these
    // descriptors.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

fn own_group() {
    // SAFETY: takes numbers only; concerns this process.
    unsafe { libc::setpgid(0, 0) };
}

/// Asks for `SIGKILL` when the parent ends. If it has ended already, the signal would never come.
fn die_with(parent: u32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: takes nothing, cannot fail.
    if unsafe { libc::getppid() }.unsigned_abs() != parent {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    Ok(())
}

/// Every signal to its default and none blocked: `exec` would keep both otherwise.
fn reset_signals() {
    // SAFETY: async-signal-safe calls on local plain data; numbers that are no signal are refused.
    unsafe {
        for number in 1..=64 {
            libc::signal(number, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
    }
}

fn exit_now(code: libc::c_int) -> ! {
    // SAFETY: ends the process; exit handlers and buffers belong to the parent and are not run.
    unsafe { libc::_exit(code) }
}

/// Whether this process has one thread. The test harness always keeps a second one, which only
/// waits.
fn is_alone() -> bool {
    let most = if cfg!(test) { 2 } else { 1 };
    proc::own_threads().is_none_or(|count| count <= most)
}

/// Makes this process the new parent of descendants whose own parent has died, so that it can
/// [`reap`] them.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: takes numbers only.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Raises the limit of open descriptors to what the system allows, and returns it.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable, then readable.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) != 0 {
            return Err(io::Error::last_os_error());
        }
        limit.rlim_cur = limit.rlim_max;
        if libc::setrlimit(libc::RLIMIT_NOFILE, &limit) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(limit.rlim_cur)
}

/// Lets standard error go to this file, for this process and what it starts from now on.
pub fn redirect_stderr(file: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both are open; descriptor 2 has no owner that could be surprised, it is only written
    // to.
    if unsafe { libc::dup2(file.as_raw_fd(), 2) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The listening sockets that a service manager passed on (`LISTEN_PID`, `LISTEN_FDS`: 3, 4, …),
/// made close-on-exec. Only the first call answers them; none when they are meant for another
/// process.
///
/// Must come before the process opens anything of its own.
pub fn passed_sockets() -> Vec<OwnedFd> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    if number("LISTEN_PID") != Some(std::process::id()) {
        return Vec::new();
    }
    inherited(number("LISTEN_FDS").unwrap_or(0).min(1024) as usize)
}

/// The descriptors 3, 4, … that this process was started with, so many of them, as far as they are
/// open. Only the first call gets them.
pub fn inherited(count: usize) -> Vec<OwnedFd> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Vec::new();
    }
    let mut descriptors = Vec::new();
    for fd in FIRST..FIRST + count as RawFd {
        // SAFETY: changes a flag of the descriptor, and fails if there is none.
        if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } == 0 {
            // SAFETY: open. The service manager, or the old version, has passed it to this process
            // alone, and `TAKEN` lets only one call make an owner of it.
            descriptors.push(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }
    descriptors
}

#[cfg(test)]
mod tests;
