//! A request that a Lua script answers in a program's site_index: what it prints as records.
//!
//! The script runs inside the event loop. What it prints is held back until it waits or ends, so
//! that one which fails before that is answered with an error, and nothing else.

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
use crate::backend::fastcgi::head;
use crate::context::Context;
use crate::failure::Failure;
use crate::fpm::parameter;
use crate::{log, lua};

/// Bytes that a script may have printed and nobody has sent, before it waits. Chosen arbitrarily.
const FULL: usize = 64 * 1024;

/// The same where a script cannot wait, inside a coroutine of its own. Chosen arbitrarily.
const MOST_UNSENT: usize = 16 * 1024 * 1024;

/// Longest header block: a script that waits has printed more.
const HEAD: usize = FULL - 1;

/// Bytes for the web server's error log that wait. What is more is lost. Chosen arbitrarily.
const MOST_COMPLAINTS: usize = 64 * 1024;

/// A request in the hands of a script.
pub struct Script {
    run: Run,
    around: Arc<Around>,
    /// Whether some of the response has been written.
    has_begun: bool,
    /// Bytes of the request's body.
    pub body_len: u64,
}

/// What the script and its conversation share.
struct Around {
    context: Arc<Context>,
    site_index: usize,
    record: Writer,
    output: Mutex<Output>,
}

/// What a script has written, and nobody has sent.
#[derive(Default)]
struct Output {
    response: Vec<u8>,
    complaints: Vec<u8>,
}

/// What the script sees.
struct Streams {
    around: Arc<Around>,
    body: Body,
    /// Bytes of the body that have been read.
    read: u64,
}

impl Script {
    /// The script that a request names.
    ///
    /// # Errors
    /// Why there is none to run; the record comes back.
    pub fn new(
        lua: &Arc<LuaState>,
        (context, site_index): (&Arc<Context>, usize),
        record: Writer,
        body: Body,
    ) -> Result<Script, (Writer, Absent)> {
        let id = match name(&record).ok_or(Absent::Unnamed).and_then(|name| lua.find(&name)) {
            Ok(id) => id,
            Err(absent) => return Err((record, absent)),
        };
        let body_len = body.left();
        let around = Arc::new(Around {
            context: context.clone(),
            site_index,
            record,
            output: Mutex::default(),
        });
        let streams = Streams { around: around.clone(), body, read: 0 };
        let run = lua.run(id, Stage::Content, Box::new(streams));
        Ok(Script { run, around, has_begun: false, body_len })
    }

    /// The request's parameters.
    pub fn record(&self) -> &Writer {
        &self.around.record
    }

    /// Lets the script go on, and writes what there is of its response at the end of `out`, at most
    /// a little more than [`MOST_WAITING`] as long as the script can wait.
    pub fn poll(&mut self, id: u16, out: &mut Vec<u8>, cx: &mut task::Context<'_>) -> Poll<End> {
        while out.len() < MOST_WAITING {
            let before = out.len();
            let outcome = match Pin::new(&mut self.run).poll(cx) {
                Poll::Ready((_, outcome)) => Some(outcome),
                Poll::Pending => None,
            };
            let written = match outcome {
                Some(Outcome::Failed(trouble)) => Err(lua::failure(trouble)),
                _ => self.pass_on(id, out, outcome.is_some()),
            };
            let complaints = std::mem::take(&mut self.around.output().complaints);
            encode::stream(out, id, Stream::Stderr, &complaints);
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
                // It waits for something else than room.
                (Ok(()), None) if out.len() == before => return Poll::Pending,
                (Ok(()), None) => {}
            }
        }
        Poll::Pending
    }

    /// Writes what the script has printed, if it begins with headers.
    fn pass_on(&mut self, id: u16, out: &mut Vec<u8>, is_over: bool) -> Result<(), Failure> {
        let printed = std::mem::take(&mut self.around.output().response);
        if !self.has_begun {
            match head::judge(&printed, HEAD, is_over) {
                Ok(is_whole) => self.has_begun = is_whole,
                Err(wrong) => {
                    self.around.log(&format!("{}: {wrong}", self.around.script()));
                    return Err(Failure::Internal);
                }
            }
        }
        if self.has_begun {
            encode::stream(out, id, Stream::Stdout, &printed);
        } else {
            self.around.output().response = printed;
        }
        Ok(())
    }
}

