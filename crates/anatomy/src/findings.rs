//! Finds system calls of a request that could be avoided, and says how.

use std::collections::BTreeMap;

use crate::account::{Step, Tracer};
use crate::line::{Call, Target};
use crate::phase::{Kind, Phase, kind};

/// Calls that could be avoided.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What is done.
    pub what: String,
    /// How to avoid it.
    pub how: &'static str,
    /// Calls for each request.
    pub calls: f64,
    /// Time of them in each request, in nanoseconds, whether before the client has its response or
    /// after.
    pub time: f64,
}

/// A kind of avoidable call; those on one path are counted by the path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Habit {
    StatAgain(String),
    Missing(String),
    ReadAgain(String),
    Reconnects,
    Logs(String),
    Getcwd,
    Timers,
    Locks,
    Headers,
    FoundNothing,
}

/// A finding about one path.
struct Single {
    found: Finding,
    path: String,
    /// The text for several paths together; `#` stands for their number.
    many: Option<&'static str>,
}

/// An application has hundreds of files: so many of them are named.
const NAMED: usize = 3;
/// A call that happens in fewer than this part of the requests is no habit.
const HABITUAL: f64 = 0.5;
/// How a call of strace's ends that reads 8 bytes, the header of a FastCGI record: the program
/// reads head and body of each record separately.
const FASTCGI_HEADER: &str = " = 8";

/// Finds habits in the steps of the requests; the costliest comes first.
pub fn find(calls: &[Call], steps: &[Step], tracer: Tracer) -> Vec<Finding> {
    let mut sums: BTreeMap<Habit, (f64, f64)> = BTreeMap::new();
    for step in steps.iter().filter(|step| step.share >= HABITUAL) {
        let Some(call) = step.call.map(|index| &calls[index]) else { continue };
        let Some(habit) = habit(call, step.phase) else { continue };
        let (calls, time) = sums.entry(habit).or_default();
        *calls += step.share;
        // What the application computed before the call would not be saved with it.
        *time += step.own(tracer.call) - step.computed(tracer);
    }
    let mut groups: BTreeMap<&str, Vec<Single>> = BTreeMap::new();
    let mut found = Vec::new();
    for (habit, (calls, time)) in sums {
        let Some(single) = single(habit, calls, time) else { continue };
        match single.many {
            Some(many) => groups.entry(many).or_default().push(single),
            None => found.push(single.found),
        }
    }
    found.extend(groups.into_iter().filter_map(|(many, singles)| together(many, singles)));
    found.sort_by(|a, b| (b.time, b.calls).partial_cmp(&(a.time, a.calls)).expect("numbers"));
    found
}

fn habit(call: &Call, phase: Phase) -> Option<Habit> {
    let first = call.descriptors.first().map(|descriptor| &descriptor.target);
    let path = || call.path.clone().filter(|path| path.starts_with('/'));
    match kind(&call.name) {
        _ if call.error.as_deref() == Some("EAGAIN") => Some(Habit::FoundNothing),
        Kind::Stat if call.error.is_some() => Some(Habit::Missing(path()?)),
        Kind::Stat => Some(Habit::StatAgain(path()?)),
        Kind::Open if call.error.is_some() => Some(Habit::Missing(path()?)),
        Kind::Open => Some(Habit::ReadAgain(path()?)),
        Kind::Connect => Some(Habit::Reconnects),
        Kind::Write if matches!(phase, Phase::Log | Phase::BackendLog) => match first {
            Some(Target::File(path) | Target::Device(path)) => Some(Habit::Logs(path.clone())),
            _ => None,
        },
        Kind::Read if phase == Phase::BackendRead && call.text.ends_with(FASTCGI_HEADER) => {
            Some(Habit::Headers)
        }
        _ => match &*call.name {
            "getcwd" | "chdir" => Some(Habit::Getcwd),
            "setitimer" | "rt_sigaction" | "rt_sigprocmask" => Some(Habit::Timers),
            "fcntl" if call.text.contains("F_SETLK") => Some(Habit::Locks),
            _ => None,
        },
    }
}

/// Joins the findings about several paths into one, which names the most called paths.
fn together(many: &str, mut singles: Vec<Single>) -> Option<Finding> {
    singles.sort_by(|a, b| b.found.calls.partial_cmp(&a.found.calls).expect("numbers"));
    let (calls, time) = singles.iter().fold((0.0, 0.0), |(calls, time), single| {
        (calls + single.found.calls, time + single.found.time)
    });
    let paths: Vec<&str> = singles.iter().take(NAMED).map(|single| &*single.path).collect();
    let what =
        format!("{}, such as {}", many.replace('#', &singles.len().to_string()), paths.join(", "));
    let is_one = singles.len() == 1;
    let first = singles.into_iter().next()?.found;
    Some(Finding { what: if is_one { first.what } else { what }, how: first.how, calls, time })
}

