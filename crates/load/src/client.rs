//! The load generator: it sends each request at its time, whatever became of the others.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use tokamak_sys::proc::{self, Task};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, Semaphore};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::timeout;

use crate::alarm::Alarm;
use crate::answers::{Answer, Outcome};
use crate::connection::Io;
use crate::target::Target;

/// Time after which a thread that only waits for answers looks whether others gave up. Ten times
/// more would be seen in the length of a trial.
const LOOK: Duration = Duration::from_millis(50);

/// What holds for all requests of a trial.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Most connections at a time.
    pub connections: usize,
    /// Most time for an answer.
    pub timeout: Duration,
    /// Threads that send.
    pub threads: usize,
    /// The trial ends early when so many requests have taken longer than the time beside it.
    pub give_up: Option<(usize, Duration)>,
}

/// What a trial showed.
#[derive(Debug)]
pub struct Load {
    /// Each request that was to be sent, in the order of the threads.
    pub answers: Vec<Answer>,
    /// From the first request's time to the last one's, or to the early end.
    pub sent_for: Duration,
    /// Whether it ended early.
    pub is_cut: bool,
    /// The part of a core that the busiest sending thread had, from 0 to 1.
    pub busiest: f64,
    /// Requests that had to wait for a connection of the load generator.
    pub waited: usize,
}

/// Sends a request at each of these times, and waits for the answers.
///
/// # Errors
/// Fails if no thread or event loop can be had.
pub fn run(target: &Target, schedule: &[Duration], rules: Rules) -> io::Result<Load> {
    let threads = rules.threads.clamp(1, rules.connections.max(1));
    let mine = Rules { connections: (rules.connections / threads).max(1), ..rules };
    let slow = Arc::new(AtomicUsize::new(0));
    // Threads have time to start before the first request is due.
    let start = Instant::now() + Duration::from_millis(20);
    let loads: Vec<io::Result<Load>> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|nth| {
                let times: Vec<Duration> =
                    schedule.iter().skip(nth).step_by(threads).copied().collect();
                let slow = Arc::clone(&slow);
                scope.spawn(move || one_thread(target, &times, start, mine, slow))
            })
            .collect();
        let failed = || Err(io::Error::other("a thread of the load generator died"));
        started.into_iter().map(|thread| thread.join().unwrap_or_else(|_| failed())).collect()
    });
    let mut all = Load {
        answers: Vec::with_capacity(schedule.len()),
        sent_for: Duration::ZERO,
        is_cut: false,
        busiest: 0.0,
        waited: 0,
    };
    for load in loads {
        let load = load?;
        all.answers.extend(load.answers);
        all.sent_for = all.sent_for.max(load.sent_for);
        all.is_cut |= load.is_cut;
        all.busiest = all.busiest.max(load.busiest);
        all.waited += load.waited;
    }
    Ok(all)
}

fn one_thread(
    target: &Target,
    times: &[Duration],
    start: Instant,
    rules: Rules,
    slow: Arc<AtomicUsize>,
) -> io::Result<Load> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let sender = Rc::new(Sender::new(target, rules, start, slow));
    let begun = (Instant::now(), cpu_time());
    let all = LocalSet::new();
    let sent_for = all.block_on(&runtime, send_all(&sender, times))?;
    let wall = begun.0.elapsed().as_secs_f64();
    let is_cut = sender.gives_up();
    // What is still under way goes with its event loop, and its connections are closed.
    drop(all);
    drop(runtime);
    let mut answers = sender.answers.take();
    let planned = times.iter().take_while(|at| **at <= sent_for).count();
    // A request without an entry was sent and not waited for.
    if answers.len() < planned {
        answers.sort_unstable_by_key(|answer| answer.at);
        let mut known = answers.iter().map(|answer| answer.at).peekable();
        let open: Vec<Duration> = times[..planned]
            .iter()
            .filter(|at| known.next_if(|known| known == *at).is_none())
            .copied()
            .collect();
        answers.extend(open.into_iter().map(|at| Answer {
            at,
            late: Duration::ZERO,
            taken: sent_for.saturating_sub(at),
            outcome: Outcome::Unanswered,
        }));
    }
    let busiest = (cpu_time().saturating_sub(begun.1)).as_secs_f64() / wall.max(1e-9);
    Ok(Load { answers, sent_for, is_cut, busiest, waited: sender.waited.get() })
}

async fn send_all(sender: &Rc<Sender>, times: &[Duration]) -> io::Result<Duration> {
    let alarm = Alarm::new()?;
    for at in times {
        alarm.until(sender.start + *at).await?;
        if sender.gives_up() {
            return Ok(sender.start.elapsed());
        }
        sender.under_way.set(sender.under_way.get() + 1);
        let (sender, at) = (Rc::clone(sender), *at);
        spawn_local(async move { sender.one(at).await });
    }
    while sender.under_way.get() > 0 && !sender.gives_up() {
        // A slow request of another thread may end it too, without waking this thread.
        let _ = timeout(LOOK, sender.finished.notified()).await;
    }
    Ok(times.last().copied().unwrap_or_default())
}

