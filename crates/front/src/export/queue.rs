//! Requests that are over, on their way from the event loops to the thread that exports them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokamak_trace::otlp::RequestSpan;
use tokio::sync::Notify;

/// Requests that may wait: some 4 MiB. With a tenth, a collector that restarts would cost spans
/// though it is away for a second only; with ten times more, one that is away for long would cost
/// 40 MiB.
const MOST_WAITING: usize = 4096;

/// Requests that are sent at once; the thread is woken when there are so many. The body of such an
/// export is some 400 KiB, and collectors take a few MiB by default.
pub const BATCH: usize = 256;

const NANOSECONDS: u64 = 1_000_000_000;

/// What became of spans, for `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The collector has them.
    Exported,
    /// The collector has thrown them away, and said so.
    Rejected,
    /// They could not be delivered.
    Undelivered,
    /// There were more than `trace.export_rate` in a second, or too many waited.
    Dropped,
}

impl Fate {
    /// All of them.
    pub const ALL: [Fate; 4] = [Fate::Exported, Fate::Rejected, Fate::Undelivered, Fate::Dropped];

    /// The name in `/metrics`.
    pub fn name(self) -> &'static str {
        match self {
            Fate::Exported => "exported",
            Fate::Rejected => "rejected",
            Fate::Undelivered => "undelivered",
            Fate::Dropped => "dropped",
        }
    }
}

/// Requests that are over, and the numbers of spans by their fates.
pub struct SpanQueue {
    state: Mutex<State>,
    /// Wakes the thread.
    wake: Notify,
    fates: [AtomicU64; Fate::ALL.len()],
    /// Requests that may be put here within a second.
    rate: u32,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Box<RequestSpan>>,
    /// The second of the last request, and how many have come in it.
    second: u64,
    count: u32,
}

impl SpanQueue {
    /// For at most so many requests a second.
    pub fn new(rate: u32) -> SpanQueue {
        let fates = [const { AtomicU64::new(0) }; Fate::ALL.len()];
        SpanQueue { state: Mutex::default(), wake: Notify::new(), fates, rate }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code under the lock can panic half-way, and none waits for anything.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request that is over, or drops it.
    pub fn put(&self, request: Box<RequestSpan>) {
        let second = request.end / NANOSECONDS;
        let mut state = self.state();
        // Event loops may be in different seconds for a moment: the later one counts.
        if second > state.second {
            (state.second, state.count) = (second, 0);
        }
        if state.count >= self.rate || state.waiting.len() >= MOST_WAITING {
            drop(state);
            return self.count(Fate::Dropped, request.spans());
        }
        state.count += 1;
        state.waiting.push_back(request);
        let is_batch = state.waiting.len() == BATCH;
        drop(state);
        if is_batch {
            self.wake.notify_one();
        }
    }

    /// Takes the next requests, at most [`BATCH`].
    pub fn take(&self) -> VecDeque<Box<RequestSpan>> {
        // The event loops wait for the lock, so the memory is there before it is taken.
        let mut batch = VecDeque::with_capacity(BATCH);
        let mut state = self.state();
        let count = state.waiting.len().min(BATCH);
        batch.extend(state.waiting.drain(..count));
        batch
    }

    /// Returns when a whole batch has come together.
    pub async fn filled(&self) {
        self.wake.notified().await;
    }

    /// Counts spans.
    pub fn count(&self, fate: Fate, spans: u64) {
        self.fates[fate as usize].fetch_add(spans, Ordering::Relaxed);
    }

    /// How many spans had this fate.
    pub fn counted(&self, fate: Fate) -> u64 {
        self.fates[fate as usize].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use tokamak_trace::{Sampling, TraceContext};

    use super::*;

    fn request(end: u64) -> Box<RequestSpan> {
        let sampling = Sampling { takes_parents: false, share: 1_000_000 };
        Box::new(RequestSpan { end, ..RequestSpan::of(TraceContext::new(None, &sampling)) })
    }

    #[test]
    fn a_second_has_so_many_requests() {
        let queue = SpanQueue::new(3);
        for second in [5, 6] {
            for _ in 0..10 {
                queue.put(request(second * NANOSECONDS));
                // Of a loop that is late.
                queue.put(request((second - 1) * NANOSECONDS));
            }
        }
        assert_eq!(queue.take().len(), 6);
        assert_eq!(queue.counted(Fate::Dropped), 34);
    }

    #[test]
    fn what_waits_is_bounded() {
        let queue = SpanQueue::new(u32::MAX);
        for _ in 0..MOST_WAITING + 7 {
            queue.put(request(0));
        }
        assert_eq!(queue.counted(Fate::Dropped), 7);
        let batches: Vec<usize> =
            std::iter::from_fn(|| Some(queue.take().len()).filter(|n| *n > 0)).collect();
        assert_eq!(batches, [BATCH; MOST_WAITING / BATCH]);
    }
}
