//! Clients of the admin listener, who ask through a front.

use tokamak_sys::control::{ANSWER_PART, ToFront};

use super::Supervisor;
use crate::asker::Asker;
use crate::control_socket::Command;
use crate::fleet::Outside;
use crate::generation::Life;
use crate::pool::Pool;

impl Supervisor {
    /// A front passes a command on. It may not end the server: a front faces the network.
    pub(super) fn hear_admin(&mut self, asker: Asker, line: &str, now: u64) {
        match Command::parse(line) {
            Some(Command::Stop) | None => {
                self.host.answer(asker, "error unknown command\n".into());
            }
            Some(command) => self.command(asker, command, now),
        }
    }

    /// Sends the answers that have come to clients of fronts.
    pub(super) fn answer_fronts(&mut self) {
        for (generation, question, answer) in std::mem::take(&mut self.host.for_fronts) {
            let mut fronts = self.fleet.generations.iter_mut();
            // If it is gone, so is its client.
            let Some(front) = fronts.find(|other| other.number == generation) else { continue };
            let mut rest = &answer[..];
            loop {
                let (part, others) = rest.split_at(part_of(rest));
                let is_last = others.is_empty();
                let part = part.to_owned();
                front.tell_front(&ToFront::Answer { question, part, is_last }, Vec::new());
                if is_last {
                    break;
                }
                rest = others;
            }
        }
    }

    /// Whether requests to all sites can be answered, and why not.
    pub(super) fn readiness(&self, now: u64) -> Result<(), String> {
        if self.fleet.stopping {
            return Err("the server is stopping".into());
        }
        let serves = self.fleet.current().filter(|current| current.life() == Life::Serving);
        let Some(current) = serves else { return Err("no front serves".into()) };
        let cannot = |pool: &&Pool| !pool.can_serve(now);
        match current.pools().find(cannot) {
            None => Ok(()),
            Some(pool) => {
                let why = pool.failure().unwrap_or("they still start");
                Err(format!("site {} has no workers: {why}", pool.site.name))
            }
        }
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
}
