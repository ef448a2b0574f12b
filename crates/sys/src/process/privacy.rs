//! Protects a process: only the superuser may look into it.
//!
//! A process that is not *dumpable* leaves no core file. Others of its user cannot trace it, and
//! cannot read its memory or its environment through `/proc`. It cannot do so with its own either.
//!
//! The kernel makes a process dumpable again at each `exec`, and a worker has to be dumpable for
//! the moment in which it opens its own files in `/proc`. A [`Guard`] closes these gaps, where the
//! server was started as root: it is a capability without any use, which others of that user do not
//! have, and the kernel lets no process trace one that has a capability more.

use std::ffi::CStr;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use super::Identity;

/// Forbids other processes of the same user to trace this one or read its memory.
pub fn forbid_tracing() {
    set_dumpable(false);
}

/// Allows it again, and core files with it.
pub fn allow_tracing() {
    set_dumpable(true);
}

fn set_dumpable(dumpable: bool) {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, libc::c_ulong::from(dumpable)) };
}

/// Opens a file below `/proc/self` for reading, in a process that may not be traced. Only for files
/// that the kernel ties to this process's memory when they are opened (`mem`, `pagemap`).
pub fn open_own(path: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only.
    let before = unsafe { libc::prctl(libc::PR_GET_DUMPABLE) };
    set_dumpable(true);
    // SAFETY: the path lives through the call. By number, because the PHP program stands before
    // libc's function.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_openat,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::O_RDONLY | libc::O_CLOEXEC,
        )
    };
    let opened = if fd < 0 {
        Err(io::Error::last_os_error())
    } else {
        // SAFETY: just opened, no other owner.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
    };
    set_dumpable(before == 1);
    opened
}

/// What it takes to start processes of other users, and to end them, as the kernel numbers them:
/// `CAP_KILL`, `CAP_SETGID` and `CAP_SETUID`.
const TO_CHANGE_USERS: [u32; 3] = [5, 6, 7];

/// Whether this process can start processes of other users, and end them.
pub fn may_change_users() -> bool {
    Sets::read().is_ok_and(|held| TO_CHANGE_USERS.into_iter().all(|number| held.has(number)))
}

/// A capability that does no harm and that this process may pass on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard(u32);

/// In the order of preference, as the kernel numbers them: to wake a sleeping machine by a timer,
/// to keep it from sleeping, to listen on low ports. Containers usually have the last one only.
const HARMLESS: [u32; 3] = [35, 36, 10];

impl Guard {
    /// A capability of this process, if it has any.
    pub fn find() -> Option<Guard> {
        let held = Sets::read().ok()?;
        HARMLESS.into_iter().find(|number| held.has(*number)).map(Guard)
    }

    /// The one with this number.
    pub fn numbered(number: u32) -> Option<Guard> {
        HARMLESS.contains(&number).then_some(Guard(number))
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.0
    }

    /// Becomes that user for good, as [`Identity::assume`] does, but keeps this capability, also in
    /// the program that it executes next.
    ///
    /// Only system calls, no allocation.
    pub fn assume(self, identity: &Identity) -> io::Result<()> {
        // SAFETY: takes numbers only.
        check(unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, 1) })?;
        identity.change()?;
        Sets::only(self.0).write(true)?;
        // SAFETY: takes numbers only.
        check(unsafe {
            libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE, self.0, 0, 0)
        })
    }

    /// From now on programs that this process executes do not get it.
    pub fn keep_to_itself(self) -> io::Result<()> {
        Sets::only(self.0).write(false)
    }

    /// Gives it up: this process does without from now on.
    pub fn drop_for_good(self) -> io::Result<()> {
        wait_for_lookers();
        Sets::default().write(false)
    }
}

/// Waits until no other process is between the two questions that the kernel asks when a process
/// wants to look into this one: whether it is dumpable, then whether it has a capability more. One
/// that was answered "yes" in [`open_own`] must not find the capability gone.
///
/// The kernel asks both with a lock of the task held (`ptrace_may_access`), which reading a limit
/// takes, too.
fn wait_for_lookers() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable.
    unsafe { libc::getrlimit(libc::RLIMIT_CORE, &raw mut limit) };
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The capabilities that a process may make use of: 64 bits in two words.
#[derive(Default)]
pub(super) struct Sets([u32; 2]);

/// `struct __user_cap_header_struct`.
#[repr(C)]
struct Header {
    version: u32,
    pid: libc::c_int,
}

/// `struct __user_cap_data_struct`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

impl Sets {
    /// `_LINUX_CAPABILITY_VERSION_3`, of this process.
    const HEADER: Header = Header { version: 0x2008_0522, pid: 0 };

    fn only(number: u32) -> Sets {
        let mut words = [0; 2];
        words[number as usize / 32] = 1 << (number % 32);
        Sets(words)
    }

    fn has(&self, number: u32) -> bool {
        self.0[number as usize / 32] >> (number % 32) & 1 == 1
    }

    fn read() -> io::Result<Sets> {
        let (mut header, mut data) = (Sets::HEADER, [Data::default(); 2]);
        // SAFETY: both are of the kernel's layout for this version, and writable.
        let result = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, data.as_mut_ptr()) };
        check(result as libc::c_int)?;
        Ok(Sets(data.map(|word| word.permitted)))
    }

    /// Permits these and no others; none of them is in effect.
    pub(super) fn write(&self, inheritable: bool) -> io::Result<()> {
        let data = self.0.map(|word| Data {
            effective: 0,
            permitted: word,
            inheritable: if inheritable { word } else { 0 },
        });
        let header = Sets::HEADER;
        // SAFETY: both are of the kernel's layout for this version.
        let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) };
        check(result as libc::c_int)
    }
}
