//! Slow requests in the error log. Each is one entry: what front, worker and supervisor know of it,
//! and below that its PHP stack, which the zygote reads in the memory of the worker. The entry is
//! written when the stack has come, or when it will not come any more.

use std::fmt::Write;
use std::time::Duration;

use tokamak_config::Mode;
use tokamak_cost::CallKind;
use tokamak_sys::control::{Signal, ToZygote};
use tokamak_sys::process;
use tokamak_sys::queue::{Details, InFlight};

use super::Pool;
use crate::log::{self, Level};
use crate::watch::since;

/// How long an entry waits for its stack, which takes a millisecond to read. With a tenth, entries
/// would lack their stacks on a busy machine; ten times more would log a slow request when it
/// is long over.
const PATIENCE: Duration = Duration::from_secs(2);
/// Entries written without their stacks that are remembered: far more than a zygote that hangs for
/// some seconds leaves.
const MOST_LATE: usize = 256;

/// An entry that waits for its stack.
#[derive(Debug)]
struct Entry {
    /// The worker.
    instance: u32,
    /// The request's name in all logs.
    id: String,
    /// When it was made.
    begun: u64,
    message: String,
    /// What is known besides.
    facts: Vec<String>,
}

/// The entries of a pool that wait for their stacks.
#[derive(Debug, Default)]
pub struct SlowLog {
    waiting: Vec<Entry>,
    /// Worker and request of those that were written without the stack, which may still come.
    late: Vec<(u32, String)>,
}

impl SlowLog {
    /// The entry to which a stack belongs, and its lines: of a text as
    /// [`tokamak_sys::control::FromZygote::Slow`] has it, from this worker.
    fn join(&mut self, instance: u32, text: &str) -> Option<(Entry, Vec<String>)> {
        let (id, stack) = text.split_once('\n').unwrap_or((text, ""));
        let is_it = |entry: &Entry| entry.instance == instance && entry.id == id;
        if let Some(at) = self.waiting.iter().position(is_it) {
            let mut lines = calls(stack);
            if lines.is_empty() {
                lines.push("no stack: no PHP code runs, at the beginning or the end".to_owned());
            }
            return Some((self.waiting.remove(at), lines));
        }
        // Of an entry that did not wait so long: it says nothing of those that wait now.
        let is_late = |(worker, late): &(u32, String)| *worker == instance && late == id;
        if let Some(at) = self.late.iter().position(is_late) {
            self.late.remove(at);
            return None;
        }
        // The worker serves another request by now, or none.
        let at = self.waiting.iter().position(|entry| entry.instance == instance)?;
        Some((self.waiting.remove(at), vec!["no stack: the request has just ended".to_owned()]))
    }

    /// Those of this worker; of all, if there is none.
    fn take(&mut self, instance: Option<u32>) -> Vec<Entry> {
        let is_his = |entry: &mut Entry| instance.is_none_or(|it| it == entry.instance);
        self.late.retain(|(worker, _)| instance.is_some_and(|it| it != *worker));
        self.waiting.extract_if(.., is_his).collect()
    }

    /// Those that have waited for too long.
    fn take_late(&mut self, now: u64) -> Vec<Entry> {
        let is_late = |entry: &mut Entry| since(entry.begun, now) > PATIENCE;
        let late: Vec<_> = self.waiting.extract_if(.., is_late).collect();
        self.late.extend(late.iter().map(|entry| (entry.instance, entry.id.clone())));
        // A zygote that never answers must not make it grow.
        self.late.drain(..self.late.len().saturating_sub(MOST_LATE));
        late
    }
}

/// The calls of a stack, the innermost first. A long one may have been cut in the middle of a line.
fn calls(stack: &str) -> Vec<String> {
    let (whole, is_cut) = match stack.rsplit_once('\n') {
        Some((whole, rest)) => (whole, !rest.is_empty()),
        None => ("", !stack.is_empty()),
    };
    let mut calls: Vec<_> = whole.lines().map(|line| line.trim_start().to_owned()).collect();
    if is_cut {
        calls.push("and calls for which there was no room".to_owned());
    }
    calls
}

