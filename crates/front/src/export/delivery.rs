//! The thread that exports: takes requests in batches, and sends their spans.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokamak_trace::otlp::{RequestSpan, Source};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::collector::{Collector, Outcome};
use super::losses::Losses;
use super::{Fate, SpanQueue};
use crate::clock::epoch;

/// How long spans wait for company. Traces show up so much later; with a tenth of it, a server with
/// few requests would send ten times as many exports.
const INTERVAL: Duration = Duration::from_secs(1);

/// How often the same spans are sent. Those that come meanwhile wait, up to the queue's bound.
const ATTEMPTS: u32 = 4;

/// The pause before they are sent again, which doubles each time, if the collector names none.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The longest pause that a collector may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The export, as its thread runs it.
pub struct Delivery {
    queue: Arc<SpanQueue>,
    collector: Collector,
    source: Source,
    /// When all must be over, once the front ends.
    closing: watch::Receiver<Option<Instant>>,
    losses: Losses,
    /// Spans of which it is not known whether the collector has them.
    sending: u64,
}

impl Delivery {
    /// The export to this collector.
    pub fn new(
        queue: Arc<SpanQueue>,
        collector: Collector,
        source: Source,
        closing: watch::Receiver<Option<Instant>>,
    ) -> Delivery {
        Delivery { queue, collector, source, closing, losses: Losses::default(), sending: 0 }
    }

    /// Exports until the front ends, and a limited time longer.
    pub async fn run(mut self) {
        let mut closing = self.closing.clone();
        let overdue = async move {
            // The sender lives until it has said when.
            let deadline = closing.wait_for(Option::is_some).await.ok().and_then(|at| *at);
            if let Some(deadline) = deadline {
                sleep_until(deadline).await;
            }
        };
        tokio::select! {
            () = self.deliver_all() => {}
            () = overdue => self.losses.because("the server ended first"),
        }
        let mut left = self.sending;
        loop {
            let batch = self.queue.take();
            if batch.is_empty() {
                break;
            }
            left += spans(&batch);
        }
        self.queue.count(Fate::Undelivered, left);
        self.losses.report(&self.queue, true);
    }

    async fn deliver_all(&mut self) {
        loop {
            let is_closing = self.is_closing();
            loop {
                let batch = self.queue.take();
                if batch.is_empty() {
                    break;
                }
                self.deliver(&batch).await;
                self.losses.report(&self.queue, false);
            }
            self.losses.report(&self.queue, false);
            self.collector.tidy();
            // Whatever came before the front's end was taken above.
            if is_closing {
                return;
            }
            let queue = self.queue.clone();
            tokio::select! {
                () = self.pause(INTERVAL) => {}
                () = queue.filled() => {}
            }
        }
    }

    async fn deliver(&mut self, batch: &VecDeque<Box<RequestSpan>>) {
        self.sending = spans(batch);
        let body = self.source.encode(batch.iter().map(|request| &**request), epoch());
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            let reason = match self.collector.export(&body).await {
                Outcome::Taken(rejection) => {
                    let rejected = rejection.as_ref().map_or(0, |it| it.spans.min(self.sending));
                    self.queue.count(Fate::Rejected, rejected);
                    self.queue.count(Fate::Exported, self.sending - rejected);
                    if let Some(rejection) = rejection {
                        self.losses.because(&rejection.reason);
                    }
                    break;
                }
                Outcome::Later(_, asked) if attempt < ATTEMPTS && !self.is_closing() => {
                    self.pause(asked.unwrap_or(pause).min(LONGEST_PAUSE)).await;
                    pause *= 2;
                    continue;
                }
                Outcome::Later(reason, _) | Outcome::Refused(reason) => reason,
            };
            self.queue.count(Fate::Undelivered, self.sending);
            self.losses.because(&reason);
            break;
        }
        self.sending = 0;
    }

    fn is_closing(&self) -> bool {
        self.closing.borrow().is_some()
    }

    /// Waits for this time, or until the front ends.
    async fn pause(&mut self, time: Duration) {
        tokio::select! {
            () = sleep(time) => {}
            _ = self.closing.wait_for(Option::is_some) => {}
        }
    }
}

fn spans(batch: &VecDeque<Box<RequestSpan>>) -> u64 {
    batch.iter().map(|request| request.spans()).sum()
}
