//! Traces.

use super::Reader;
use crate::model::Trace;
use crate::option;

fn trace(raw: &option::Trace) -> Trace {
    Trace {
        context: raw.context.value,
        sample: raw.sample.value.0,
        timing_secret: raw.timing_secret.value.clone(),
    }
}

impl Default for Trace {
    fn default() -> Trace {
        trace(&option::Section::defaults())
    }
}

impl Reader<'_> {
    /// What is done for traces.
    pub(super) fn trace(&mut self) -> Trace {
        let raw = &self.raw.trace;
        self.check_length("trace", "timing_secret", &raw.timing_secret);
        trace(raw)
    }
}