impl Pool {
    /// Begins the entry of a request that has taken this long, and asks for its stack. `doing`:
    /// what it does now, if more is known than that it runs.
    pub(super) fn begin_slow_entry(
        &mut self,
        index: u16,
        request: &InFlight,
        took: Duration,
        doing: Option<String>,
        now: u64,
    ) {
        let InFlight { instance, slot, id, method, uri, .. } = request;
        let pid = self.slots[usize::from(index)].pid.unwrap_or(0);
        let details = self.segment.details(request, now).unwrap_or_default();
        let seconds = took.as_secs_f64();
        let trace = details.trace.as_ref().map_or(String::new(), |trace| format!(" trace={trace}"));
        self.slow_log.waiting.push(Entry {
            instance: *instance,
            id: id.to_string(),
            begun: now,
            message: format!(
                "slow request seconds={seconds:.1} pid={pid} id={id}{trace} method={method} \
                    uri={uri}"
            ),
            facts: doing.into_iter().chain(facts(&details)).chain(memory(pid)).collect(),
        });
        let signal = Signal::Backtrace((self.site.mode == Mode::Async).then_some(*slot));
        self.send(Some(&ToZygote::Kill { index, instance: *instance, signal }), now);
    }

    /// A stack has come.
    pub(super) fn end_slow_entry(&mut self, instance: u32, text: &str) {
        if let Some((entry, stack)) = self.slow_log.join(instance, text) {
            self.write_slow_entry(entry, stack);
        }
    }

    /// No stack of this worker will come any more; of all, if there is none.
    pub(super) fn end_slow_entries_of(&mut self, instance: Option<u32>) {
        for entry in self.slow_log.take(instance) {
            self.write_slow_entry(entry, vec!["no stack: the worker has ended".to_owned()]);
        }
    }

    /// Writes the entries that have waited for their stacks for too long.
    pub(super) fn end_late_slow_entries(&mut self, now: u64) {
        for entry in self.slow_log.take_late(now) {
            let why = "no stack: the zygote cannot read the worker's memory, or does not answer; \
                the worker may write it itself";
            self.write_slow_entry(entry, vec![why.to_owned()]);
        }
    }

    fn write_slow_entry(&self, entry: Entry, stack: Vec<String>) {
        let below = [entry.facts, stack].concat();
        log::entry(Level::Warn, &self.site.name, format_args!("{}", entry.message), &below);
    }
}

/// What front and worker say of a request, in lines.
fn facts(details: &Details) -> Vec<String> {
    let mut lines = Vec::new();
    if !details.script.is_empty() {
        lines.push(format!("script_filename={}", details.script));
    }
    if !details.phases.is_empty() {
        let mut line = "phases_us".to_owned();
        for (phase, nanos) in &details.phases {
            let _ = write!(line, " {}={}", phase.name(), nanos / 1000);
        }
        lines.push(line);
    }
    if let Some(calls) = &details.calls {
        let mut line = "calls".to_owned();
        for kind in CallKind::ALL {
            let (name, sum) = (kind.name(), calls.of(kind));
            let _ = write!(line, " {name}_calls={} {name}_us={}", sum.count, sum.nanos / 1000);
        }
        if let Some((kind, nanos)) = details.longest_call {
            let _ = write!(line, " longest_{}_us={}", kind.name(), nanos / 1000);
        }
        lines.push(line);
    }
    lines
}

/// What the worker holds that no other process does.
fn memory(pid: u32) -> Option<String> {
    let memory = process::memory(pid)?;
    Some(format!("memory_mib={}", memory.resident.saturating_sub(memory.shared) >> 20))
}

