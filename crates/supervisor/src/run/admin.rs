//! Clients of the admin listener, who ask through a front.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tokamak_sys::control::{ANSWER_PART, ToFront};

use super::Supervisor;
use crate::control_socket::Command;
use crate::fleet::Outside;
use crate::generation::{Generation, Life};
use crate::log::{self, Level};
use crate::pool::Pool;
use crate::watch::since;

/// Parts of answers that may wait in the line to a front. A front that does not read is killed when
/// the line has 4096 messages: answers to clients must never be the reason.
const AHEAD: usize = 64;
/// Time that a front has for taking an answer: as long as its client. After that the answer is
/// dropped. The question stays open until the front has room for hearing that.
const LIMIT: Duration = Duration::from_secs(10);

/// An answer that a front is to get.
pub(super) struct Owed {
    /// The generation of the front.
    generation: u32,
    /// What it asked.
    question: u32,
    /// `None`: the front has not taken it in time.
    answer: Option<String>,
    /// Bytes of it that are on their way.
    sent: usize,
    /// Since when it is there.
    since: Option<u64>,
}

impl Supervisor {
    /// A front passes a command on.
    pub(super) fn hear_admin(&mut self, generation: u32, question: u32, line: String, now: u64) {
        let Err(complaint) = self.front_questions.add(generation, question, line, now) else {
            return;
        };
        if let Some(complaint) = complaint {
            log::line(Level::Error, format_args!("{complaint}"));
        }
        let mut fronts = self.fleet.generations.iter_mut();
        let front = fronts.find(|other| other.number == generation);
        // One that does not read gets nothing; its own limit ends the wait.
        if let Some(front) = front.filter(|front| front.backlog() < AHEAD) {
            let part = "error too many requests wait for an answer; try again".to_owned();
            front.send_to_front(&ToFront::Answer { question, part, is_last: true }, Vec::new());
        }
    }

    /// Does what fronts have asked for, as far as its time has come. They may not end the server: a
    /// front faces the network.
    pub(super) fn run_admin_commands(&mut self, now: u64) {
        while let Some((asker, line)) = self.front_questions.take(now) {
            match Command::parse(&line) {
                Some(Command::Stop) | None => {
                    self.host.answer(asker, "error unknown command\n".into());
                }
                Some(command) => self.command(asker, command, now),
            }
        }
        for generation in &mut self.fleet.generations {
            if self.front_questions.owes(generation.number) {
                generation.owes_an_answer(now);
            }
        }
    }

    /// Sends the answers that have come to clients of fronts, as far as there is room.
    pub(super) fn answer_fronts(&mut self, now: u64) {
        let generations = &mut self.fleet.generations;
        self.host.for_fronts.retain_mut(|owed| {
            let mut fronts = generations.iter_mut();
            // If it is gone, so is its client.
            let Some(front) = fronts.find(|other| other.number == owed.generation) else {
                return false;
            };
            owed.age(now);
            let is_sent = owed.send(front);
            if is_sent {
                self.front_questions.is_answered(owed.generation, owed.question);
            }
            !is_sent
        });
        self.front_questions.keep(|number| generations.iter().any(|other| other.number == number));
    }

    /// A socket for a process that answers a question of a front by itself; the front gets the
    /// other end. None: the front has gone, and its client with it.
    pub(super) fn stream_to_front(
        &mut self,
        generation: u32,
        question: u32,
    ) -> Result<Option<OwnedFd>, String> {
        let mut fronts = self.fleet.generations.iter_mut();
        let Some(front) = fronts.find(|other| other.number == generation) else { return Ok(None) };
        if front.backlog() >= AHEAD {
            return Err("too many requests wait for an answer; try again".into());
        }
        let (ours, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
        front.send_to_front(&ToFront::Stream { question }, vec![theirs.into()]);
        self.front_questions.is_answered(generation, question);
        Ok(Some(ours.into()))
    }

    /// Whether requests to all sites can be answered, and why not.
    pub(super) fn readiness(&self, now: u64) -> Result<(), String> {
        if self.fleet.stopping || self.drain_at.is_some() {
            return Err("the server is stopping".into());
        }
        let serves = self.fleet.current().filter(|current| current.life() == Life::Serving);
        let Some(current) = serves else { return Err("no front serves".into()) };
        let cannot = |pool: &&Pool| !pool.can_serve(now);
        match current.pools().find(cannot) {
            None => Ok(()),
            Some(pool) => {
                Err(format!("site {} has no workers: {}", pool.site.name, pool.obstacle()))
            }
        }
    }
}

impl Owed {
    /// The answer to this question of the front of this generation.
    pub(super) fn new(generation: u32, question: u32, answer: String) -> Owed {
        Owed { generation, question, answer: Some(answer), sent: 0, since: None }
    }

    /// Drops the answer if the front has had its time.
    fn age(&mut self, now: u64) {
        let is_late = since(*self.since.get_or_insert(now), now) > LIMIT;
        if is_late && self.answer.take().is_some() {
            let (seconds, number) = (LIMIT.as_secs(), self.generation);
            log::line(
                Level::Warn,
                format_args!(
                    "the front of generation {number} has not taken an answer for a client of the \
                        admin listener within {seconds} s: the answer is dropped"
                ),
            );
        }
    }

    /// Sends as much of the answer as the front has room for. True: nothing is left to send.
    fn send(&mut self, front: &mut Generation) -> bool {
        while front.backlog() < AHEAD {
            let (message, is_last) = self.next();
            front.send_to_front(&message, Vec::new());
            if is_last {
                return true;
            }
        }
        false
    }

    /// The next message, and whether it is the last one.
    fn next(&mut self) -> (ToFront, bool) {
        let question = self.question;
        let Some(answer) = &self.answer else { return (ToFront::Dropped { question }, true) };
        let (part, rest) = answer[self.sent..].split_at(part_of(&answer[self.sent..]));
        let (part, is_last) = (part.to_owned(), rest.is_empty());
        self.sent += part.len();
        (ToFront::Answer { question, part, is_last }, is_last)
    }
}

/// How much of this goes into one message.
fn part_of(text: &str) -> usize {
    let most = text.len().min(ANSWER_PART);
    (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_end_between_characters() {
        assert_eq!(part_of(""), 0);
        assert_eq!(part_of("abc"), 3);
        let long = "a".repeat(ANSWER_PART - 1) + "äb";
        assert_eq!(part_of(&long), ANSWER_PART - 1);
    }

    /// The front hears of it, so that its client does not wait.
    #[test]
    fn an_answer_that_is_not_taken_in_time_ends_all_the_same() {
        let mut owed = Owed::new(1, 7, "a".repeat(ANSWER_PART + 1));
        let begin = 1;
        owed.age(begin);
        assert!(!owed.next().1, "there is a second part");
        owed.age(begin + LIMIT.as_nanos() as u64);
        assert!(owed.answer.is_some(), "its time is not over");
        owed.age(begin + LIMIT.as_nanos() as u64 + 1);
        assert_eq!(owed.next(), (ToFront::Dropped { question: 7 }, true));
    }
}