/// Asks one request after the other, on one connection as long as the server keeps it.
pub struct SequentialClient {
    // Before the loop that they run on: fields are dropped in order.
    tasks: LocalSet,
    runtime: Runtime,
    sender: Sender,
}

impl SequentialClient {
    /// Asks for this page, and waits so long for each answer.
    ///
    /// # Errors
    /// Fails if no event loop can be had.
    pub fn new(target: &Target, timeout: Duration) -> io::Result<SequentialClient> {
        let rules = Rules { connections: 1, timeout, threads: 1, give_up: None };
        Ok(SequentialClient {
            tasks: LocalSet::new(),
            runtime: Builder::new_current_thread().enable_io().enable_time().build()?,
            sender: Sender::new(target, rules, Instant::now(), Arc::default()),
        })
    }

    /// One request.
    pub fn ask(&self) -> Outcome {
        let answer = async { timeout(self.sender.rules.timeout, self.sender.exchange()).await };
        self.tasks.block_on(&self.runtime, answer).unwrap_or(Outcome::TimedOut)
    }
}

/// CPU time of the calling thread.
fn cpu_time() -> Duration {
    Duration::from_nanos(proc::scheduled(Task::Current).unwrap_or_default().ran)
}

/// One thread's connections and answers.
struct Sender {
    target: Target,
    rules: Rules,
    start: Instant,
    /// Connections that wait for a request; the last one was used last.
    idle: RefCell<Vec<SendRequest<Full<Bytes>>>>,
    places: Semaphore,
    answers: RefCell<Vec<Answer>>,
    under_way: Cell<usize>,
    /// Requests of all threads that took too long.
    slow: Arc<AtomicUsize>,
    waited: Cell<usize>,
    finished: Notify,
}

impl Sender {
    fn new(target: &Target, rules: Rules, start: Instant, slow: Arc<AtomicUsize>) -> Sender {
        Sender {
            target: target.clone(),
            rules,
            start,
            idle: RefCell::default(),
            places: Semaphore::new(rules.connections),
            answers: RefCell::default(),
            under_way: Cell::default(),
            slow,
            waited: Cell::default(),
            finished: Notify::new(),
        }
    }

    fn gives_up(&self) -> bool {
        self.rules.give_up.is_some_and(|(count, _)| self.slow.load(Ordering::Relaxed) >= count)
    }

    /// One request, from its time to its end.
    async fn one(&self, at: Duration) {
        let late = self.start.elapsed().saturating_sub(at);
        let mut is_slow = false;
        let outcome = {
            let exchange = timeout(self.rules.timeout, self.exchange());
            let mut exchange = std::pin::pin!(exchange);
            // Noted as soon as it is slow, and not when it ends.
            let patience = self.rules.give_up.map_or(self.rules.timeout, |(_, limit)| limit);
            let soon = match timeout(patience, &mut exchange).await {
                Ok(ended) => ended,
                Err(_) => {
                    is_slow = true;
                    self.note_slow();
                    exchange.await
                }
            };
            soon.unwrap_or(Outcome::TimedOut)
        };
        if !is_slow && !outcome.is_good() {
            self.note_slow();
        }
        let taken = self.start.elapsed().saturating_sub(at);
        self.answers.borrow_mut().push(Answer { at, late, taken, outcome });
        self.under_way.set(self.under_way.get() - 1);
        self.finished.notify_one();
    }

    fn note_slow(&self) {
        self.slow.fetch_add(1, Ordering::Relaxed);
        if self.gives_up() {
            self.finished.notify_one();
        }
    }

    async fn exchange(&self) -> Outcome {
        if self.places.available_permits() == 0 {
            self.waited.set(self.waited.get() + 1);
        }
        let Ok(_place) = self.places.acquire().await else { return Outcome::NoSocket };
        let mut is_again = false;
        loop {
            let kept = if is_again { None } else { self.idle.borrow_mut().pop() };
            let was_kept = kept.is_some();
            let mut connection = match kept {
                Some(kept) if kept.is_closed() => continue,
                Some(kept) => kept,
                None => match connect(&self.target).await {
                    Ok(new) => new,
                    Err(outcome) => return outcome,
                },
            };
            match ask(&self.target, &mut connection).await {
                Ok(status) => {
                    self.idle.borrow_mut().push(connection);
                    return Outcome::Status(status);
                }
                // The server may close a kept connection at the moment at which it is used. A new
                // one shows whether it was that: the server would see a third request otherwise.
                Err(error) if was_kept && may_try_again(&self.target.method, &error) => {
                    is_again = true;
                }
                Err(_) => return Outcome::Broken,
            }
        }
    }
}

