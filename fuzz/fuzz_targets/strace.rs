//! Any text as what strace writes: it is read or refused, and no call ends before it began.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokamak_anatomy::Trace;

fuzz_target!(|text: &str| {
    if let Ok(trace) = Trace::parse(text) {
        assert!(trace.calls.iter().all(|call| call.end >= call.start));
        let _ = trace.miscounted();
    }
});
