//! Traces: whose trace requests belong to, and which traces are recorded.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Secret;

/// Which trace context requests have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceMode {
    /// None; what clients send is passed on as any header is.
    Off,
    /// One that begins here, whatever the client sends.
    Begin,
    /// The client's, if it sends a valid one; else one that begins here.
    Continue,
}

/// What is done for traces.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Which trace context requests have.
    pub context: TraceMode,
    /// The share of the traces that begin here and are recorded, in parts per million.
    pub sample: u32,
    /// What requests are signed with that ask for their phases.
    pub timing_secret: Option<Secret>,
    /// Where the spans of recorded traces go.
    pub export: Option<Box<TraceExport>>,
}

/// Where the spans of recorded traces go, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceExport {
    /// The collector's URL, with its path.
    pub url: String,
    /// Header fields for the collector.
    pub headers: BTreeMap<String, Secret>,
    /// Most requests of a second that are exported.
    pub rate: u32,
    /// How long the collector may take for an export.
    pub timeout: Duration,
}
