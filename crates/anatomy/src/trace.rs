//! A whole trace. strace writes a call that another thread interrupts as two lines, which are
//! joined here; the calls are compared with strace's own count.

use std::collections::{BTreeMap, HashMap};

use crate::line::{self, Call, Event, Unreadable};

/// The calls of a trace in the order in which they ended, and how often strace counted each name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The calls that ended.
    pub calls: Vec<Call>,
    /// The names of calls by the numbers that the kernel has for them.
    pub numbers: BTreeMap<u32, String>,
    /// strace's own table (`-C`), which comes after the calls.
    pub counted: BTreeMap<String, u64>,
}

impl Trace {
    /// Reads all lines.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        let mut trace = Self::default();
        let mut begun: HashMap<u32, (u64, String, String)> = HashMap::new();
        let mut lines = text.lines().enumerate();
        for (number, text) in lines.by_ref() {
            if text.starts_with("% time") {
                break;
            }
            if text.trim().is_empty() {
                continue;
            }
            let wrong = || Unreadable { line: number + 1, text: text.to_owned() };
            let (thread, time, event) = line::event(text).ok_or_else(wrong)?;
            if let Some((number, name)) = line::number_and_name(text)
                && !trace.numbers.contains_key(&number)
            {
                trace.numbers.insert(number, name.to_owned());
            }
            match event {
                Event::Whole(name, arguments, result, took) => {
                    trace.calls.push(line::call(thread, name, arguments, result, time, took));
                }
                Event::Begun(name, arguments) => {
                    begun.insert(thread, (time, name.to_owned(), arguments.to_owned()));
                }
                Event::Resumed(name, rest, result, took) => {
                    // Without its first half the call began before strace did, and its arguments
                    // are not known.
                    let (start, arguments) = match begun.remove(&thread) {
                        Some((start, first, arguments)) if first == name => (start, arguments),
                        _ => (time.saturating_sub(took), String::new()),
                    };
                    let arguments = arguments + rest;
                    trace.calls.push(line::call(thread, name, &arguments, result, start, took));
                }
                Event::Cut => drop(begun.remove(&thread)),
                Event::Notice => {}
            }
        }
        trace.counted = lines.filter_map(|(_, line)| counted(line)).collect();
        trace.calls.sort_by_key(|call| call.end);
        Ok(trace)
    }

    /// How often each name was called, by the calls.
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        let mut names = BTreeMap::new();
        for call in &self.calls {
            *names.entry(call.name.clone()).or_default() += 1;
        }
        names
    }

    /// The first name whose calls strace has counted differently: the name, strace's count, ours.
    pub fn miscounted(&self) -> Option<(String, u64, u64)> {
        let ours = self.by_name();
        let names = ours.keys().chain(self.counted.keys());
        names
            .map(|name| {
                let count = |table: &BTreeMap<String, u64>| table.get(name).copied().unwrap_or(0);
                (name.clone(), count(&self.counted), count(&ours))
            })
            .find(|(_, counted, ours)| counted != ours)
    }
}

/// A row of strace's table: the calls, and the name.
fn counted(row: &str) -> Option<(String, u64)> {
    let words: Vec<&str> = row.split_whitespace().collect();
    let (name, calls) = (words.last()?, words.get(3)?);
    let is_row = words.len() >= 5 && *name != "total" && words[0].parse::<f64>().is_ok();
    is_row.then_some(())?;
    Some(((*name).to_owned(), calls.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TWO: &str = "\
1 10.000000100 [  43] accept(12<\\x2f>,  <unfinished ...>
2 10.000000200 [   3] close(3<\\x2f\\x61>) = 0 <0.000000050>
1 10.000000300 [  43] <... accept resumed>{sa_family=AF_UNIX}, [112 => 2]) = 5<\\x2f> <0.000000200>
1 10.000000400 --- SIGCHLD {si_signo=SIGCHLD} ---
1 10.000000500 read(5<\\x2f>,  <detached ...>
2 10.000000600 exit_group(0) = ?
2 10.000000700 +++ exited with 0 +++
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 99.00    0.000000           0         1         1 accept
  0.00    0.000000           0         1           close
------ ----------- ----------- --------- --------- ----------------
100.00    0.000000           0         2         1 total
";

    #[test]
    fn halves_of_calls_find_each_other_and_the_count_is_strace_s() {
        let trace = Trace::parse(TWO).unwrap();
        let names: Vec<_> = trace.calls.iter().map(|call| (&*call.name, call.start)).collect();
        assert_eq!(names, [("close", 10_000_000_200), ("accept", 10_000_000_100)]);
        assert_eq!(trace.miscounted(), None);
        let numbers = trace.numbers.iter().map(|(number, name)| (*number, &**name));
        assert_eq!(numbers.collect::<Vec<_>>(), [(3, "close"), (43, "accept")]);
        let without =
            TWO.replace("2 10.000000200 [   3] close(3<\\x2f\\x61>) = 0 <0.000000050>\n", "");
        let miscounted = Trace::parse(&without).unwrap().miscounted();
        assert_eq!(miscounted, Some(("close".to_owned(), 1, 0)));
    }

    #[test]
    fn a_line_of_another_form_is_named() {
        let wrong = Trace::parse("1 10.0 close(3) = 0 <0.1>\n1 10.1 strange\n").unwrap_err();
        assert_eq!((wrong.line, &*wrong.text), (2, "1 10.1 strange"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(?s).{0,200}") {
            let _ = Trace::parse(&text);
        }

        #[test]
        fn any_piece_of_a_trace_is_read_or_refused(from in 0usize..800, to in 0usize..800) {
            let (from, to) = (from.min(TWO.len()), to.min(TWO.len()));
            if from <= to { let _ = Trace::parse(&TWO[from..to]); }
        }

        #[test]
        fn threads_whose_calls_interleave_keep_their_calls(
            order in prop::collection::vec(1u32..5, 0..60)
        ) {
            let mut text = String::new();
            let (mut open, mut ended) = (std::collections::HashSet::new(), 0);
            for (at, thread) in order.into_iter().enumerate() {
                if open.insert(thread) {
                    let call = format!("read({thread}<\\x61>,  <unfinished ...>");
                    text += &format!("{thread} 1.{at:09} {call}\n");
                } else {
                    open.remove(&thread);
                    ended += 1;
                    let call = "<... read resumed>\"\", 8) = 0 <0.000000001>";
                    text += &format!("{thread} 1.{at:09} {call}\n");
                }
            }
            let trace = Trace::parse(&text).unwrap();
            prop_assert_eq!(trace.calls.len(), ended);
            for call in trace.calls {
                prop_assert_eq!(call.descriptors[0].number, call.thread);
            }
        }
    }
}