#[cfg(test)]
mod tests {
    use tokamak_cost::{CallSum, Calls, Phase};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn entry(instance: u32, id: &str) -> Entry {
        let (id, message, facts) = (id.to_owned(), format!("slow {id}"), Vec::new());
        Entry { instance, id, begun: SECOND, message, facts }
    }

    fn waiting(waiting: Vec<Entry>) -> SlowLog {
        SlowLog { waiting, late: Vec::new() }
    }

    #[test]
    fn a_stack_that_comes_too_late_ends_no_other_entry() {
        let mut log = waiting(vec![entry(1, "a")]);
        assert_eq!(log.take_late(4 * SECOND).len(), 1);
        log.waiting.push(entry(1, "b"));
        assert!(log.join(1, "a\n#0 f()\n").is_none());
        let (joined, stack) = log.join(1, "b\n#0 g()\n").unwrap();
        assert_eq!((&joined.id[..], stack), ("b", vec!["#0 g()".to_owned()]));
        assert!(log.late.is_empty());
    }

    #[test]
    fn a_stack_goes_to_the_entry_of_its_request() {
        let mut log = waiting(vec![entry(1, "a"), entry(1, "b"), entry(2, "c")]);
        let joined = |log: &mut SlowLog, instance, text| {
            log.join(instance, text).map(|(entry, stack)| (entry.id, stack.join("|")))
        };
        let some = |id: &str, stack: &str| Some((id.to_owned(), stack.to_owned()));
        assert_eq!(joined(&mut log, 1, "b\n#0 f()\n#1 g()\n"), some("b", "#0 f()|#1 g()"));
        assert_eq!(joined(&mut log, 3, "c\n#0 f()\n"), None, "a worker speaks for itself");
        let ended = "no stack: the request has just ended";
        assert_eq!(joined(&mut log, 1, "z\n#0 of another()\n"), some("a", ended));
        assert_eq!(joined(&mut log, 2, ""), some("c", ended));
        assert_eq!(joined(&mut log, 2, "c\n"), None);
        log.waiting.push(entry(2, "d"));
        let none = "no stack: no PHP code runs, at the beginning or the end";
        assert_eq!(joined(&mut log, 2, "d\n"), some("d", none));
    }

    #[test]
    fn no_half_of_a_call_is_shown() {
        assert_eq!(calls(""), [""; 0]);
        assert_eq!(calls("    #0 f()\n    #1 g() /a.php:3\n"), ["#0 f()", "#1 g() /a.php:3"]);
        let cut = "and calls for which there was no room";
        assert_eq!(calls("    #0 f()\n    #1 g() /a.p"), ["#0 f()", cut]);
        assert_eq!(calls("    #0 a_name"), [cut]);
    }

    #[test]
    fn no_entry_waits_for_ever() {
        let mut log = waiting(vec![entry(1, "a"), entry(2, "b"), entry(3, "c")]);
        assert_eq!(log.take(Some(2)).len(), 1);
        assert_eq!(log.take_late(3 * SECOND).len(), 0);
        assert_eq!(log.take_late(3 * SECOND + 1).len(), 2);
        assert_eq!(log.take(None).len(), 0);
    }

    #[test]
    fn figures_are_shown_under_the_names_of_the_access_log() {
        assert_eq!(facts(&Details::default()), [""; 0]);
        let sums =
            [CallSum { count: 41, nanos: 1_952_547_000 }, CallSum { count: 1, nanos: 4_206_900 }];
        let details = Details {
            script: "/srv/shop/index.php".to_owned(),
            trace: None,
            phases: vec![(Phase::Queue, 812_000), (Phase::Php, 2_052_688_000)],
            calls: Some(Calls { sums }),
            longest_call: Some((CallKind::Sql, 1_903_311_000)),
        };
        let calls = "calls sql_calls=41 sql_us=1952547 http_calls=1 http_us=4206 \
            longest_sql_us=1903311";
        let phases = "phases_us queue=812 php=2052688";
        assert_eq!(facts(&details), ["script_filename=/srv/shop/index.php", phases, calls]);
    }
}
