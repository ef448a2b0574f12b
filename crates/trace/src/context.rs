//! `traceparent`: the trace, the span that asks, and what the asker decided.
//!
//! ```text
//! 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
//! version    trace                        span        flags
//! ```

use crate::{Sampling, SpanId, TraceId, hex};

/// Bytes of a `traceparent` as this server writes it.
pub const TRACEPARENT_LENGTH: usize = 55;

/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;
/// The flag of a trace whose name is random.
const RANDOM: u8 = 2;

/// What a valid `traceparent` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The trace.
    pub trace: TraceId,
    /// The span that asks.
    pub span: SpanId,
    flags: u8,
}

impl Parent {
    /// Reads the value of a `traceparent`; `None` if it is not valid, and a new trace begins.
    ///
    /// Of later versions, which may be longer, the known parts count.
    pub fn read(value: &[u8]) -> Option<Parent> {
        let (known, more) = value.split_at_checked(TRACEPARENT_LENGTH)?;
        let [version] = hex::read(&known[..2])?;
        let is_long_enough = match version {
            0 => more.is_empty(),
            255 => false,
            _ => more.first().is_none_or(|byte| *byte == b'-'),
        };
        let is_divided = [2, 35, 52].iter().all(|at| known[*at] == b'-');
        if !is_long_enough || !is_divided {
            return None;
        }
        let [flags] = hex::read(&known[53..])?;
        Some(Parent {
            trace: TraceId::read(&known[3..35])?,
            span: SpanId::read(&known[36..52])?,
            flags: flags & (SAMPLED | RANDOM),
        })
    }
}

/// The place of one request in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace: TraceId,
    /// The span of this request in this server.
    pub span: SpanId,
    /// The span that asked, if the trace did not begin here.
    pub parent: Option<SpanId>,
    flags: u8,
}

impl TraceContext {
    /// The place of a request that came with this parent, or with none.
    pub fn new(parent: Option<Parent>, sampling: &Sampling) -> TraceContext {
        let span = SpanId::random();
        if let Some(Parent { trace, span: asker, flags }) =
            parent.filter(|_| sampling.takes_parents)
        {
            return TraceContext { trace, span, parent: Some(asker), flags };
        }
        let trace = TraceId::random();
        let flags = if sampling.takes(trace) { RANDOM | SAMPLED } else { RANDOM };
        TraceContext { trace, span, parent: None, flags }
    }

    /// Whether the trace is recorded.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The flags, as in `traceparent`.
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// The `traceparent` for those whom this request asks.
    pub fn traceparent(&self) -> [u8; TRACEPARENT_LENGTH] {
        let mut value = *b"00-00000000000000000000000000000000-0000000000000000-00";
        hex::write(self.trace.bytes(), &mut value[3..35]);
        hex::write(self.span.bytes(), &mut value[36..52]);
        hex::write(&[self.flags], &mut value[53..]);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const ALL: Sampling = Sampling { takes_parents: true, share: 1_000_000 };

    #[test]
    fn a_valid_parent_is_gone_on_with() {
        let parent = Parent::read(GOOD.as_bytes()).unwrap();
        let context = TraceContext::new(Some(parent), &Sampling { share: 0, ..ALL });
        assert_eq!(context.trace.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(context.parent.unwrap().to_string(), "b7ad6b7169203331");
        assert!(context.is_sampled() && context.span != parent.span);
        let sent = Parent::read(&context.traceparent()).unwrap();
        assert_eq!((sent.trace, sent.span, sent.flags), (parent.trace, context.span, 1));
    }

    #[test]
    fn an_edge_begins_its_own_traces() {
        let parent = Parent::read(GOOD.as_bytes());
        for share in [0, 1_000_000] {
            let sampling = Sampling { takes_parents: false, share };
            let context = TraceContext::new(parent, &sampling);
            assert_ne!(context.trace, parent.unwrap().trace);
            assert_eq!((context.parent, context.is_sampled()), (None, share > 0));
        }
    }

    #[test]
    fn later_versions_may_be_longer() {
        for (text, is_valid) in [
            (GOOD.to_owned(), true),
            (format!("{GOOD}-"), false),
            (format!("{GOOD}0"), false),
            (GOOD.replacen("00", "01", 1), true),
            (format!("{}-what.comes", GOOD.replacen("00", "cc", 1)), true),
            (format!("{}what", GOOD.replacen("00", "cc", 1)), false),
            (GOOD.replacen("00", "ff", 1), false),
            (GOOD.replacen("00", "0G", 1), false),
        ] {
            assert_eq!(Parent::read(text.as_bytes()).is_some(), is_valid, "{text}");
        }
    }

    #[test]
    fn what_is_not_valid_is_no_parent() {
        for text in [
            "",
            "00",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0X",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333\u{e9}-1",
        ] {
            assert_eq!(Parent::read(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn unknown_flags_are_not_passed_on() {
        let parent = Parent::read(GOOD.replace("-01", "-fe").as_bytes()).unwrap();
        let context = TraceContext::new(Some(parent), &ALL);
        assert!(!context.is_sampled() && context.traceparent().ends_with(b"-02"));
    }
}
