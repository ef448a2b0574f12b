//! Answers a request: encodes the worker's response as records.

use std::task::{Context, Poll};

use tokamak_fastcgi::encode::{self, Pieces};
use tokamak_fastcgi::{ProtocolStatus, Stream};
use tokamak_upstream::shm::{Event, Outcome, QueuedRequest, ResponseHead, UsageFrame};

use crate::backend::BackendError;
use crate::failure::Failure;
use crate::fpm::Running;
use crate::response::pages;

/// Bytes that may wait for the web server on one connection before back pressure stops its workers.
/// Each connection may hold that much memory, so ten times more would make slow web servers
/// expensive; with a tenth of this, workers would wait in the middle of ordinary pages.
pub const MOST_WAITING: usize = 256 * 1024;

/// A request in the hands of the pool's workers.
pub struct Answer {
    exchange: QueuedRequest,
    /// The response's head, once it has been written.
    head: Option<ResponseHead>,
    usage: Option<UsageFrame>,
    /// Held for as long as it counts as running.
    _running: Option<Running>,
}

/// How an answer ended.
#[derive(Debug)]
pub enum End {
    /// It is complete; its END_REQUEST has been written.
    Complete,
    /// There is no response, and nothing has been written.
    Failed(BackendError),
    /// As `Failed`, but the reason has been logged already.
    Refused(Failure),
    /// It ended early: the web server must not take the part for the whole response.
    BrokenOff(String),
}

impl Answer {
    /// The answer to a request that has been queued.
    pub fn new(exchange: QueuedRequest, running: Option<Running>) -> Answer {
        Answer { exchange, head: None, usage: None, _running: running }
    }

    /// The response's head, once it has been written.
    pub fn head(&self) -> Option<&ResponseHead> {
        self.head.as_ref()
    }

    /// What the worker reported about the request.
    pub fn usage(&self) -> Option<&UsageFrame> {
        self.usage.as_ref()
    }

    /// The worker's process id, if it is known.
    pub fn worker(&self) -> Option<u32> {
        self.exchange.worker()
    }

    /// Appends the available part of the answer to `out`, at most a little more than
    /// [`MOST_WAITING`].
    pub fn poll(&mut self, id: u16, out: &mut Vec<u8>, context: &mut Context<'_>) -> Poll<End> {
        while out.len() < MOST_WAITING {
            // Headers and body mostly come at once, and leave as one record.
            let mut stdout = Pieces::new(out, id, Stream::Stdout);
            let event = loop {
                match self.exchange.poll_event(context) {
                    Poll::Ready(Ok(Event::Head(head))) if self.head.is_none() => {
                        put_head(&mut stdout, &head);
                        self.head = Some(head);
                    }
                    Poll::Ready(Ok(Event::Usage(usage))) => self.usage = Some(usage),
                    Poll::Ready(Ok(Event::Body(bytes))) => {
                        stdout.put(&bytes);
                        if stdout.buffered() >= MOST_WAITING {
                            break None;
                        }
                    }
                    // FastCGI has no interim responses.
                    Poll::Ready(Ok(Event::Head(_) | Event::Interim(_))) => {}
                    Poll::Ready(event) => break Some(event),
                    Poll::Pending => {
                        stdout.finish();
                        return Poll::Pending;
                    }
                }
            };
            stdout.finish();
            match event {
                Some(Ok(Event::Stderr(bytes))) => encode::stream(out, id, Stream::Stderr, &bytes),
                Some(Ok(Event::End(Outcome::Complete))) => {
                    end(out, id);
                    return Poll::Ready(End::Complete);
                }
                Some(Ok(Event::End(Outcome::Broken))) => {
                    return Poll::Ready(End::BrokenOff(
                        "the worker broke the response off".to_owned(),
                    ));
                }
                Some(Err(fault)) if self.head.is_some() => {
                    return Poll::Ready(End::BrokenOff(fault.to_string()));
                }
                Some(Err(fault)) => return Poll::Ready(End::Failed(fault.into())),
                Some(Ok(_)) | None => {}
            }
        }
        Poll::Pending
    }
}

/// Ends a request normally.
pub fn end(out: &mut Vec<u8>, id: u16) {
    encode::stream_end(out, id, Stream::Stdout);
    encode::end(out, id, 0, ProtocolStatus::Complete);
}

/// Answers a request with the page of a failure.
pub fn fail(out: &mut Vec<u8>, id: u16, failure: Failure) {
    let (status, headers, body) = pages::answer(failure);
    let reason = status.canonical_reason().unwrap_or("Error");
    let mut stdout = Pieces::new(out, id, Stream::Stdout);
    stdout.put(format!("Status: {} {reason}\r\n", status.as_u16()).as_bytes());
    headers.iter().for_each(|(name, value)| {
        put_header(&mut stdout, name.as_str().as_bytes(), value.as_bytes())
    });
    stdout.put(b"\r\n");
    stdout.put(&body);
    stdout.finish();
    end(out, id);
}

/// Answers a request with a page of this server.
pub fn page(out: &mut Vec<u8>, id: u16, headers: &[(String, String)], body: &[u8]) {
    let mut stdout = Pieces::new(out, id, Stream::Stdout);
    headers
        .iter()
        .for_each(|(name, value)| put_header(&mut stdout, name.as_bytes(), value.as_bytes()));
    stdout.put(b"\r\n");
    stdout.put(body);
    stdout.finish();
    end(out, id);
}

/// Writes the worker's header lines, including `Status`. A header without a name is a whole line.
fn put_head(stdout: &mut Pieces<'_>, head: &ResponseHead) {
    for (name, value) in head.headers() {
        if name.is_empty() {
            stdout.put(value);
            stdout.put(b"\r\n");
        } else {
            put_header(stdout, name, value);
        }
    }
    stdout.put(b"\r\n");
}

fn put_header(stdout: &mut Pieces<'_>, name: &[u8], value: &[u8]) {
    stdout.put(name);
    stdout.put(b": ");
    stdout.put(value);
    stdout.put(b"\r\n");
}
