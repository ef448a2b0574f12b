//! Fronts and their event loops, and the requests that come to them.

use std::task::{Context, Poll};

use tokamak_sys::control::Status;
use tokamak_sys::queue::Outcome;
use tokamak_upstream::body::Body;
use tokamak_upstream::shm::{Event, Refused, WorkerError as Wrong};

use super::{BESIDE_FAULTS, MILLI, World};
use crate::front::{EventLoop, Running, Turned};
use crate::requests::{End, Request};
use crate::wire::ring;
use crate::worker::record;

impl World {
    pub(super) fn turn_front(&mut self, index: usize) {
        let now = self.clock.get();
        let (is_deaf, random) = (now < self.deaf, &mut self.random);
        let mut drops = || is_deaf && random.chance(500);
        let front = &mut self.fronts[index];
        let before = front.earlier.len();
        let turned = front.turn(now, &mut drops);
        front.speak(&mut drops);
        self.ran.renewals += (front.earlier.len() - before) as u64;
        let pid = front.pid;
        match turned {
            Turned::Nothing => {}
            Turned::Exits(code) => self.die(pid, Status::Code(code)),
            Turned::Buried(number, instance) => {
                let key = front.key(number);
                // Its event loops have yet to look.
                for (other, dead, until) in &mut self.unburied {
                    if Some(*other) == key && *dead == instance {
                        *until = now + BESIDE_FAULTS;
                    }
                }
                let lives = self
                    .workers
                    .iter()
                    .any(|other| Some(other.key) == key && other.instance == instance);
                if lives {
                    self.fail(format!("worker {instance} lives and the front is told it is dead"));
                }
            }
            Turned::Forgotten(number) => {
                let key = front.key(number);
                if self.workers.iter().any(|worker| Some(worker.key) == key) {
                    self.fail(format!("workers of the forgotten pool {number} live"));
                }
            }
        }
    }

    pub(super) fn turn_loop(&mut self, index: usize, number: usize) {
        let now = self.clock.get();
        let front = &mut self.fronts[index];
        if !front.is_ready {
            front.loops[number].at = now + MILLI;
            return;
        }
        if !front.loops[number].is_parked {
            // The runtime has nothing to do: it falls asleep.
            front.loops[number].park(now);
        } else {
            front.loops[number].begin_turn(now);
            self.submit(index, number);
            self.poll(index, number);
            let event_loop = &mut self.fronts[index].loops[number];
            event_loop.at = now + self.random.between(500, 30_000);
        }
        let (is_deaf, random) = (now < self.deaf, &mut self.random);
        self.fronts[index].speak(|| is_deaf && random.chance(500));
        let front = &self.fronts[index];
        if front.drains {
            ring(&front.alarm, now + 10_000);
        }
    }

    fn submit(&mut self, index: usize, number: usize) {
        let inbox = std::mem::take(&mut self.fronts[index].loops[number].inbox);
        for request in inbox {
            self.submit_one(index, number, request);
        }
    }

    fn submit_one(&mut self, index: usize, number: usize, id: u64) {
        let now = self.clock.get();
        let front = &mut self.fronts[index];
        let request = &mut self.requests[id as usize];
        let place = front.queues.iter().position(|queue| queue.site == request.site);
        let place = place.expect("each site has a pool");
        request.key = front.queues[place].key;
        let event_loop = &mut front.loops[number];
        match event_loop.gates[place].submit_at(&record(id), Body::Empty, now) {
            Ok(exchange) => {
                request.tries += 1;
                request.queued = now;
                request.is_taken = false;
                event_loop.running.push(Running { number: id, exchange, body: Vec::new() });
            }
            Err((Refused::Full, _)) => request.end = Some(End::Refused),
            Err((Refused::TooLarge, _)) => self.fail(format!("request {id} is too large")),
        }
    }

