//! Answers a request by a Lua script in place of a program: encodes what it prints as records.
//!
//! The script runs inside the event loop. Its output is held back until it waits or ends. So a
//! script that fails before that is answered with an error page only.

use std::future::{poll_fn, ready};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task;
use std::task::Poll;
use std::time::Duration;

use tokamak_fastcgi::{Stream, encode};
use tokamak_lua::{
    Absent, Call, Host, LuaState, Outcome, Program, RedisServer, Run, Stage, Value, Waiting,
};
use tokamak_upstream::body::Body;
use tokamak_upstream::record::Writer;

use super::answer::{self, End, MOST_WAITING};
use crate::backend::upstream::head;
use crate::context::Context;
use crate::failure::Failure;
use crate::fpm::parameter;
use crate::{log, lua};

/// Unsent bytes at which a script has to wait. A script that fails earlier gets an error page, so a
/// tenth of this would send half pages more often; ten times more would cost each script that much
/// memory.
const FULL: usize = 64 * 1024;

/// Most unsent bytes of a script that cannot wait, because it prints inside a coroutine of its own.
/// Beyond it the script fails: a tenth of this could hit ordinary exports, ten times more would let
/// one request take 160 MiB.
const MOST_UNSENT: usize = 16 * 1024 * 1024;

/// Longest header block. It is below [`FULL`], so that a script that waits has printed all its
/// headers or too long ones.
const HEAD: usize = FULL - 1;

/// Bytes that may wait for the web server's error log; more are dropped. A tenth of this could cut
/// off stack traces; ten times more would let a failing script hold that much memory.
const MOST_STDERR: usize = 64 * 1024;

/// A request that a script answers.
pub struct Script {
    run: Run,
    shared: Arc<Shared>,
    /// Whether some of the response has been written.
    has_begun: bool,
    /// Bytes of the request's body.
    pub body_len: u64,
}

/// What the script and its conversation share.
struct Shared {
    context: Arc<Context>,
    site_index: usize,
    record: Writer,
    output: Mutex<Output>,
}

/// What a script has written and the conversation has not sent yet.
#[derive(Default)]
struct Output {
    response: Vec<u8>,
    stderr: Vec<u8>,
}

/// The request and its streams, as the script sees them.
struct Streams {
    shared: Arc<Shared>,
    body: Body,
    /// Bytes of the body that have been read.
    read: u64,
}

impl Script {
    /// The script that a request names.
    ///
    /// # Errors
    /// Fails with the reason if there is no script to run, and returns the record.
    pub fn new(
        lua: &Arc<LuaState>,
        context: &Arc<Context>,
        site_index: usize,
        record: Writer,
        body: Body,
    ) -> Result<Script, (Writer, Absent)> {
        let id = match name(&record).ok_or(Absent::Unnamed).and_then(|name| lua.find(&name)) {
            Ok(id) => id,
            Err(absent) => return Err((record, absent)),
        };
        let body_len = body.left();
        let shared = Arc::new(Shared {
            context: context.clone(),
            site_index,
            record,
            output: Mutex::default(),
        });
        let streams = Streams { shared: shared.clone(), body, read: 0 };
        let run = lua.run(id, Stage::Content, Box::new(streams));
        Ok(Script { run, shared, has_begun: false, body_len })
    }

    /// The request's parameters.
    pub fn record(&self) -> &Writer {
        &self.shared.record
    }

    /// Runs the script, and appends its output to `out`: at most a little more than
    /// [`MOST_WAITING`], as long as the script can wait.
    pub fn poll(&mut self, id: u16, out: &mut Vec<u8>, cx: &mut task::Context<'_>) -> Poll<End> {
        while out.len() < MOST_WAITING {
            let before = out.len();
            let outcome = match Pin::new(&mut self.run).poll(cx) {
                Poll::Ready((_, outcome)) => Some(outcome),
                Poll::Pending => None,
            };
            let written = match outcome {
                Some(Outcome::Failed(error)) => Err(lua::failure(error)),
                _ => self.pass_on(id, out, outcome.is_some()),
            };
            let stderr = std::mem::take(&mut self.shared.output().stderr);
            encode::stream(out, id, Stream::Stderr, &stderr);
            match (written, outcome) {
                (Err(_), _) if self.has_begun => {
                    return Poll::Ready(End::BrokenOff(
                        "the script ended before its response did".to_owned(),
                    ));
                }
                (Err(failure), _) => return Poll::Ready(End::Refused(failure)),
                (Ok(()), Some(_)) => {
                    answer::end(out, id);
                    return Poll::Ready(End::Complete);
                }
                // The script waits for something else than room.
                (Ok(()), None) if out.len() == before => return Poll::Pending,
                (Ok(()), None) => {}
            }
        }
        Poll::Pending
    }

    /// Encodes what the script has printed, once its headers are complete.
    fn pass_on(&mut self, id: u16, out: &mut Vec<u8>, is_over: bool) -> Result<(), Failure> {
        let printed = std::mem::take(&mut self.shared.output().response);
        if !self.has_begun {
            match head::validate(&printed, HEAD, is_over) {
                Ok(is_whole) => self.has_begun = is_whole,
                Err(wrong) => {
                    self.shared.log(&format!("{}: {wrong}", self.shared.script()));
                    return Err(Failure::Internal);
                }
            }
        }
        if self.has_begun {
            encode::stream(out, id, Stream::Stdout, &printed);
        } else {
            self.shared.output().response = printed;
        }
        Ok(())
    }
}

