//! The admin listener of the front: its questions go to the supervisor, and the answers come back
//! over the same line.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokamak_config::{Admin, AdminAddress};
use tokamak_front::{Access, AdminStart, Answer, Reply};
use tokamak_sys::channel::Channel;
use tokamak_sys::control::FromFront;

use super::front::say_aside;

/// The answer to a question that has not reached the supervisor.
const LOST: &str = "error the supervisor is behind, or the system has no more threads; try again";

/// The questions that the supervisor has not answered yet.
#[derive(Clone, Default)]
pub struct Questions(Arc<Mutex<Open>>);

#[derive(Default)]
struct Open {
    last: u32,
    /// Who waits, and what has come of the answer so far.
    waiting: BTreeMap<u32, (Answer, String)>,
}

impl Questions {
    /// What the front needs for its admin listener.
    pub fn listener(&self, (admin, socket): (Admin, OwnedFd), line: Arc<Channel>) -> AdminStart {
        let access = match (admin.address, admin.token) {
            (AdminAddress::Unix(_), _) => Access::File,
            (AdminAddress::Tcp(_), Some(token)) => Access::Token(token),
            (AdminAddress::Tcp(_), None) => Access::Local,
        };
        let questions = self.clone();
        let ask = move |command, answer| {
            let question = questions.add(answer);
            let questions = questions.clone();
            let lost = move || questions.hear(question, LOST, true);
            say_aside(&line, FromFront::Asks { question, command }, lost);
        };
        AdminStart { socket, access, ask: Arc::new(ask) }
    }

    /// A part of an answer has come.
    pub fn hear(&self, question: u32, part: &str, is_last: bool) {
        let mut open = self.open();
        if let Some((_, text)) = open.waiting.get_mut(&question) {
            text.push_str(part);
        }
        if is_last && let Some((answer, text)) = open.waiting.remove(&question) {
            // Its client may have gone.
            let _ = answer.send(Reply::Text(text));
        }
    }

    /// Another process gives the answer, over this socket; without it there is no answer.
    pub fn hear_stream(&self, question: u32, stream: Option<OwnedFd>) {
        if let Some((answer, _)) = self.open().waiting.remove(&question)
            && let Some(stream) = stream
        {
            // If its client has gone, the other process sees the socket closed.
            let _ = answer.send(Reply::Stream(stream));
        }
    }

    /// The rest of an answer does not come: its client gets an error at once.
    pub fn forget(&self, question: u32) {
        self.open().waiting.remove(&question);
    }

    fn add(&self, answer: Answer) -> u32 {
        let mut open = self.open();
        // Questions whose clients have gone; their answers come all the same and are dropped.
        open.waiting.retain(|_, (answer, _)| !answer.is_closed());
        open.last = open.last.wrapping_add(1);
        let question = open.last;
        open.waiting.insert(question, (answer, String::new()));
        question
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // No code panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
