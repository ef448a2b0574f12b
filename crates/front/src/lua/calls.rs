//! Calls of Lua scripts to other services: the clients and timers of one event loop.

use std::fs::OpenOptions;
use std::future::{Future, ready};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use ::http::HeaderMap;
use tokamak_lua::{Batch, Call, HttpCall, RedisServer, Response, Value, Waiting};
use tokamak_outbound::http::{self, HttpError, Limits, Request, Sending};
use tokamak_outbound::{Names, redis};

use super::timers::Timers;
use crate::trace::Trace;

/// Most Redis servers that scripts may use, where each database, user and timeout counts as one.
/// Each keeps connections, so a script that makes up servers in a loop must fail: ten times more
/// would let it open ten times as many; a tenth could be too few for sites with several databases.
const MOST_SERVERS: usize = 64;

/// The clients and the timers of one event loop.
#[derive(Default)]
pub struct Calls {
    names: Names,
    timers: Timers,
    http: Arc<http::Client>,
    /// The clients, by the numbers that scripts hold.
    redis: Mutex<Vec<Arc<redis::Client>>>,
}

impl Calls {
    /// Begins a call for a request. `trace` is the request's span, for header fields of calls over
    /// HTTP; `ask` makes a subrequest to this server.
    pub fn begin<'a>(
        &self,
        call: Call<'a>,
        trace: Option<&Trace>,
        ask: impl FnOnce(HttpCall<'a>) -> Waiting,
    ) -> Waiting {
        match call {
            Call::Fetch(call) => ask(call),
            Call::Http(call) => {
                let limits = Limits { time: call.timeout, body: call.most };
                match request(&call, trace) {
                    Ok(request) => Box::pin(HttpAnswer(self.http.send(request, limits))),
                    Err(fault) => Box::pin(ready(Err(fault.to_string()))),
                }
            }
            Call::Redis { server, commands, batch } => {
                let client = self.clients().get(server as usize).cloned();
                Box::pin(async move {
                    let Some(client) = client else {
                        return Err("there is no such server".to_owned());
                    };
                    command(&client, &commands, batch).await
                })
            }
            Call::Read { path, most } => Box::pin(async move {
                let read = tokio::task::spawn_blocking(move || {
                    read(&path, most).map_err(|error| format!("{}: {error}", path.display()))
                });
                read.await.map_err(|error| error.to_string())?.map(Value::Bytes)
            }),
        }
    }

    /// A future that is ready after this time.
    pub fn sleep(&self, time: Duration) -> Waiting {
        self.timers.sleep(time)
    }

    /// The number of a Redis server, for scripts to hold.
    ///
    /// # Errors
    /// Fails if scripts use too many servers.
    pub fn redis(&self, server: RedisServer) -> Result<u32, String> {
        let RedisServer { address, user, password, database, timeout } = server;
        let server = redis::Server { address, user, password, database, timeout };
        let mut clients = self.clients();
        if let Some(index) = clients.iter().position(|client| *client.server() == server) {
            return Ok(index as u32);
        }
        if clients.len() >= MOST_SERVERS {
            return Err(format!("scripts may use {MOST_SERVERS} Redis servers"));
        }
        clients.push(Arc::new(redis::Client::new(server, self.names.clone())));
        Ok(clients.len() as u32 - 1)
    }

    /// Closes connections that have been idle for a while.
    pub fn tidy(&self) {
        self.http.tidy();
    }

    fn clients(&self) -> MutexGuard<'_, Vec<Arc<redis::Client>>> {
        // Only one thread uses it. The lock is there because the type must be `Sync`.
        self.redis.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn request<'a>(call: &HttpCall<'a>, trace: Option<&Trace>) -> Result<Request<'a>, HttpError> {
    let mut request = Request::new(call.method, call.url, call.socket)?;
    for [name, value] in call.fields.as_chunks().0 {
        request.field(name, value)?;
    }
    let is_own = call.fields.as_chunks().0.iter().any(|[name, _]| Trace::is_own(name));
    let trace = trace.filter(|_| !is_own);
    for (name, value) in trace.iter().flat_map(|trace| trace.headers()) {
        request.field(name.as_str().as_bytes(), value.as_bytes())?;
    }
    request.body(call.body);
    Ok(request)
}

/// A service's answer as scripts see it. A hand-written future, because it is smaller than that of
/// an `async` block.
struct HttpAnswer(Sending);

impl Future for HttpAnswer {
    type Output = Result<Value, String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|result| {
            let http::Response { status, fields, body } =
                result.map_err(|fault| fault.to_string())?;
            Ok(Value::Response(Response { status, fields, body }))
        })
    }
}

/// A response to a subrequest, as scripts see it.
pub fn received(status: u16, fields: &HeaderMap, body: Vec<u8>) -> Value {
    let size = fields.iter().map(|(name, value)| name.as_str().len() + value.len() + 2).sum();
    let mut flat = Vec::with_capacity(size);
    for (name, value) in fields {
        for part in [name.as_str().as_bytes(), value.as_bytes()] {
            flat.extend_from_slice(part);
            flat.push(b'\n');
        }
    }
    Value::Response(Response { status, fields: flat, body })
}

async fn command(
    client: &redis::Client,
    commands: &[Vec<Vec<u8>>],
    batch: Batch,
) -> Result<Value, String> {
    let batch = match batch {
        Batch::Single => redis::Batch::Single,
        Batch::Pipeline => redis::Batch::Pipeline,
        Batch::Transaction => redis::Batch::Transaction,
    };
    client.call(commands, batch).await.map(reply).map_err(|fault| fault.to_string())
}

/// A reply of Redis, as scripts see it.
fn reply(value: redis::Value) -> Value {
    match value {
        redis::Value::Nil => Value::Nil,
        redis::Value::Int(number) => Value::Integer(number),
        redis::Value::BulkString(bytes) | redis::Value::BigNumber(bytes) => Value::Bytes(bytes),
        redis::Value::SimpleString(text) | redis::Value::VerbatimString { text, .. } => {
            Value::Bytes(text.into_bytes())
        }
        redis::Value::Okay => Value::Bytes(b"OK".to_vec()),
        redis::Value::Array(values)
        | redis::Value::Set(values)
        | redis::Value::Push { data: values, .. } => {
            Value::List(values.into_iter().map(reply).collect())
        }
        redis::Value::Map(pairs) => Value::List(
            pairs.into_iter().flat_map(|(key, value)| [reply(key), reply(value)]).collect(),
        ),
        redis::Value::Attribute { data, .. } => reply(*data),
        redis::Value::Double(number) => Value::Number(number),
        redis::Value::Boolean(truth) => Value::Boolean(truth),
        redis::Value::ServerError(error) => {
            let details = error.details().unwrap_or_default();
            Value::Problem(format!("{} {details}", error.code()).into_bytes())
        }
        other => Value::Problem(format!("a reply of an unknown kind: {other:?}").into_bytes()),
    }
}

/// Reads a whole file of at most `most` bytes.
fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // Without O_NONBLOCK, a pipe without a writer would block the thread for ever.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut bytes = Vec::with_capacity(about.len().min(most) as usize);
    // The file may be growing.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    Ok(bytes)
}
