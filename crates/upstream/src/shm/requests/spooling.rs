//! Responses whose clients take less than their workers send: from memory into files.

use super::{RequestName, Requests};
use crate::shm::spooled::{Chunk, Spooled, Step, Written};

impl Requests {
    /// Whether [`Requests::take_crowded`] has any.
    pub fn has_crowded(&self) -> bool {
        !self.crowded.is_empty()
    }

    /// Takes the requests for each of which a task is to call [`Requests::spool`].
    pub fn take_crowded(&mut self) -> Vec<RequestName> {
        std::mem::take(&mut self.crowded)
    }

    /// Looks whether the memory of a response is still full. If it is, and the client has taken
    /// nothing of it since `seen`, what is there is to go to a file.
    pub fn spool(&mut self, name: RequestName, seen: &mut Option<u32>) -> Step {
        let RequestName { key, number } = name;
        let state = &mut self.states[key];
        if state.number != number {
            return Step::Over;
        }
        let (Some(quota), Some(_), true) =
            (&self.quota, state.slot, state.inbox.len() >= self.bounds.inbox)
        else {
            state.is_watched = false;
            return Step::Over;
        };
        if state.spooled.is_none() && seen.replace(state.taken) != Some(state.taken) {
            return Step::Patience;
        }
        let spooled = state.spooled.get_or_insert_with(|| Box::new(Spooled::new(quota.clone())));
        let Some(write) = spooled.write(state.inbox.len()) else {
            self.forget_empty_file(key);
            return Step::Refused;
        };
        let frames = std::mem::take(&mut state.inbox);
        self.collect(key);
        Step::Write(Chunk { frames, write })
    }

    /// A write that [`Requests::spool`] asked for is over. `frames` are what was to be written, if
    /// it has failed. Returns whether it has not.
    pub fn spooled(&mut self, name: RequestName, written: Written, mut frames: Vec<u8>) -> bool {
        let RequestName { key, number } = name;
        let state = &mut self.states[key];
        let Some(spooled) = state.spooled.as_mut().filter(|_| state.number == number) else {
            return true;
        };
        let is_written = spooled.wrote(written);
        if !is_written {
            frames.append(&mut state.inbox);
            state.inbox = frames;
        }
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
        self.forget_empty_file(key);
        is_written
    }

    /// Drops the file of a response if it has nothing to take.
    pub fn forget_empty_file(&mut self, key: usize) {
        let state = &mut self.states[key];
        if state.spooled.as_ref().is_some_and(|spooled| spooled.is_over()) {
            state.spooled = None;
        }
    }
}
