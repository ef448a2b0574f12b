//! The bounds that a php-fpm configuration sets: `rlimit_files`, `rlimit_core` and
//! `process.priority`, of the master and of each pool's processes.

use tokamak_fpm::config::{CoreLimit, Global};
use tokamak_fpm::{Level, Message, Pool};
use tokamak_sys::process::{self, Bounds};

use crate::log;

fn core_bytes(core: CoreLimit) -> u64 {
    match core {
        CoreLimit::Bytes(bytes) => bytes,
        CoreLimit::Unlimited => Bounds::UNLIMITED,
    }
}

/// Lets this process, which is the master, take its bounds on.
///
/// # Errors
/// Fails with the words of php-fpm, which does not start then either.
pub fn of_master(global: &Global) -> Result<(), Message> {
    let refused = |what: &str, number: u64| {
        let text = format!(
            "failed to set {what} for this pool. Please check your system limits or decrease \
                {what}. ({number})"
        );
        move |error| Message::of_system(text, &error)
    };
    if let Some(files) = global.rlimit_files {
        let bounds = Bounds { files: Some(files), ..Bounds::default() };
        bounds.assume().map_err(refused("rlimit_files", files))?;
    }
    if let Some(core) = global.rlimit_core.map(core_bytes) {
        let bounds = Bounds { core: Some(core), ..Bounds::default() };
        bounds.assume().map_err(refused("rlimit_core", core))?;
    }
    let Some(priority) = global.process_priority else { return Ok(()) };
    if !process::is_root() {
        let what = "'process.priority' directive is ignored when FPM is not running as root";
        log::fpm(Level::Notice, format_args!("{what}"));
        return Ok(());
    }
    let bounds = Bounds { priority: Some(priority), ..Bounds::default() };
    bounds.assume().map_err(|error| {
        Message::of_system("Unable to set priority for the master process", &error)
    })
}

/// The bounds of a pool's processes. What this process may not grant is logged, and left out, as
/// php-fpm does.
pub fn of_pool(pool: &Pool) -> Bounds {
    let is_root = process::is_root();
    let granted = |what: &str, wanted: Option<u64>, most: std::io::Result<u64>| {
        let wanted = wanted?;
        if is_root || most.is_ok_and(|most| wanted <= most) {
            return Some(wanted);
        }
        log::pool(
            Level::Error,
            &pool.name,
            format_args!(
                "failed to set {what} for this pool. Please check your system limits or decrease \
                    {what}. ({wanted})"
            ),
        );
        None
    };
    Bounds {
        files: granted("rlimit_files", pool.rlimit_files, process::most_files()),
        core: granted("rlimit_core", pool.rlimit_core.map(core_bytes), process::largest_core()),
        // Without the right to it, php-fpm logs that it is ignored.
        priority: pool.process_priority.filter(|_| is_root),
    }
}
