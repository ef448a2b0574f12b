//! The export of traces: the spans of recorded requests go to a collector, by OTLP over HTTP.
//!
//! Event loops hand over the requests that are over, and go on; a thread of its own makes spans of
//! them and sends these. What a collector does can therefore cost spans, which are counted, and
//! never a request its time.
//!
//! ```text
//! event loops ──put──► SpanQueue ──take──► Delivery ──POST──► collector
//!                      (bounded)           (own thread)
//! ```

mod collector;
mod delivery;
mod losses;
mod pending;
mod queue;

use std::io;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use tokamak_config as config;
use tokamak_trace::TraceId;
use tokamak_trace::otlp::Source;
use tokio::sync::watch;
use tokio::time::Instant;

use collector::Collector;
use delivery::Delivery;
pub use pending::PendingSpan;
pub use queue::{Fate, SpanQueue};

/// How long a front that ends waits until its last spans are sent. With a tenth, a collector on
/// another continent would lose them at each reload; ten times more, and one that hangs would hold
/// up each reload for as long.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What is left of `timeouts.drain` for the front's own end after that: the supervisor ends it when
/// this time is over. With a tenth, a busy machine would be too slow to write the last lines of the
/// logs; ten times more would take most of a short `timeouts.drain`.
const MARGIN: Duration = Duration::from_millis(200);

/// The running export.
pub struct Exporter {
    queue: Arc<SpanQueue>,
    thread: JoinHandle<()>,
    /// When all must be over, once the front ends.
    closing: watch::Sender<Option<Instant>>,
    /// Time that a front has from the begin of its end.
    drain: Duration,
    /// When the front began to end.
    draining: OnceLock<Instant>,
}

impl Exporter {
    /// Starts it, if the configuration wants it.
    ///
    /// # Errors
    /// Fails if there is no thread or no event loop for it.
    pub fn start(server: &config::Server) -> io::Result<Option<Exporter>> {
        let Some(export) = &server.trace.export else { return Ok(None) };
        let queue = Arc::new(SpanQueue::new(export.rate));
        let source = Source {
            sites: server.sites.iter().map(|site| site.name.clone()).collect(),
            // Random: the name of a trace is.
            instance: TraceId::random().to_string(),
            version: env!("CARGO_PKG_VERSION"),
        };
        let (closing, is_closing) = watch::channel(None);
        let delivery = Delivery::new(queue.clone(), Collector::new(export), source, is_closing);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let run = move || {
            runtime.block_on(delivery.run());
            // A thread that still looks up a name is not waited for.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("traces".into()).spawn(run)?;
        let (drain, draining) = (server.timeouts.drain, OnceLock::new());
        Ok(Some(Exporter { queue, thread, closing, drain, draining }))
    }

    /// Where event loops put requests that are over.
    pub fn queue(&self) -> &Arc<SpanQueue> {
        &self.queue
    }

    /// The front begins to end.
    pub fn drain(&self) {
        // A second time changes nothing.
        let _ = self.draining.set(Instant::now());
    }

    /// Sends what is left, within a bounded time. All event loops have ended.
    pub fn close(self) {
        let now = Instant::now();
        let since = now - *self.draining.get_or_init(|| now);
        let left = self.drain.saturating_sub(since + MARGIN);
        // If the thread has ended, its panic has been written to standard error.
        let _ = self.closing.send(Some(now + left.min(LAST_WORDS)));
        let _ = self.thread.join();
    }
}
