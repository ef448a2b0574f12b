//! The admin listener: it says over HTTP how the server is doing, and passes an operator's commands
//! on to the supervisor. It runs on a thread of its own, so that it answers while the event loops
//! are busy. What it shows and what it changes are apart: see [`access`].

mod access;
mod connections;
mod document;
mod figures;
mod io;
mod page;
mod profile;
mod queries;
mod questions;
mod route;

use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use tokamak_metrics::{Format, Row, Samples};
use tokamak_upstream::socket::{Listener, Socket};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

pub use access::Access;
use access::Refusal;
use connections::{Admission, Connections};
pub use figures::Figures;
use io::AdminIo;
use profile::Profiles;
use questions::{NoAnswer, Questions};
use route::{AdminRequest, Right, Wrong};

/// How long a scrape waits for the supervisor, which answers within milliseconds; less than the ten
/// seconds after which Prometheus gives up, so that the front's figures are there when the
/// supervisor hangs.
const SUPERVISOR_PATIENCE: Duration = Duration::from_secs(2);

/// Passes a command to the supervisor, whose answer is as on the control socket.
pub type Ask = Arc<dyn Fn(String, Answer) + Send + Sync>;

/// Where the answer goes.
pub type Answer = oneshot::Sender<Reply>;

/// An answer, as on the control socket.
#[derive(Debug)]
pub enum Reply {
    /// The whole answer.
    Text(String),
    /// A socket: another process writes the answer to it, and closes it then.
    Stream(OwnedFd),
}

/// What an admin listener needs.
pub struct AdminStart {
    /// The listening socket.
    pub socket: OwnedFd,
    /// Who may ask for what.
    pub access: Access,
    /// The way to the supervisor.
    pub ask: Ask,
}

/// A running admin listener.
pub struct Admin {
    thread: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

impl Admin {
    /// Starts it.
    ///
    /// # Errors
    /// Fails if there is no thread or no event loop for it.
    pub fn start(start: AdminStart, figures: Figures) -> std::io::Result<Admin> {
        let (stop, stopped) = watch::channel(false);
        socket2::SockRef::from(&start.socket).set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let run = move || runtime.block_on(accept(start, figures, stopped));
        let thread = std::thread::Builder::new().name("admin".into()).spawn(run)?;
        Ok(Admin { thread, stop })
    }

    /// Lets it accept nothing more.
    pub fn drain(&self) {
        // If it has ended already, that is what is wanted.
        let _ = self.stop.send(true);
    }

    /// Waits until its last request is answered.
    pub fn join(self) {
        // A panic has been written to standard error.
        let _ = self.thread.join();
    }
}

async fn accept(start: AdminStart, figures: Figures, mut stopped: watch::Receiver<bool>) {
    let AdminStart { socket, access, ask } = start;
    let Ok(listener) = Listener::new(socket) else { return };
    let (questions, began) = (Questions::new(ask), tokamak_cost::now());
    let profiles = Profiles::new(stopped.clone());
    let service = Arc::new(Service { access, questions, profiles, figures, began });
    let (admissions, for_connection) = (Connections::default(), stopped.clone());
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(socket) => {
                    let (service, stopped) = (service.clone(), for_connection.clone());
                    connections.spawn(serve_connection(socket, admissions.enter(), service, stopped));
                }
                // Out of descriptors or memory: to try again at once would be a busy loop.
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            },
            Some(_) = connections.join_next() => {}
            _ = stopped.wait_for(|stopped| *stopped) => break,
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Serves one connection.
async fn serve_connection(
    socket: Socket,
    admission: Admission,
    service: Arc<Service>,
    mut stopped: watch::Receiver<bool>,
) {
    let admission = &admission;
    let answering = service_fn(|request| {
        let service = service.clone();
        async move {
            admission.asks();
            let response = service.answer(request, admission).await;
            admission.is_answered();
            Ok::<_, Infallible>(response)
        }
    });
    let mut http = http1::Builder::new();
    http.header_read_timeout(None);
    let mut connection = pin!(http.serve_connection(AdminIo(socket), answering));
    let mut over = pin!(admission.is_over());
    // How a connection has ended is not logged.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = over.as_mut() => return service.figures.cut.add(1),
        _ = stopped.wait_for(|stopped| *stopped) => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        _ = connection => {}
        () = over => {}
    }
}

/// What the requests of all connections need.
struct Service {
    access: Access,
    questions: Questions,
    profiles: Profiles,
    figures: Figures,
    /// When the front began to count, in nanoseconds.
    began: u64,
}

impl Service {
    async fn answer<B>(&self, request: Request<B>, admission: &Admission) -> Response<Full<Bytes>> {
        self.figures.asked.add(1);
        let admin_request = match AdminRequest::of(request.method(), request.uri()) {
            Ok(admin_request) => admin_request,
            Err(wrong) => return misunderstood(&wrong),
        };
        let (right, headers) = (admin_request.right(), request.headers());
        if let Err(refusal) = self.access.check(right, headers) {
            return refused(refusal);
        }
        if !matches!(right, Right::Probe | Right::Shell) && !admission.becomes_known() {
            return unanswered(NoAnswer::Busy);
        }
        match admin_request {
            AdminRequest::Live => text(StatusCode::OK, "live\n"),
            AdminRequest::Ready => {
                let may_look = self.access.check(Right::Look, headers).is_ok();
                ready(self.questions.ready().await, may_look)
            }
            AdminRequest::Metrics => self.metrics(headers).await,
            AdminRequest::Page => page::page(),
            AdminRequest::Figures => self.document().await,
            AdminRequest::Profile(order) => self.profiles.answer(&self.questions, order).await,
            AdminRequest::Command { line, json, .. } => match self.questions.command(line).await {
                Ok(answer) if right == Right::Look => translated(self.shown(answer), json),
                Ok(answer) => translated(answer, json),
                Err(why) => unanswered(why),
            },
        }
    }