impl Shared {
    fn output(&self) -> MutexGuard<'_, Output> {
        // Only one thread uses it. The lock is there because the type must be `Sync`.
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes into both error logs: the server's own and the web server's.
    fn log(&self, text: &str) {
        let of = |name| String::from_utf8_lossy(parameter(&self.record, name).unwrap_or_default());
        let about = log::About {
            site: &self.context.sites[self.site_index].config.name,
            method: &of(b"REQUEST_METHOD"),
            target: &of(b"REQUEST_URI"),
            trace: None,
        };
        log::script(&about, text);
        self.output().write_stderr(format!("{text}\n").as_bytes());
    }

    /// The script's name, for messages.
    fn script(&self) -> String {
        String::from_utf8_lossy(&name(&self.record).unwrap_or_default()).into_owned()
    }
}

impl Output {
    fn write_stderr(&mut self, bytes: &[u8]) {
        let room = MOST_STDERR.saturating_sub(self.stderr.len());
        self.stderr.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

impl Host for Streams {
    fn program(&mut self) -> Option<&mut dyn Program> {
        Some(self)
    }

    fn variable(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        parameter(&self.shared.record, name).map(<[u8]>::to_vec)
    }

    fn log(&mut self, text: &str) {
        self.shared.log(text);
    }

    fn sleep(&mut self, time: Duration) -> Waiting {
        self.shared.context.calls.sleep(time)
    }

    fn call(&mut self, call: Call) -> Waiting {
        let no_http =
            |_| -> Waiting { Box::pin(ready(Err("this server serves no HTTP".to_owned()))) };
        self.shared.context.calls.begin(call, None, no_http)
    }

    fn redis(&mut self, server: RedisServer) -> Result<u32, String> {
        self.shared.context.calls.redis(server)
    }
}

impl Program for Streams {
    fn read(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let piece = self.body.read_at(self.read, most)?;
        self.read += piece.len() as u64;
        Ok(piece.to_vec())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<bool, String> {
        let mut output = self.shared.output();
        if output.response.len() + bytes.len() > MOST_UNSENT {
            return Err(format!(
                "more than {} MiB printed where a script cannot wait",
                MOST_UNSENT >> 20
            ));
        }
        output.response.extend_from_slice(bytes);
        Ok(output.response.len() >= FULL)
    }

    fn write_stderr(&mut self, bytes: &[u8]) {
        self.shared.output().write_stderr(bytes);
    }

    fn sent(&mut self) -> Waiting {
        let shared = self.shared.clone();
        // No waker is needed: the conversation polls again when it has made room.
        Box::pin(poll_fn(move |_| {
            if shared.output().response.is_empty() {
                Poll::Ready(Ok(Value::Nil))
            } else {
                Poll::Pending
            }
        }))
    }
}

/// The failure for a request whose script cannot be run.
pub fn failure(absent: Absent) -> (Failure, &'static str) {
    match absent {
        Absent::Unnamed => (Failure::BadRequest, "SCRIPT_FILENAME names no file"),
        Absent::Missing => (Failure::NotFound, "there is no such script"),
        Absent::Forbidden => {
            (Failure::Forbidden, "the script is outside the folder, unreadable, or not a file")
        }
        Absent::Unreadable => {
            (Failure::ScriptUnreadable, "the script cannot be read at the moment")
        }
    }
}

/// The path of the script, as the web server sends it.
fn name(record: &Writer) -> Option<Vec<u8>> {
    let filename = parameter(record, b"SCRIPT_FILENAME").unwrap_or_default();
    if !filename.is_empty() {
        return Some(without_proxy(filename).to_vec());
    }
    let (root, name) = (parameter(record, b"DOCUMENT_ROOT")?, parameter(record, b"SCRIPT_NAME")?);
    Some([root, name].concat())
}

/// Removes the prefix by which Apache names files behind its proxy: `proxy:fcgi://host:port/file`.
fn without_proxy(name: &[u8]) -> &[u8] {
    let Some(rest) = name.strip_prefix(b"proxy:fcgi://") else { return name };
    let path = rest.iter().position(|&byte| byte == b'/');
    path.map_or(name, |path| &rest[path..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_its_script_in_several_ways() {
        for (parameters, expected) in [
            (&[("SCRIPT_FILENAME", "/a/b.lua")][..], Some("/a/b.lua")),
            (&[("SCRIPT_FILENAME", "proxy:fcgi://localhost/a/b.lua")], Some("/a/b.lua")),
            (&[("SCRIPT_FILENAME", "proxy:fcgi://[::1]:9000/a/b.lua")], Some("/a/b.lua")),
            (&[("SCRIPT_FILENAME", "proxy:fcgi://nothing")], Some("proxy:fcgi://nothing")),
            (
                &[("SCRIPT_FILENAME", ""), ("DOCUMENT_ROOT", "/a"), ("SCRIPT_NAME", "/b.lua")],
                Some("/a/b.lua"),
            ),
            (&[("SCRIPT_NAME", "/b.lua")], None),
            (&[], None),
        ] {
            let mut record = Writer::new();
            record.begin_parameters();
            parameters.iter().for_each(|(name, value)| {
                record.parameter(name.as_bytes(), value.as_bytes());
            });
            assert_eq!(name(&record).as_deref(), expected.map(str::as_bytes), "{parameters:?}");
        }
    }
}
