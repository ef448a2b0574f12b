use std::sync::{Arc, Mutex, MutexGuard, Weak};

use tokamak_sys::queue::{Segment, Tickets};
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::error::{Death, Refused};
use super::queued_request::QueuedRequest;
use super::requests::{Bounds, Metadata, RequestName, Requests};
use super::spooled::Step;
use crate::body::Body;
use crate::spool::{PATIENCE, RETRY, SpoolQuota};

/// One event loop's access to one pool.
pub struct QueueClient {
    requests: Mutex<Requests>,
    /// Tells the supervisor that a request waits and no worker could be woken.
    want: Option<Box<dyn Fn() + Send + Sync>>,
    /// For the tasks that write responses to files.
    this: Weak<QueueClient>,
}

impl QueueClient {
    /// The access of event loop `index`. All loops of a front share `tickets`. Responses for slow
    /// clients go to files as far as `quota` allows, if there is one. `want` is called (seldom)
    /// when a request waits and no worker sleeps.
    pub fn new(
        segment: Arc<Segment>,
        index: u16,
        tickets: Arc<Tickets>,
        bounds: Bounds,
        quota: Option<Arc<SpoolQuota>>,
        want: Option<Box<dyn Fn() + Send + Sync>>,
    ) -> Arc<QueueClient> {
        let requests = Mutex::new(Requests::new(segment, index, tickets, bounds, quota));
        Arc::new_cyclic(|this| QueueClient { requests, want, this: this.clone() })
    }

    /// Queues a request. A worker that sleeps is woken for it when the event loop has done what it
    /// can do ([`super::Notifier::before_sleep`]): by then a busy worker may have taken it, and the
    /// wake-up is saved.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn submit_at(
        self: &Arc<Self>,
        record: &[u8],
        body: Body,
        metadata: Metadata<'_>,
        now: u64,
    ) -> Result<QueuedRequest, (Refused, Body)> {
        let has_file = matches!(body, Body::Spool { .. });
        let key = self.lock().submit(record, body, metadata, now)?;
        Ok(QueuedRequest::new(self.clone(), key, has_file))
    }

    #[cfg(test)]
    pub(super) fn submit(
        self: &Arc<Self>,
        record: &[u8],
        body: Body,
    ) -> Result<QueuedRequest, (Refused, Body)> {
        self.submit_at(record, body, Metadata::default(), tokamak_cost::now())
    }

    /// A worker has died: fails the requests that it held.
    pub fn worker_died(&self, instance: u32, death: Death) {
        self.lock().worker_died(instance, death);
    }

    /// Whether no request is in the queue.
    pub fn is_idle(&self) -> bool {
        self.lock().running() == 0
    }

    /// All workers are dead: requests that still wait end with an error.
    pub fn give_up(&self) {
        self.lock().give_up();
    }

    /// Ends the waits that have become too long. Called a few times a second.
    pub fn tick(&self, now: u64) {
        let starved = self.lock().tick(now);
        self.want_if(starved);
    }

    /// What is wrong with the queue, if it cannot work any more. Called after
    /// [`QueueClient::tick`].
    pub fn examine(&self, now: u64) -> Option<&'static str> {
        self.lock().examine(now)
    }

    /// Requests of this event loop that are queued or running.
    #[cfg(test)]
    pub(super) fn running(&self) -> usize {
        self.lock().running()
    }

    pub(super) fn fall_asleep(&self) {
        let starved = {
            let mut requests = self.lock();
            let starved = requests.fall_asleep();
            self.watch(&mut requests);
            starved
        };
        self.want_if(starved);
    }

    /// Does what is otherwise done when the event loop falls asleep: for a loop that has so much to
    /// do that it never does.
    pub fn attend(&self) {
        let starved = {
            let mut requests = self.lock();
            let starved = requests.attend();
            self.watch(&mut requests);
            starved
        };
        self.want_if(starved);
    }

    /// Called without the lock: it sends a message to the supervisor.
    fn want_if(&self, starved: bool) {
        if starved && let Some(want) = &self.want {
            want();
        }
    }

    pub(super) fn is_asleep(&self) -> bool {
        self.lock().is_asleep()
    }

    pub(super) fn wake_up(&self) {
        let mut requests = self.lock();
        requests.wake_up();
        self.watch(&mut requests);
    }

    /// Starts a task for each response that fills its memory.
    pub(super) fn watch(&self, requests: &mut Requests) {
        if !requests.has_crowded() {
            return;
        }
        // Without a runtime there is no client that could be slow.
        let Ok(runtime) = Handle::try_current() else { return };
        for name in requests.take_crowded() {
            runtime.spawn(spool(self.this.clone(), name));
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Requests> {
        // A panic while the lock is held is a bug that has been reported; the state may still be
        // used to end the other requests.
        self.requests.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Moves a response into its file for as long as its client is slower than its worker.
async fn spool(client: Weak<QueueClient>, name: RequestName) {
    let (mut seen, mut pause) = (None, None);
    loop {
        if let Some(pause) = pause.take() {
            sleep(pause).await;
        }
        let Some(client) = client.upgrade() else { return };
        let step = client.lock().spool(name, &mut seen);
        match step {
            Step::Over => return,
            Step::Patience => pause = Some(PATIENCE),
            Step::Refused => pause = Some(RETRY),
            Step::Write(chunk) => {
                let (written, frames) = chunk.run().await;
                if !client.lock().spooled(name, written, frames) {
                    pause = Some(RETRY);
                }
            }
        }
    }
}
