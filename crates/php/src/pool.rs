//! What a zygote of `tokamak fpm` does beyond any other: its workers' root directory and user.

use std::ffi::CString;
use std::io;

use tokamak_sys::process::Guard;

use crate::settings::Fpm;

/// Takes on the workers' root directory, user and current directory. After module start-up, which
/// may need files that are out of reach afterwards, and before a script runs.
pub fn enter(fpm: &Fpm, guard: Option<Guard>) -> Result<(), String> {
    if let Some(root) = &fpm.chroot {
        let path =
            CString::new(root.as_str()).map_err(|_| "the root directory's path contains a NUL")?;
        // SAFETY: the path lives through the calls. By number, because libc's own are watched for
        // what scripts do.
        let entered = unsafe {
            libc::syscall(libc::SYS_chroot, path.as_ptr()) == 0
                && libc::syscall(libc::SYS_chdir, c"/".as_ptr()) == 0
        };
        if !entered {
            return Err(format!(
                "cannot change the root directory to {root}: {}",
                io::Error::last_os_error()
            ));
        }
    }
    if let Some(identity) = &fpm.identity {
        let become_user = guard.map_or_else(|| identity.assume(), |guard| guard.assume(identity));
        become_user.map_err(|e| format!("cannot become user {}: {e}", identity.uid()))?;
        // SAFETY: takes numbers. The kernel forgot it with the change of user.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    }
    if let Some(directory) = &fpm.chdir {
        let path =
            CString::new(directory.as_str()).map_err(|_| "the directory's path contains a NUL")?;
        // SAFETY: the path lives through the call.
        if unsafe { libc::syscall(libc::SYS_chdir, path.as_ptr()) } != 0 {
            return Err(format!(
                "cannot change to directory {directory}: {}",
                io::Error::last_os_error()
            ));
        }
    }
    Ok(())
}
