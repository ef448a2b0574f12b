//! What the admin listener asks the supervisor: a bounded number of commands at a time, and for all
//! probes together one question now and then.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Semaphore, oneshot};
use tokio::time::{Instant, timeout};

use super::{Ask, Reply};

/// Commands that the supervisor has not answered yet; the supervisor takes twice as many before it
/// calls a front hostile. A client that goes away does not take back what it has asked.
const AT_ONCE: usize = 16;
/// How long an answer to a probe holds for others. With a tenth, who probes without a token could
/// keep the supervisor busy; with ten times more, a balancer would learn too late.
const HOLDS: Duration = Duration::from_millis(100);
/// How long a probe waits. Balancers wait for a few seconds as a rule.
const PROBE_LIMIT: Duration = Duration::from_secs(2);
/// How long a command keeps its place without an answer. The supervisor answers or refuses all
/// within its own limits, of which that of a slow reload is the longest; only if an answer was lost
/// does this one end the wait. With a tenth, it would end a reload of an application that boots
/// slowly.
const COMMAND_LIMIT: Duration = Duration::from_secs(1800);

/// The way to the supervisor.
pub struct Questions {
    ask: Ask,
    room: Arc<Semaphore>,
    ready: Arc<Mutex<Option<(Instant, String)>>>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// Others wait for answers.
    Busy,
    /// The supervisor is silent, or gone.
    Silent,
}

impl Questions {
    /// Asks over this way.
    pub fn new(ask: Ask) -> Questions {
        Questions { ask, room: Arc::new(Semaphore::new(AT_ONCE)), ready: Arc::default() }
    }

    /// Passes a command on, and waits for the answer.
    ///
    /// # Errors
    /// Fails if too many wait, or the supervisor is gone.
    pub async fn command(&self, line: String) -> Result<String, NoAnswer> {
        match self.reply(line).await? {
            Reply::Text(answer) => Ok(answer),
            // Not to a command whose answer is text.
            Reply::Stream(_) => Err(NoAnswer::Silent),
        }
    }

    /// The same, of a command that another process may answer.
    ///
    /// # Errors
    /// As [`Questions::command`].
    pub async fn reply(&self, line: String) -> Result<Reply, NoAnswer> {
        let permit = self.room.clone().try_acquire_owned().map_err(|_| NoAnswer::Busy)?;
        let answer = self.send(line);
        // In a task of its own: the place is taken until the answer comes, even if the client goes.
        let waiting = tokio::spawn(async move {
            let answer = timeout(COMMAND_LIMIT, answer).await;
            drop(permit);
            answer
        });
        match waiting.await {
            Ok(Ok(Ok(answer))) => Ok(answer),
            _ => Err(NoAnswer::Silent),
        }
    }

    /// The answer to `ready`.
    ///
    /// # Errors
    /// Fails if the supervisor does not answer in time.
    pub async fn ready(&self) -> Result<String, NoAnswer> {
        let asked = async {
            let mut last = self.ready.clone().lock_owned().await;
            if let Some((_, answer)) = last.as_ref().filter(|(at, _)| at.elapsed() < HOLDS) {
                return Ok(answer.clone());
            }
            let answer = self.send("ready".to_owned());
            // In a task of its own, which keeps the lock: a client that goes away does not make
            // the next one ask again.
            let waiting = tokio::spawn(async move {
                let Reply::Text(answer) = timeout(PROBE_LIMIT, answer).await.ok()?.ok()? else {
                    return None;
                };
                *last = Some((Instant::now(), answer.clone()));
                Some(answer)
            });
            waiting.await.ok().flatten().ok_or(NoAnswer::Silent)
        };
        timeout(PROBE_LIMIT, asked).await.unwrap_or(Err(NoAnswer::Silent))
    }

    fn send(&self, line: String) -> oneshot::Receiver<Reply> {
        let (sender, receiver) = oneshot::channel();
        (self.ask)(line, sender);
        receiver
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex as PlainMutex;

    use super::super::Answer;
    use super::*;

    type Received = Arc<PlainMutex<Vec<(String, Answer)>>>;

    fn questions() -> (Arc<Questions>, Received) {
        let asked = Received::default();
        let to = asked.clone();
        let ask = move |line, answer| to.lock().unwrap().push((line, answer));
        (Arc::new(Questions::new(Arc::new(ask))), asked)
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_go_away_do_not_ask_without_end() {
        let (questions, asked) = questions();
        for _ in 0..AT_ONCE {
            let short = timeout(Duration::from_millis(1), questions.command("status".into()));
            assert!(short.await.is_err(), "it is not answered");
        }
        assert_eq!(questions.command("status".into()).await, Err(NoAnswer::Busy));
        assert_eq!(asked.lock().unwrap().len(), AT_ONCE);
        for (_, answer) in asked.lock().unwrap().drain(..) {
            let _ = answer.send(Reply::Text("ok".into()));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        let short = timeout(Duration::from_millis(1), questions.command("status".into()));
        assert!(short.await.is_err(), "there is room again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_answer_takes_its_place_for_a_limited_time() {
        let (questions, asked) = questions();
        assert_eq!(questions.command("status".into()).await, Err(NoAnswer::Silent));
        assert_eq!((asked.lock().unwrap().len(), questions.room.available_permits()), (1, AT_ONCE));
    }

    #[tokio::test(start_paused = true)]
    async fn probes_whose_clients_go_away_share_one_question_too() {
        let (questions, asked) = questions();
        for _ in 0..300 {
            let short = timeout(Duration::from_millis(1), questions.ready());
            assert!(short.await.is_err(), "it is not answered");
        }
        let (_, answer) = asked.lock().unwrap().pop().unwrap();
        assert!(asked.lock().unwrap().is_empty());
        answer.send(Reply::Text("ok ready".into())).unwrap();
        assert_eq!(questions.ready().await, Ok("ok ready".into()));
    }

    #[tokio::test(start_paused = true)]
    async fn probes_share_one_question_and_are_always_answered() {
        let (questions, asked) = questions();
        let all: Vec<_> = (0..1000)
            .map(|_| {
                let questions = questions.clone();
                tokio::spawn(async move { questions.ready().await })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let (line, answer) = asked.lock().unwrap().pop().unwrap();
        assert_eq!((&line[..], asked.lock().unwrap().len()), ("ready", 0));
        answer.send(Reply::Text("ok ready".into())).unwrap();
        for one in all {
            assert_eq!(one.await.unwrap(), Ok("ok ready".into()));
        }
        tokio::time::sleep(HOLDS).await;
        assert_eq!(questions.ready().await, Err(NoAnswer::Silent));
    }
}
