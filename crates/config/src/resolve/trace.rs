//! Traces.

use crate::model::Trace;
use crate::option;

/// What is done for traces.
pub(super) fn trace(raw: &option::Trace) -> Trace {
    Trace { context: raw.context.value, sample: raw.sample.value.0 }
}

impl Default for Trace {
    fn default() -> Trace {
        trace(&option::Section::defaults())
    }
}
