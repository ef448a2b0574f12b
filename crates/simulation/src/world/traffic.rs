//! Fronts and their event loops, and the requests that come to them.

use std::task::{Context, Poll};

use tokamak_sys::control::Status;
use tokamak_sys::queue::Outcome;
use tokamak_upstream::body::Body;
use tokamak_upstream::shm::{Event, Metadata, Refused, WorkerError as Wrong};

use super::{MILLI, World};
use crate::front::{EventLoop, Running, Turned};
use crate::requests::{End, Request};
use crate::wire::ring;
use crate::worker::{Worker, record};

impl World {
    pub(super) fn turn_front(&mut self, index: usize) {
        let now = self.clock.get();
        let (is_deaf, random) = (now < self.deaf, &mut self.random);
        let mut drops = || is_deaf && random.chance(500);
        let front = &mut self.fronts[index];
        let turned = front.turn(now, &mut drops);
        front.speak(&mut drops);
        let pid = front.pid;
        match turned {
            Turned::Nothing => {}
            Turned::Renewed => self.ran.renewals += 1,
            Turned::Exits(code) => self.die(pid, Status::Code(code)),
            Turned::Buried(number, instance) => {
                let Some(key) = front.key(number) else { return };
                let is_it = |other: &Worker| (other.key, other.instance) == (key, instance);
                if self.workers.iter().any(is_it) {
                    self.fail(format!("worker {instance} lives and the front is told it is dead"));
                }
                self.note_front_knows(key, Some(instance));
            }
            Turned::Forgotten(number) => {
                let Some(key) = front.key(number) else { return };
                if self.workers.iter().any(|worker| worker.key == key) {
                    self.fail(format!("workers of the forgotten pool {number} live"));
                }
                self.note_front_knows(key, None);
            }
        }
    }

    /// A front has heard that a worker of a queue is dead, or all of them.
    fn note_front_knows(&mut self, key: u64, instance: Option<u32>) {
        let now = self.clock.get();
        let is_it = |other: u32| instance.is_none_or(|instance| instance == other);
        for dead in &mut self.deaths {
            if dead.key == key && is_it(dead.instance) {
                dead.known_since.get_or_insert(now);
            }
        }
        let loops = self.fronts.iter().flat_map(|front| &front.loops);
        for running in loops.flat_map(|event_loop| &event_loop.running) {
            let request = &mut self.requests[running.number as usize];
            if request.key == key && request.taken.is_some_and(|taken| is_it(taken.instance)) {
                request.orphaned.get_or_insert(now);
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
        let event_loop = &mut front.loops[number];
        request.key = event_loop.keys[place];
        let flow = request.is_of_flow.then_some(event_loop.flow);
        let metadata = Metadata { ledger: None, flow };
        match event_loop.gates[place].submit_at(&record(id), Body::Empty, metadata, now) {
            Ok(exchange) => {
                request.tries += 1;
                request.queued = now;
                (request.taken, request.orphaned) = (None, None);
                event_loop.running.push(Running { number: id, exchange, body: Vec::new() });
            }
            Err((Refused::Full | Refused::Barren, _)) => request.end = Some(End::Refused),
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
        // As the front does.
        if request.is_get && request.tries <= wrong.repeats() {
            return self.submit_one(index, number, id);
        }
        match wrong {
            Wrong::Waited | Wrong::Barren => {
                request.end = Some(End::Refused);
                if request.taken.is_some() && is_sound {
                    self.fail(format!("request {id} is refused though a worker has it"));
                }
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
        let accepting: Vec<(usize, usize)> = (self.fronts.iter().enumerate())
            .filter(|(_, front)| front.is_ready)
            .flat_map(|(index, front)| {
                let loops = front.loops.iter().enumerate().filter(|(_, other)| other.accepts);
                loops.map(move |(number, _)| (index, number))
            })
            .collect();
        if accepting.is_empty() {
            return;
        }
        let (index, event_loop) = self.random.pick(&accepting);
        self.check_front(index, event_loop);
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
            is_of_flow: id.is_multiple_of(2),
            is_get: self.random.chance(500),
            tries: 0,
            runs: 0,
            arrived: now,
            queued: 0,
            key: 0,
            taken: None,
            orphaned: None,
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