    /// The supervisor's report for the client of this listener. Without a token, every user of the
    /// machine can ask, so the listener hides the query strings.
    fn shown(&self, report: String) -> String {
        if self.access == Access::Local { queries::hidden(&report) } else { report }
    }

    async fn metrics(&self, headers: &http::HeaderMap) -> Response<Full<Bytes>> {
        let lines = self.supervisor("metrics").await;
        let samples = self.samples(lines.as_deref());
        let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or("");
        let format = Format::accepted(accept);
        let response = text(StatusCode::OK, format.write(&samples));
        with(response, CONTENT_TYPE, format.media_type())
    }

    async fn document(&self) -> Response<Full<Bytes>> {
        let (lines, status) =
            tokio::join!(self.supervisor("metrics"), self.supervisor("status json"));
        let now = tokamak_cost::now();
        let samples = self.samples(lines.as_deref());
        let lists = document::Lists {
            slowest: self.figures.slowest(now),
            errors: self.figures.last_errors(),
        };
        let sites = &self.figures.config.sites;
        let status = status.map(|status| self.shown(status));
        let status = status.as_deref();
        let document = document::document(&samples, &lists, sites, status, self.began, now);
        with(text(StatusCode::OK, document), CONTENT_TYPE, "application/json")
    }

    /// The figures of the front, and those of the supervisor if it has answered.
    fn samples(&self, lines: Option<&str>) -> Samples {
        let mut samples = self.figures.samples();
        // The supervisor is of the same version: all of its lines are understood.
        let is_whole = lines.is_some_and(|lines| samples.add_lines(lines).is_ok());
        samples.add(Row::SupervisorAnswered, &[], f64::from(u8::from(is_whole)));
        samples
    }

    /// What the supervisor answers, unless it takes too long.
    async fn supervisor(&self, command: &str) -> Option<String> {
        let asked = self.questions.command(command.into());
        let answer = tokio::time::timeout(SUPERVISOR_PATIENCE, asked).await.ok()?.ok()?;
        answer.strip_prefix("ok\n").map(str::to_owned)
    }
}

/// The answer to a probe. Its reason names sites and what they fail of, which is not for everybody.
fn ready(answer: Result<String, NoAnswer>, may_look: bool) -> Response<Full<Bytes>> {
    match answer {
        Err(why) if may_look => unanswered(why),
        Ok(answer) if may_look || answer.starts_with("ok") => translated(answer, false),
        _ => text(StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
    }
}

fn unanswered(why: NoAnswer) -> Response<Full<Bytes>> {
    let what = match why {
        NoAnswer::Busy => "too many requests wait for an answer; try again\n",
        NoAnswer::Silent => "the supervisor does not answer\n",
    };
    with(text(StatusCode::SERVICE_UNAVAILABLE, what), RETRY_AFTER, "1")
}

/// An answer of the control socket as one of HTTP.
fn translated(answer: String, json: bool) -> Response<Full<Bytes>> {
    if let Some(wrong) = answer.strip_prefix("error ") {
        return text(StatusCode::SERVICE_UNAVAILABLE, wrong.to_owned());
    }
    let rest = answer.strip_prefix("ok").unwrap_or(&answer).trim_start().to_owned();
    let response = text(StatusCode::OK, rest);
    if json { with(response, CONTENT_TYPE, "application/json") } else { response }
}

fn misunderstood(wrong: &Wrong) -> Response<Full<Bytes>> {
    match wrong {
        Wrong::Path => text(
            StatusCode::NOT_FOUND,
            "there are / (the dashboard), /live, /ready, /status, /metrics, /dashboard.json and \
                /profile, and for POST /reload, /purge and /drain\n",
        ),
        Wrong::Method(allowed) => {
            let response = text(StatusCode::METHOD_NOT_ALLOWED, format!("it wants {allowed}\n"));
            with(response, ALLOW, allowed)
        }
        Wrong::Query(wrong) => text(StatusCode::BAD_REQUEST, format!("{wrong}\n")),
    }
}

fn refused(refusal: Refusal) -> Response<Full<Bytes>> {
    match refusal {
        Refusal::Token => {
            let what =
                "send `Authorization: Bearer TOKEN` with the configuration's `admin_token`\n";
            with(text(StatusCode::UNAUTHORIZED, what), WWW_AUTHENTICATE, "Bearer")
        }
        Refusal::NoToken => text(
            StatusCode::FORBIDDEN,
            "to change something, set `admin_token`, or use a Unix socket\n",
        ),
        Refusal::Host => text(
            StatusCode::FORBIDDEN,
            "ask by the address or as `localhost`, or set `admin_token`\n",
        ),
        Refusal::OtherSite => text(
            StatusCode::FORBIDDEN,
            "a page of another site has asked; type the address into the browser\n",
        ),
    }
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    let response = with(response, CONTENT_TYPE, "text/plain; charset=utf-8");
    with(response, CACHE_CONTROL, "no-store")
}

fn with(
    mut response: Response<Full<Bytes>>,
    name: HeaderName,
    value: &'static str,
) -> Response<Full<Bytes>> {
    response.headers_mut().insert(name, http::HeaderValue::from_static(value));
    response
}