fn single(habit: Habit, calls: f64, time: f64) -> Option<Single> {
    let (what, how) = words(&habit, calls)?;
    let many = match habit {
        Habit::StatAgain(_) => Some("looks again whether # files have changed"),
        Habit::Missing(_) => Some("looks for # files that are not there"),
        Habit::ReadAgain(_) if calls >= 1.5 => Some("opens # files more than once in a request"),
        Habit::ReadAgain(_) => Some("opens # files in each request"),
        _ => None,
    };
    let path = match habit {
        Habit::StatAgain(path) | Habit::Missing(path) | Habit::ReadAgain(path) => path,
        _ => String::new(),
    };
    Some(Single { found: Finding { what, how, calls, time }, path, many })
}

/// The text of a finding, and how to avoid it; `None` if it happens too seldom.
fn words(habit: &Habit, calls: f64) -> Option<(String, &'static str)> {
    Some(match habit {
        Habit::StatAgain(path) => (
            format!("looks again whether {path} has changed"),
            "keep what was found: opcache.revalidate_freq or opcache.validate_timestamps = 0 and a \
             reload (PHP), open_file_cache (nginx), realpath_cache_ttl",
        ),
        Habit::Missing(path) => (
            format!("looks for {path}, which is not there"),
            "switch off what looks: AllowOverride None (Apache), fewer try_files (nginx), a class \
             map in place of searching (Composer: dump-autoload -o)",
        ),
        Habit::ReadAgain(path) if calls >= 1.5 => (
            format!("opens {path} more than once in a request"),
            "open it once, or keep it in memory: opcache for scripts, a cache for data",
        ),
        Habit::ReadAgain(path) => (
            format!("opens {path} in each request"),
            "keep it in memory: opcache for scripts, open_file_cache (nginx), a cache for data",
        ),
        Habit::Reconnects => (
            "connects anew in each request".to_owned(),
            "keep connections: fastcgi_keep_conn on and keepalive N (nginx), enablereuse=on \
             (Apache), persistent connections to databases",
        ),
        Habit::Logs(path) => (
            format!("writes to {path} in each request"),
            "write less often: access_log … buffer=32k (nginx), BufferedLogs On (Apache), no \
             second access log behind the first",
        ),
        Habit::Getcwd => (
            "asks for and changes the working directory".to_owned(),
            "PHP does it for each script; a worker that stays in its script (worker, sealed or \
             async mode) does not",
        ),
        Habit::Timers if calls >= 2.0 => (
            "sets timers and signal handlers again".to_owned(),
            "PHP does it for each request (max_execution_time, zend_signal); worker mode does it \
             once",
        ),
        Habit::Locks => (
            "locks and unlocks opcache's memory".to_owned(),
            "opcache does it for each request that may find stale files; a worker that stays in \
             its script does not",
        ),
        Habit::Headers if calls >= 3.0 => (
            "reads FastCGI records in pieces of 8 bytes".to_owned(),
            "php-fpm reads head and body of each record by itself; a backend that reads into a \
             buffer needs one call",
        ),
        Habit::FoundNothing => (
            "calls that found nothing (EAGAIN)".to_owned(),
            "the server asks before anything is there; a server setting seldom helps \
             (multi_accept off in nginx)",
        ),
        Habit::Timers | Habit::Headers => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{Piece, steps};
    use crate::line::call;

    #[test]
    fn habits_are_found_and_single_events_are_not() {
        let calls = [
            call(1, "newfstatat", "AT_FDCWD<\\x2f>, \"\\x2f\\x61\", {}, 0", "0", 0, 1),
            call(1, "getcwd", "\"\\x2f\", 4095", "9", 0, 1),
            call(1, "read", "3<\\x2f>, 0x1, 8", "-1 EAGAIN (Resource unavailable)", 0, 1),
            call(1, "openat", "AT_FDCWD<\\x2f>, \"\\x2f\\x62\", O_RDONLY", "3<\\x2f\\x62>", 0, 1),
            call(1, "access", "\"\\x2f\\x63\", F_OK", "-1 ENOENT (No such file)", 0, 1),
            call(1, "access", "\"\\x2f\\x64\", F_OK", "-1 ENOENT (No such file)", 0, 1),
        ];
        let piece = |index, length| Piece {
            phase: Phase::Work,
            call: Some(index),
            length,
            before: 0,
            is_after: false,
        };
        let usual = vec![
            piece(0, 10),
            piece(1, 30),
            piece(3, 5),
            piece(3, 5),
            piece(4, 10),
            piece(5, 10),
            piece(5, 10),
        ];
        let mut requests = vec![usual.clone(), usual];
        requests.push(vec![piece(2, 1000)]);
        let steps = steps(&calls, &requests, |_| "server");
        let found = find(&calls, &steps, Tracer::default());
        let what: Vec<&str> = found.iter().map(|finding| &*finding.what).collect();
        assert_eq!(what.len(), 4, "{what:?}");
        assert!(what.contains(&"looks for 2 files that are not there, such as /d, /c"), "{what:?}");
        assert!(what.iter().any(|what| what.contains("whether /a has changed")));
        assert!(what.iter().any(|what| what.contains("opens /b")));
    }
}
