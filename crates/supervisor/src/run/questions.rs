//! Questions to the front about the addresses of FastCGI applications and the content cache, and
//! what becomes of their answers. Only the front knows their state, and the supervisor does not
//! block on it: a client is answered when the front has, or when that takes too long.

use std::time::Duration;

use tokamak_metrics::CacheFigures;
use tokamak_sys::control::{AddressAction, AddressStatus, FromFront, ToFront};

use super::Supervisor;
use crate::asker::Asker;
use crate::banner;
use crate::change::Change;
use crate::control_socket::{PurgeCommand, UpstreamCommand};
use crate::fleet::Outside;
use crate::generation::{Generation, Life};
use crate::status::{self, Report};
use crate::watch::since;

/// How long the front may take. A front that is well answers within a millisecond; a tenth could
/// fail on a machine that is busy, ten times more would leave `tokamak status` without an answer
/// for that long when the front is stuck.
const LIMIT: Duration = Duration::from_secs(2);

/// What a client wants to know.
#[derive(Debug)]
pub(super) enum Query {
    /// The state of everything.
    Status { json: bool },
    /// The addresses of upstreams, perhaps after a change.
    Upstreams(UpstreamCommand),
    /// Something is to go from the content cache.
    Purge(PurgeCommand),
}

/// A question that the front has not answered yet.
#[derive(Debug)]
struct Question {
    number: u32,
    generation: u32,
    client: Asker,
    query: Query,
    heard: Heard,
    asked: u64,
}

/// What the front has said about a question so far.
#[derive(Debug, Default)]
pub(super) struct Heard {
    upstreams: Vec<(u16, AddressStatus)>,
    cache: Option<CacheFigures>,
    /// Responses that were removed.
    purged: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Questions {
    open: Vec<Question>,
    last: u32,
}

impl Questions {
    /// Numbers are not used again soon, and 0 never is.
    fn next(&mut self) -> u32 {
        self.last = self.last.checked_add(1).unwrap_or(1);
        self.last
    }

    fn heard(&mut self, number: u32) -> Option<&mut Heard> {
        self.open.iter_mut().find(|open| open.number == number).map(|open| &mut open.heard)
    }
}

impl Supervisor {
    /// A client wants something that only the front knows.
    pub(super) fn ask_front(&mut self, client: Asker, query: Query, now: u64) {
        let Some(generation) = self.fleet.current() else {
            let gone = "error the front died again and again; the next one starts soon\n";
            return self.host.answer(client, gone.into());
        };
        let generation = generation.number;
        let Some(at) = self.fleet.generations.iter().position(|other| other.number == generation)
        else {
            return;
        };
        let change = match &query {
            Query::Upstreams(UpstreamCommand { name: Some(name), change, .. }) => {
                let Some(upstream_index) = self.fleet.generations[at].upstream_index(name) else {
                    return self
                        .host
                        .answer(client, format!("error there is no upstream `{name}`\n"));
                };
                change.as_ref().map(|change| change_of(name, change).change(upstream_index))
            }
            _ => None,
        };
        let number = self.questions.next();
        let question =
            Question { number, generation, client, query, heard: Heard::default(), asked: now };
        if self.fleet.generations[at].front().is_none() {
            return self.give_up(question, now);
        }
        let message = match &question.query {
            Query::Purge(PurgeCommand { what, .. }) => {
                ToFront::Purge { question: number, what: what.clone() }
            }
            Query::Status { .. } | Query::Upstreams(_) => {
                ToFront::Upstreams { question: number, change }
            }
        };
        self.fleet.generations[at].send_to_front(&message, Vec::new());
        if let Query::Purge(PurgeCommand { what, .. }) = &question.query {
            // Generations that end still answer requests, and one that begins has the old pages
            // already.
            let message = ToFront::Purge { question: 0, what: what.clone() };
            for other in
                self.fleet.generations.iter_mut().filter(|other| other.number != generation)
            {
                other.send_to_front(&message, Vec::new());
            }
        }
        self.questions.open.push(question);
    }

    /// The front has said something about a question.
    pub(super) fn hear_answer(&mut self, message: FromFront, now: u64) {
        match message {
            FromFront::AddressStatus { question, upstream, status } => {
                if let Some(heard) = self.questions.heard(question) {
                    heard.upstreams.push((upstream, status));
                }
            }
            FromFront::Cache { question, figures } => {
                if let Some(heard) = self.questions.heard(question) {
                    heard.cache = Some(figures);
                }
            }
            FromFront::Purged { question, count } => {
                if let Some(heard) = self.questions.heard(question) {
                    heard.purged = count;
                }
            }
            FromFront::Answered { question, outcome } => {
                let Some(at) = self.questions.open.iter().position(|open| open.number == question)
                else {
                    return;
                };
                let open = self.questions.open.remove(at);
                if outcome.is_ok() {
                    self.remember(&open);
                }
                self.finish(open, outcome, now);
            }
            _ => {}
        }
    }