/// Whether the request was never sent, or may be sent twice. A server may have worked on one that
/// has no answer: it would take an order twice.
fn may_try_again(method: &Method, error: &hyper::Error) -> bool {
    let was_not_sent = error.is_canceled() || error.is_closed();
    was_not_sent || (method.is_safe() && error.is_incomplete_message())
}

/// Why there is no connection.
fn failure(kind: io::ErrorKind) -> Outcome {
    match kind {
        io::ErrorKind::ConnectionRefused => Outcome::Refused,
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => Outcome::Broken,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Outcome::Unreachable,
        io::ErrorKind::TimedOut => Outcome::TimedOut,
        // No port, no descriptor.
        _ => Outcome::NoSocket,
    }
}

async fn connect(target: &Target) -> Result<SendRequest<Full<Bytes>>, Outcome> {
    let stream = TcpStream::connect(target.address).await.map_err(|error| failure(error.kind()))?;
    // Without it a request could wait for an acknowledgement; with an error it only may.
    let _ = stream.set_nodelay(true);
    match &target.tls {
        None => speak(stream).await,
        Some(tls) => speak(tls.wrap(stream).await.map_err(|_| Outcome::NoTls)?).await,
    }
}

/// Speaks HTTP on a connection.
async fn speak<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, Outcome>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let (sender, connection) = handshake(Io(stream)).await.map_err(|_| Outcome::Broken)?;
    spawn_local(async move {
        // Its error is the error of the request that was on it.
        let _ = connection.await;
    });
    Ok(sender)
}

/// Sends the request and reads the whole answer.
async fn ask(target: &Target, connection: &mut SendRequest<Full<Bytes>>) -> hyper::Result<u16> {
    connection.ready().await?;
    let mut request = Request::new(Full::new(target.body.clone()));
    *request.method_mut() = target.method.clone();
    *request.uri_mut() = target.path.clone();
    *request.headers_mut() = target.headers.clone();
    let mut response = connection.send_request(request).await?;
    while let Some(frame) = response.frame().await {
        frame?;
    }
    Ok(response.status().as_u16())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::target::Template;

    #[test]
    fn a_host_without_a_route_is_no_lack_of_sockets() {
        for (number, outcome) in [
            (rustix::io::Errno::HOSTUNREACH, Outcome::Unreachable),
            (rustix::io::Errno::NETUNREACH, Outcome::Unreachable),
            (rustix::io::Errno::CONNREFUSED, Outcome::Refused),
            (rustix::io::Errno::MFILE, Outcome::NoSocket),
        ] {
            assert_eq!(failure(io::Error::from(number).kind()), outcome);
        }
    }

    /// What came of three requests, the last of them on a kept connection that ends, and how many
    /// requests the server has read.
    fn three_requests(template: &Template) -> (Vec<Outcome>, usize) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // Each connection has one answer, and ends without one when a second request comes. Two
        // requests at once make two connections that are kept.
        let requests = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&requests);
        std::thread::spawn(move || {
            let first: Vec<_> = listener.incoming().take(2).map(Result::unwrap).collect();
            for mut stream in first.into_iter().chain(listener.incoming().map(Result::unwrap)) {
                let count = Arc::clone(&count);
                std::thread::spawn(move || {
                    let mut request = [0; 1024];
                    if stream.read(&mut request).is_ok_and(|length| length > 0) {
                        count.fetch_add(1, Ordering::Relaxed);
                        let _ = stream.write_all(b"HTTP/1.1 204 None\r\n\r\n");
                    }
                    if stream.read(&mut request).is_ok_and(|length| length > 0) {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let target = Target::new(&format!("http://{address}/"), template).unwrap();
        let times = [0, 0, 500].map(Duration::from_millis);
        let rules =
            Rules { connections: 2, timeout: Duration::from_secs(60), threads: 1, give_up: None };
        let load = run(&target, &times, rules).unwrap();
        let outcomes = load.answers.iter().map(|answer| answer.outcome).collect();
        (outcomes, requests.load(Ordering::Relaxed))
    }

    #[test]
    fn a_request_whose_kept_connection_ends_is_tried_once_more_on_a_new_one() {
        let (outcomes, requests) = three_requests(&Template::default());
        assert!(outcomes.iter().all(|outcome| outcome.is_good()), "{outcomes:?}");
        assert_eq!(requests, 4, "two, one on a kept connection, one more");
    }

    #[test]
    fn an_order_is_not_sent_twice() {
        let form = Template { body: Some(b"thing=tea".to_vec()), ..Template::default() };
        let (outcomes, requests) = three_requests(&form);
        let broken = outcomes.iter().filter(|outcome| **outcome == Outcome::Broken);
        assert_eq!((broken.count(), requests), (1, 3), "{outcomes:?}");
    }
}
