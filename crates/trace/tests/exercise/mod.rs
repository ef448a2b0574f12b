//! Any bytes as the trace context of a request: what is passed on is valid, bounded, and read again
//! as it was meant. The fuzz target and the tests of properties share it.

use tokamak_trace::{LONGEST_STATE, Parent, Sampling, TraceContext, trace_state};

/// Takes `bytes` as a `traceparent`, and as `tracestate`s that are divided by zero bytes.
pub fn run(bytes: &[u8]) {
    let sampling = Sampling { takes_parents: true, share: 500_000 };
    let parent = Parent::read(bytes);
    let context = TraceContext::new(parent, &sampling);
    let sent = Parent::read(&context.traceparent()).expect("what is written is valid");
    assert_eq!((sent.trace, sent.span), (context.trace, context.span));
    match parent {
        Some(parent) => {
            assert_eq!((context.trace, context.parent), (parent.trace, Some(parent.span)));
            assert_eq!(&bytes[3..35], &context.trace.digits());
            let is_sampled = bytes[54].to_ascii_lowercase();
            let is_odd =
                matches!(is_sampled, b'1' | b'3' | b'5' | b'7' | b'9' | b'b' | b'd' | b'f');
            assert_eq!(context.is_sampled(), is_odd);
        }
        None => assert_eq!(context.parent, None),
    }
    let divided = || bytes.split(|byte| *byte == 0);
    if let Some(state) = trace_state(divided()) {
        assert!((1..=LONGEST_STATE).contains(&state.len()));
        assert_eq!(trace_state([&state[..]].into_iter()).as_ref(), Some(&state));
        let whole = divided().collect::<Vec<_>>().join(&b',');
        for member in state.split(|byte| *byte == b',') {
            assert!(whole.windows(member.len()).any(|part| part == member));
        }
    }
}