    fn poll(&mut self, index: usize, number: usize) {
        let now = self.clock.get();
        let mut at = 0;
        while at < self.fronts[index].loops[number].running.len() {
            let event_loop = &mut self.fronts[index].loops[number];
            let id = event_loop.running[at].number;
            if self.requests[id as usize].leaves <= now {
                trace!(self, "the client of request {id} leaves");
                self.requests[id as usize].end = Some(End::Left);
                self.fronts[index].loops[number].running.swap_remove(at);
                continue;
            }
            match next_event(event_loop, at) {
                Poll::Pending => at += 1,
                Poll::Ready(Ok(Event::Body(bytes))) => {
                    event_loop.running[at].body.extend_from_slice(&bytes);
                }
                Poll::Ready(Ok(Event::End(outcome))) => {
                    let done = event_loop.running.swap_remove(at);
                    self.answered(index, done, outcome);
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(wrong)) => {
                    event_loop.running.swap_remove(at);
                    self.went_wrong(index, number, id, wrong);
                }
            }
        }
    }

    fn answered(&mut self, index: usize, done: Running, outcome: Outcome) {
        let id = done.number;
        let request = &mut self.requests[id as usize];
        let is_sound = !self.spoiled.contains(&request.key);
        let words: Vec<u64> = done
            .body
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
            .collect();
        let is_whole = outcome == Outcome::Complete && words.len() == 3;
        request.end = Some(if is_whole { End::Answered } else { End::Failed });
        let (key, version) = (request.key, self.fronts[index].version);
        if is_sound && is_whole && words != [id, key, version] {
            self.fail(format!("request {id} has the response {words:?}, version {version}"));
        } else if is_sound && outcome == Outcome::Complete && !is_whole {
            self.fail(format!("request {id} is complete without a response"));
        }
    }

    fn went_wrong(&mut self, index: usize, number: usize, id: u64, wrong: Wrong) {
        trace!(self, "request {id}: {wrong}");
        let request = &mut self.requests[id as usize];
        let is_sound = !self.spoiled.contains(&request.key);
        match wrong {
            Wrong::Waited => {
                request.end = Some(End::Refused);
                if request.is_taken && is_sound {
                    self.fail(format!("request {id} is refused though a worker has it"));
                }
            }
            // As the front does: nothing of the response has been sent.
            Wrong::Died { answered: false, .. } if request.is_get && request.tries < 2 => {
                self.submit_one(index, number, id);
            }
            Wrong::Died { .. } => request.end = Some(End::Failed),
            Wrong::Malformed | Wrong::Spool => {
                request.end = Some(End::Failed);
                if is_sound {
                    self.fail(format!("the response to request {id} is damaged"));
                }
            }
        }
    }

    pub(super) fn arrive(&mut self) {
        let now = self.clock.get();
        let pause = if self.burst > 0 { 100_000 } else { 120 * MILLI };
        self.burst = self.burst.saturating_sub(1);
        self.next_client = now + self.random.between(1_000, pause);
        let accepting = self.fronts.iter().enumerate().filter(|(_, front)| front.accepts);
        let accepting: Vec<usize> = accepting.map(|(index, _)| index).collect();
        if accepting.is_empty() {
            return;
        }
        let index = self.random.pick(&accepting);
        let event_loop = self.random.below(self.loop_count as u64) as usize;
        let leaves = if self.random.chance(30) {
            now + self.random.between(10_000, 20 * MILLI)
        } else {
            u64::MAX
        };
        let id = self.requests.len() as u64;
        self.requests.push(Request {
            site: self.random.below(self.site_count as u64) as usize,
            front: self.fronts[index].pid,
            event_loop,
            is_get: self.random.chance(500),
            tries: 0,
            runs: 0,
            arrived: now,
            queued: 0,
            key: 0,
            is_taken: false,
            leaves,
            end: None,
        });
        let event_loop = &mut self.fronts[index].loops[event_loop];
        event_loop.inbox.push(id);
        if event_loop.is_parked {
            event_loop.at = event_loop.at.min(now + 5_000);
        }
    }
}

fn next_event(event_loop: &mut EventLoop, at: usize) -> Poll<Result<Event, Wrong>> {
    let waker = event_loop.waker();
    let mut context = Context::from_waker(&waker);
    event_loop.running[at].exchange.poll_event(&mut context)
}