impl Around {
    fn output(&self) -> MutexGuard<'_, Output> {
        // One event loop has both sides; the lock makes them shareable.
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes into both error logs: the server's own and the web server's.
    fn log(&self, text: &str) {
        let of = |name| String::from_utf8_lossy(parameter(&self.record, name).unwrap_or_default());
        log::script(
            &self.context.sites[self.site_index].config.name,
            text,
            &of(b"REQUEST_METHOD"),
            &of(b"REQUEST_URI"),
        );
        self.output().complain(format!("{text}\n").as_bytes());
    }

    /// The script's name for people.
    fn script(&self) -> String {
        String::from_utf8_lossy(&name(&self.record).unwrap_or_default()).into_owned()
    }
}

impl Output {
    fn complain(&mut self, bytes: &[u8]) {
        let room = MOST_COMPLAINTS.saturating_sub(self.complaints.len());
        self.complaints.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

impl Host for Streams {
    fn program(&mut self) -> Option<&mut dyn Program> {
        Some(self)
    }

    fn variable(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        parameter(&self.around.record, name).map(<[u8]>::to_vec)
    }

    fn log(&mut self, text: &str) {
        self.around.log(text);
    }

    fn sleep(&mut self, time: Duration) -> Waiting {
        self.around.context.calls.sleep(time)
    }

    fn call(&mut self, call: Call) -> Waiting {
        let nobody =
            |_| -> Waiting { Box::pin(ready(Err("this server serves no HTTP".to_owned()))) };
        self.around.context.calls.begin(call, nobody)
    }

    fn redis(&mut self, server: RedisServer) -> Result<u32, String> {
        self.around.context.calls.redis(server)
    }
}

impl Program for Streams {
    fn read(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let piece = self.body.read_at(self.read, most)?;
        self.read += piece.len() as u64;
        Ok(piece.to_vec())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<bool, String> {
        let mut output = self.around.output();
        if output.response.len() + bytes.len() > MOST_UNSENT {
            return Err(format!(
                "more than {} MiB printed where a script cannot wait",
                MOST_UNSENT >> 20
            ));
        }
        output.response.extend_from_slice(bytes);
        Ok(output.response.len() >= FULL)
    }

    fn complain(&mut self, bytes: &[u8]) {
        self.around.output().complain(bytes);
    }

    fn sent(&mut self) -> Waiting {
        let around = self.around.clone();
        // Nobody has to be woken: the conversation asks again when it has made room.
        Box::pin(poll_fn(move |_| {
            if around.output().response.is_empty() {
                Poll::Ready(Ok(Value::Nil))
            } else {
                Poll::Pending
            }
        }))
    }
}

/// The failure that a client is told of, for want of a script.
pub fn failure(absent: Absent) -> (Failure, &'static str) {
    match absent {
        Absent::Unnamed => (Failure::BadRequest, "SCRIPT_FILENAME names no file"),
        Absent::Missing => (Failure::NotFound, "there is no such script"),
        Absent::Forbidden => {
            (Failure::Forbidden, "the script is outside the folder, unreadable, or no file")
        }
        Absent::Unreadable => {
            (Failure::ScriptUnreadable, "the script cannot be read at the moment")
        }
    }
}

/// The path of the script that a request is for, as its web server says it.
fn name(record: &Writer) -> Option<Vec<u8>> {
    let filename = parameter(record, b"SCRIPT_FILENAME").unwrap_or_default();
    if !filename.is_empty() {
        return Some(without_proxy(filename).to_vec());
    }
    let (root, name) = (parameter(record, b"DOCUMENT_ROOT")?, parameter(record, b"SCRIPT_NAME")?);
    Some([root, name].concat())
}

/// Apache names files as addresses of its proxy: `proxy:fcgi://host:port/file`.
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
