//! A claimed request: reading it, and writing its response.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokamak_cost::RequestId;

use super::calls::CallWords;
use super::consumer::End;
use super::doing::Doing;
use super::frame::{
    FRAME_HEAD, KIND_BODY, KIND_HEAD, KIND_INTERIM, KIND_STDERR, KIND_TRAILERS, KIND_USAGE, Usage,
    frame_head, put_head,
};
use super::layout::{AT_THE_DOOR, SLEEPS, SlotHead};
use super::wake;

/// How a response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is complete.
    Complete = 1,
    /// It is cut short; the client must not take it for complete.
    Broken = 2,
}

impl Outcome {
    pub(super) fn from_number(n: u32) -> Option<Outcome> {
        match n {
            0 => None,
            1 => Some(Outcome::Complete),
            _ => Some(Outcome::Broken),
        }
    }
}

/// The client or the front has gone: what is written is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// A claimed request and its response.
pub struct Job {
    end: Arc<End>,
    slot: u32,
    id: RequestId,
    body_at: u32,
    /// Bytes written, published or not.
    tail: u64,
    /// The frame that grows: its kind and where it begins.
    open: Option<(u8, u64)>,
    finished: bool,
}

impl Job {
    pub(super) fn new(end: Arc<End>, slot: u32, id: RequestId) -> Job {
        // The front wrote these; a value out of bounds would mean that another worker of this pool
        // spoiled them.
        let head = end.segment.slot(slot);
        let request = end.segment.geometry().request;
        let body_at = head.body_at.load(Ordering::Relaxed).min(request - 4096);
        Job { end, slot, id, body_at, tail: 0, open: None, finished: false }
    }

    fn head(&self) -> &SlotHead {
        self.end.segment.slot(self.slot)
    }

    /// What the request is called in the logs.
    pub fn id(&self) -> RequestId {
        self.id
    }

    /// The request record, in place: valid until [`Job::finish`].
    pub fn record(&self) -> &[u8] {
        let len = self.head().record_len.load(Ordering::Relaxed).min(self.body_at);
        // SAFETY: `body_at` lies inside the request area. The front does not write the record again
        // before the slot is given back.
        unsafe { std::slice::from_raw_parts(self.end.segment.request_ptr(self.slot), len as usize) }
    }

    /// Length of the whole request body.
    pub fn body_len(&self) -> u64 {
        self.head().body_len.load(Ordering::Relaxed)
    }

    /// Reads the next bytes of the body, waits for them if need be; 0 at its end.
    ///
    /// # Errors
    /// [`Gone`]: the rest will not come.
    pub fn read_body(&mut self, out: &mut [u8]) -> Result<usize, Gone> {
        let at = self.head().worker.body_head.load(Ordering::Relaxed);
        let left = self.body_len().saturating_sub(at);
        if left == 0 || out.is_empty() {
            return Ok(0);
        }
        let ring = self.end.segment.request_area(self.slot, self.body_at);
        let there = |head: &SlotHead| head.body_tail.load(Ordering::SeqCst).wrapping_sub(at);
        if there(self.head()) == 0 {
            self.notify();
            self.wait(|head| there(head) != 0)?;
        }
        let take = there(self.head()).min(ring.size()).min(left).min(out.len() as u64);
        ring.get(at, &mut out[..take as usize]);
        self.head().worker.body_head.store(at + take, Ordering::SeqCst);
        // The front refills when half of the ring is free, not for every read.
        if left > take && there(self.head()) - take <= ring.size() / 2 {
            self.notify();
        }
        Ok(take as usize)
    }

    /// Reads what is there of the body. None: nothing yet, the worker's doorbell is rung when there
    /// is.
    ///
    /// # Errors
    /// [`Gone`]: the rest will not come.
    pub fn read_body_now(&mut self, out: &mut [u8]) -> Result<Option<usize>, Gone> {
        let at = self.head().worker.body_head.load(Ordering::Relaxed);
        let is_there = |head: &SlotHead| head.body_tail.load(Ordering::SeqCst) != at;
        if self.body_len() > at && !out.is_empty() && !is_there(self.head()) {
            self.notify();
            if !self.is_true_or_rings(is_there)? {
                return Ok(None);
            }
        }
        self.read_body(out).map(Some)
    }

    /// Sends status and headers. Not published before [`Job::flush`] or [`Job::finish`].
    ///
    /// # Errors
    /// [`Gone`], also when the headers are larger than the ring.
    pub fn send_head<'a>(
        &mut self,
        status: u16,
        headers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<(), Gone> {
        self.put_head_frame(KIND_HEAD, status, headers)
    }

    /// Sends an interim response (103) at once.
    ///
    /// # Errors
    /// As [`Job::send_head`].
    pub fn send_interim<'a>(
        &mut self,
        status: u16,
        headers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<(), Gone> {
        self.put_head_frame(KIND_INTERIM, status, headers)?;
        self.flush()
    }

