//! The connection to the supervisor.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokamak_sys::channel::Channel;
use tokamak_sys::control::{self, FromAcme, Heard, StateFile, ToAcme};
use tokamak_tls::{Challenge, Credentials};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::error::Error;

/// How long the supervisor may take to answer. Fronts that are well have challenges within
/// milliseconds; a front that is stuck is replaced within ten seconds.
const LIMIT: Duration = Duration::from_secs(30);

/// Pause before the line is tried again when it is full.
const PAUSE: Duration = Duration::from_millis(10);

type Outcome = Result<(), String>;

/// The connection to the supervisor.
#[derive(Clone)]
pub struct SupervisorLink(Arc<Inner>);

struct Inner {
    channel: Channel,
    /// Names for which handshakes wait.
    wants: UnboundedSender<String>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    last: u32,
    answers: HashMap<u32, oneshot::Sender<Outcome>>,
}

impl SupervisorLink {
    /// Over this channel. A thread hears the answers, since a channel waits for itself only, and
    /// passes on the names for which handshakes wait; the other value ends when the supervisor is
    /// gone.
    ///
    /// # Errors
    /// Fails if the system has no more threads.
    pub fn over(
        channel: Channel,
        wants: UnboundedSender<String>,
    ) -> std::io::Result<(SupervisorLink, oneshot::Receiver<()>)> {
        let line = SupervisorLink(Arc::new(Inner { channel, wants, waiting: Mutex::default() }));
        let (gone, is_gone) = oneshot::channel();
        let ear = line.clone();
        std::thread::Builder::new().spawn(move || {
            ear.listen();
            // The receiver may have ended as well.
            let _ = gone.send(());
        })?;
        Ok((line, is_gone))
    }

    fn listen(&self) {
        loop {
            let (number, outcome) = match control::receive_within::<ToAcme>(&self.0.channel, None) {
                Ok(Heard::Message(ToAcme::Presented { number }, _)) => (number, Ok(())),
                Ok(Heard::Message(ToAcme::Stored { number, outcome }, _)) => (number, outcome),
                Ok(Heard::Message(ToAcme::Want { name }, _)) => {
                    // Who would want it may have gone as well.
                    let _ = self.0.wants.send(name);
                    continue;
                }
                Ok(Heard::Nothing) => continue,
                Ok(Heard::Closed) | Err(_) => return,
            };
            if let Some(answer) = self.waiting(|waiting| waiting.answers.remove(&number)) {
                // Who asked may have given up.
                let _ = answer.send(outcome);
            }
        }
    }

    /// Lets authorities find these challenges, and no others. Returns when all fronts have them.
    ///
    /// # Errors
    /// Fails if that takes too long.
    pub async fn present(&self, challenges: Vec<Challenge>) -> Result<(), Error> {
        let challenges = Credentials { challenges, ..Credentials::default() }.encode();
        self.ask(|number| FromAcme::Present { number, challenges }).await
    }

    /// Keeps a file.
    ///
    /// # Errors
    /// Fails if the supervisor cannot write it, or does not want to.
    pub async fn store(&self, file: StateFile, bytes: Vec<u8>) -> Result<(), Error> {
        self.ask(|number| FromAcme::Store { number, file, bytes }).await
    }

    /// Writes a line into the error log.
    pub async fn note(&self, is_problem: bool, text: String) {
        // Without a connection to the supervisor, nothing can be sent.
        let _ = self.send(&FromAcme::Note { is_problem, text }).await;
    }

    /// Says how a name stands.
    pub async fn name(&self, name: &str, next: u64, failure: String) {
        let _ = self.send(&FromAcme::Name { name: name.to_owned(), next, failure }).await;
    }

    /// Says that an order begins, or that it is over and what has come of it is stored.
    pub async fn ordering(&self, is_under_way: bool) {
        let _ = self.send(&FromAcme::Ordering { is_under_way }).await;
    }

    /// Says that a handshake waits in vain for a certificate for this name.
    pub async fn declined(&self, name: &str) {
        let _ = self.send(&FromAcme::Declined { name: name.to_owned() }).await;
    }

    async fn ask(&self, message: impl FnOnce(u32) -> FromAcme) -> Result<(), Error> {
        let (answer, answered) = oneshot::channel();
        let number = self.waiting(|waiting| {
            waiting.last = waiting.last.wrapping_add(1);
            waiting.answers.insert(waiting.last, answer);
            waiting.last
        });
        let asked = async {
            self.send(&message(number)).await.map_err(|error| error.to_string())?;
            answered.await.unwrap_or_else(|_| Err("the supervisor is gone".into()))
        };
        let outcome = timeout(LIMIT, asked).await;
        self.waiting(|waiting| waiting.answers.remove(&number));
        match outcome {
            Ok(outcome) => outcome.map_err(Error::here),
            Err(_) => Err(Error::here("the supervisor or a front does not answer")),
        }
    }

    async fn send(&self, message: &FromAcme) -> std::io::Result<()> {
        loop {
            match control::send(&self.0.channel, message, &[]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => sleep(PAUSE).await,
                sent => return sent,
            }
        }
    }

    fn waiting<T>(&self, work: impl FnOnce(&mut Waiting) -> T) -> T {
        work(&mut self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