    /// Answers those whose front does not.
    pub(super) fn give_up_questions(&mut self, now: u64) {
        let late = |open: &mut Question| since(open.asked, now) > LIMIT;
        for open in self.questions.open.extract_if(.., late).collect::<Vec<_>>() {
            self.give_up(open, now);
        }
    }

    fn give_up(&mut self, open: Question, now: u64) {
        let outcome = match open.query {
            // The rest is known all the same, and wanted most just then.
            Query::Status { .. } => Ok(()),
            Query::Upstreams(_) | Query::Purge(_) => {
                Err("the front does not answer; try again".into())
            }
        };
        self.finish(open, outcome, now);
    }

    fn finish(&mut self, open: Question, outcome: Result<(), String>, now: u64) {
        let Some(generation) =
            self.fleet.generations.iter().find(|other| other.number == open.generation)
        else {
            // It has ended meanwhile. To ask its successor does no harm: a change that was made
            // twice is made.
            return self.ask_front(open.client, open.query, now);
        };
        let answer = match outcome {
            Err(wrong) => format!("error {wrong}\n"),
            Ok(()) => match &open.query {
                Query::Status { json } => {
                    let report = self.report(generation, &open.heard, now);
                    if *json {
                        format!("ok\n{}\n", status::json(&report))
                    } else {
                        format!("ok\n{report}")
                    }
                }
                Query::Upstreams(query) => {
                    let heard = &open.heard.upstreams;
                    let upstreams =
                        status::upstreams(generation.server(), query.name.as_deref(), heard);
                    if query.json {
                        format!("ok\n{}\n", status::json(&upstreams))
                    } else {
                        format!("ok\n{upstreams}")
                    }
                }
                Query::Purge(PurgeCommand { json, .. }) => match open.heard.purged {
                    purged if *json => format!("ok\n{{\"removed\":{purged}}}\n"),
                    1 => "ok\n1 response was removed\n".into(),
                    purged => format!("ok\n{purged} responses were removed\n"),
                },
            },
        };
        self.host.answer(open.client, answer);
    }

    /// A change was made: all fronts that serve, or will, are to have it.
    fn remember(&mut self, open: &Question) {
        let Query::Upstreams(UpstreamCommand { name: Some(name), change: Some(change), .. }) =
            &open.query
        else {
            return;
        };
        let change = change_of(name, change);
        self.fleet.changes.add(change.clone());
        let has_future =
            |other: &&mut Generation| !matches!(other.life(), Life::Draining(_) | Life::Ending(_));
        for generation in self.fleet.generations.iter_mut().filter(has_future) {
            generation.change(&change, generation.number == open.generation);
        }
    }

    /// The supervisor's own metrics: it knows them without asking another process.
    pub(super) fn metrics(&mut self, now: u64) -> String {
        self.fleet.generations.iter_mut().for_each(Generation::measure);
        let Some(generation) = self.fleet.current() else {
            return "error no front serves\n".into();
        };
        let draining = self.draining_before(generation);
        let mut samples = status::metrics(generation, draining, self.started, now);
        status::add_certificates(&self.acme.names, &mut samples);
        format!("ok\n{}", samples.to_lines())
    }

    /// Generations that are older than this one.
    fn draining_before(&self, generation: &Generation) -> usize {
        let ending = |other: &&Generation| other.number < generation.number;
        self.fleet.generations.iter().filter(ending).count()
    }

    fn report(&self, generation: &Generation, heard: &Heard, now: u64) -> Report {
        let urls = banner::urls(&self.host.with_real_addresses(generation.server()), |_| true);
        let draining = self.draining_before(generation);
        let Heard { upstreams, cache, .. } = heard;
        let report = Report::new(generation, upstreams, *cache, urls, self.started, draining, now);
        let certificates = status::certificates(&self.acme.names);
        Report { admin: self.host.admin.address(), certificates, ..report }
    }
}

fn change_of(upstream: &str, (address, action): &(String, AddressAction)) -> Change {
    Change { upstream: upstream.to_owned(), address: address.clone(), action: *action }
}