    /// Appends to the body. Waits only when the ring is full.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        self.put_bytes(KIND_BODY, bytes)
    }

    /// Appends as much to the body as there is room for now. After less than all of it the worker's
    /// doorbell is rung when there is more.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn write_now(&mut self, bytes: &[u8]) -> Result<usize, Gone> {
        self.put_now(KIND_BODY, bytes)
    }

    /// Appends lines to the fields that follow the body, at any time.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn write_trailers(&mut self, lines: &[u8]) -> Result<(), Gone> {
        self.put_bytes(KIND_TRAILERS, lines)
    }

    /// As [`Job::write_trailers`], but as much as there is room for now; see [`Job::write_now`].
    ///
    /// # Errors
    /// [`Gone`].
    pub fn write_trailers_now(&mut self, lines: &[u8]) -> Result<usize, Gone> {
        self.put_now(KIND_TRAILERS, lines)
    }

    fn put_now(&mut self, kind: u8, bytes: &[u8]) -> Result<usize, Gone> {
        let mut written = 0;
        loop {
            written += self.put_some(kind, &bytes[written..])?;
            if written == bytes.len() {
                return Ok(written);
            }
            self.flush()?;
            let ring = u64::from(self.end.segment.geometry().response);
            let tail = self.tail;
            if !self.is_true_or_rings(|head| room(ring, tail, head) >= ring / 4)? {
                return Ok(written);
            }
        }
    }

    /// Writes to the error log of the web server that sent the request, in the order of what else
    /// is sent.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn write_stderr(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        self.put_bytes(KIND_STDERR, bytes)
    }

    /// Says what the request was and what it cost. Not published before [`Job::finish`].
    ///
    /// # Errors
    /// [`Gone`], also when the texts are larger than the ring.
    pub fn usage(&mut self, usage: &Usage<'_>) -> Result<(), Gone> {
        let mut frame = begin_frame();
        usage.put(&mut frame);
        self.put_frame(KIND_USAGE, frame)
    }

    fn put_bytes(&mut self, kind: u8, mut bytes: &[u8]) -> Result<(), Gone> {
        loop {
            let written = self.put_some(kind, bytes)?;
            bytes = &bytes[written..];
            if bytes.is_empty() {
                return Ok(());
            }
            self.publish();
            self.notify();
            // Waiting for a quarter of the ring: waking for each byte of room would be a ping-pong.
            let ring = u64::from(self.end.segment.geometry().response);
            let tail = self.tail;
            self.wait(|head| room(ring, tail, head) >= ring / 4)?;
        }
    }

    /// Writes as much as there is room for.
    fn put_some(&mut self, kind: u8, mut bytes: &[u8]) -> Result<usize, Gone> {
        let wanted = bytes.len();
        if self.open.is_some_and(|(open, _)| open != kind) {
            self.close_frame();
        }
        let ring = self.end.segment.response_ring(self.slot);
        while !bytes.is_empty() {
            if self.is_aborted() {
                return Err(Gone);
            }
            let need = if self.open.is_some() { 1 } else { FRAME_HEAD as u64 + 1 };
            if self.room(self.head()) < need {
                break;
            }
            if self.open.is_none() {
                self.open = Some((kind, self.tail));
                self.tail += FRAME_HEAD as u64;
            }
            let take = bytes.len().min(self.room(self.head()) as usize);
            ring.put(self.tail, &bytes[..take]);
            self.tail += take as u64;
            bytes = &bytes[take..];
        }
        Ok(wanted - bytes.len())
    }

    /// Publishes what was written and wakes the front.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn flush(&mut self) -> Result<(), Gone> {
        self.publish();
        self.notify();
        if self.is_aborted() { Err(Gone) } else { Ok(()) }
    }

    /// Whether so many bytes of a response, heads of frames included, can be written without
    /// waiting for the front.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.room(self.head()) >= bytes
    }

    /// From now on the worker's doorbell is rung when the client leaves.
    pub fn watch_client(&self) {
        let index = u32::from(self.end.index());
        self.head().worker.watcher.store(index + 1, Ordering::SeqCst);
    }

    /// Its slot.
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// Where the worker says what the request does, until [`Job::finish`]: nothing so far.
    pub fn doing(&self) -> *const Doing {
        let doing = &self.head().worker.doing;
        doing.since.store(0, Ordering::Relaxed);
        doing.state.store(0, Ordering::Relaxed);
        doing
    }

    /// Where the worker says what the request calls, until [`Job::finish`]: nothing so far.
    pub fn calls(&self) -> *const CallWords {
        let words = &self.head().worker;
        words.calls.clear();
        words.counts_calls.store(1, Ordering::Relaxed);
        &raw const words.calls
    }

    /// Whether the client has gone.
    pub fn is_aborted(&self) -> bool {
        self.head().aborted.load(Ordering::SeqCst) != 0
    }

    /// Ends the response; the slot is the front's again.
    pub fn finish(mut self, outcome: Outcome) {
        self.end_with(outcome);
    }

    fn end_with(&mut self, outcome: Outcome) {
        self.finished = true;
        self.publish();
        let head = self.head();
        head.worker.finished_at.store(tokamak_cost::now(), Ordering::Relaxed);
        head.worker.outcome.store(outcome as u32, Ordering::Release);
        self.notify();
    }

    fn put_head_frame<'a>(
        &mut self,
        kind: u8,
        status: u16,
        headers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<(), Gone> {
        let mut frame = begin_frame();
        if !put_head(&mut frame, status, headers) {
            return Err(Gone);
        }
        self.put_frame(kind, frame)
    }

    /// Puts a frame that must not be divided; the room for its head is there.
    fn put_frame(&mut self, kind: u8, mut frame: Vec<u8>) -> Result<(), Gone> {
        let ring = self.end.segment.response_ring(self.slot);
        if frame.len() as u64 > ring.size() {
            return Err(Gone);
        }
        let head = frame_head(kind, frame.len() - FRAME_HEAD);
        frame[..FRAME_HEAD].copy_from_slice(&head);
        self.close_frame();
        if self.room(self.head()) < frame.len() as u64 {
            self.publish();
            self.notify();
            let (tail, need) = (self.tail, frame.len() as u64);
            self.wait(|head| room(ring.size(), tail, head) >= need)?;
        }
        ring.put(self.tail, &frame);
        self.tail += frame.len() as u64;
        Ok(())
    }

    fn room(&self, head: &SlotHead) -> u64 {
        room(u64::from(self.end.segment.geometry().response), self.tail, head)
    }

    fn close_frame(&mut self) {
        if let Some((kind, at)) = self.open.take() {
            let len = self.tail - at - FRAME_HEAD as u64;
            self.end.segment.response_ring(self.slot).put(at, &frame_head(kind, len as usize));
        }
    }

    fn publish(&mut self) {
        self.close_frame();
        self.head().worker.response_tail.store(self.tail, Ordering::SeqCst);
    }

    /// Marks the slot as ready for its event loop, and rings the loop's bell if it sleeps.
    fn notify(&self) {
        let geometry = self.end.segment.geometry();
        let per_loop = u32::from(geometry.slots_per_loop);
        let (owner, bit) = ((self.slot / per_loop) as u16, self.slot % per_loop);
        let event_loop = self.end.segment.event_loop(owner);
        event_loop.ready.0[(bit / 64) as usize].fetch_or(1 << (bit % 64), Ordering::SeqCst);
        if event_loop.asleep.0.load(Ordering::SeqCst) != 0
            && event_loop.asleep.0.swap(0, Ordering::SeqCst) != 0
        {
            wake::ring(&self.end.bells[usize::from(owner)]);
        }
    }

    fn wait(&self, done: impl Fn(&SlotHead) -> bool) -> Result<(), Gone> {
        let head = self.head();
        loop {
            head.worker.waits.store(SLEEPS, Ordering::SeqCst);
            if head.aborted.load(Ordering::SeqCst) != 0 {
                return Err(Gone);
            }
            if done(head) {
                head.worker.waits.store(0, Ordering::Relaxed);
                return Ok(());
            }
            wake::futex_wait(&head.worker.waits, SLEEPS, wake::LONGEST_SLEEP);
        }
    }

    /// Whether it is so already; otherwise the doorbell is rung when the front has changed
    /// something about it.
    fn is_true_or_rings(&self, done: impl Fn(&SlotHead) -> bool) -> Result<bool, Gone> {
        let head = self.head();
        head.worker.waits.store(AT_THE_DOOR + u32::from(self.end.index()), Ordering::SeqCst);
        if head.aborted.load(Ordering::SeqCst) != 0 {
            return Err(Gone);
        }
        let is_done = done(head);
        if is_done {
            head.worker.waits.store(0, Ordering::Relaxed);
        }
        Ok(is_done)
    }
}

/// Bytes of the ring that the front has read, or that were never written.
fn room(ring: u64, tail: u64, head: &SlotHead) -> u64 {
    ring - tail.wrapping_sub(head.response_head.load(Ordering::SeqCst)).min(ring)
}

/// A frame whose head is written last, with room for what most heads need.
fn begin_frame() -> Vec<u8> {
    let mut frame = Vec::with_capacity(1024);
    frame.extend_from_slice(&[0; FRAME_HEAD]);
    frame
}

impl Drop for Job {
    fn drop(&mut self) {
        // An unfinished job: the worker gave up in the middle.
        if !self.finished {
            self.end_with(Outcome::Broken);
        }
    }
}
