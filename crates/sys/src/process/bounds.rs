//! What a process may use of the machine: open files, core files, a place in line for the
//! processors.

use std::io;

/// Bounds for a process and what it starts; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Open files.
    pub files: Option<u64>,
    /// Bytes of a core file; [`Bounds::UNLIMITED`] for any number.
    pub core: Option<u64>,
    /// The priority, from -20 (first) to 19 (last).
    pub priority: Option<i32>,
}

impl Bounds {
    /// No limit.
    pub const UNLIMITED: u64 = libc::RLIM_INFINITY;

    /// Takes them on. Only system calls: it also runs between `fork` and `exec`.
    pub fn assume(&self) -> io::Result<()> {
        for (resource, bound) in [(libc::RLIMIT_NOFILE, self.files), (libc::RLIMIT_CORE, self.core)]
        {
            let Some(bound) = bound else { continue };
            let limit = libc::rlimit { rlim_cur: bound, rlim_max: bound };
            // SAFETY: `limit` is readable.
            check(unsafe { libc::setrlimit(resource, &limit) })?;
        }
        match self.priority {
            // SAFETY: takes numbers.
            Some(priority) => check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, priority) }),
            None => Ok(()),
        }
    }
}

/// How many files this process, and what it starts, could be allowed to have open.
pub fn most_files() -> io::Result<u64> {
    most(libc::RLIMIT_NOFILE)
}

/// How many files this process may have open.
pub fn open_files() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable.
    let known = check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) });
    known.map_or(u64::MAX, |()| limit.rlim_cur)
}

/// How many of so many open files are not for connections of clients: what is opened to answer
/// them, and what a process has from its start.
pub fn reserve(open_files: u64) -> u64 {
    // With a tenth, some downloads beside idle connections would leave none; ten times more would
    // leave hardly any for connections. No machine needs thousands of files at the same moment.
    (open_files / 8).clamp(16, 4096)
}

/// How large core files of this process, and what it starts, could be allowed to be.
pub fn largest_core() -> io::Result<u64> {
    most(libc::RLIMIT_CORE)
}

fn most(resource: libc::__rlimit_resource_t) -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable.
    check(unsafe { libc::getrlimit(resource, &mut limit) })?;
    Ok(limit.rlim_max)
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
