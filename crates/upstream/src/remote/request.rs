//! A request as it goes over the wire: what can be written at once, and the body that is read piece
//! by piece. In FastCGI all of it is in records; in HTTP the body follows its head as it is.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokamak_fastcgi::{Role, Stream, encode};

use super::error::UpstreamError;
use crate::body::Body;
use crate::flow::Flow;
use crate::live::{LiveBody, Next};
use crate::spool::SpoolQuota;

/// The id of every request: a connection has one at a time, and small ids are what applications are
/// used to (§3.3).
pub(super) const ID: u16 = 1;

/// Part of a body that is written at once, and so held in memory beside the spool file: half of one
/// FastCGI record. A tenth would mean ten times the system calls; ten times more would be that much
/// memory for each upload.
const PIECE: usize = 32 * 1024;

/// Room for the head of most requests: parameters and the fields that browsers send. A tenth would
/// grow the buffer several times for each request; ten times more would be memory for nothing.
const HEAD: usize = 4096;

/// A request to an application. It can be asked more than once.
#[derive(Debug)]
pub struct Call {
    pub(super) protocol: Protocol,
    /// What describes the request, and as much of the streams as is short.
    head: Vec<u8>,
    /// What is not in the head: streams in their order.
    streams: Vec<(Stream, Body)>,
    /// The body that the client still sends, in HTTP.
    live: Option<Arc<LiveBody>>,
    /// Whether asking twice does no harm.
    pub(super) is_repeatable: bool,
    /// The flow that it belongs to, if it has to wait for a connection.
    pub(super) flow: Option<Flow>,
    /// What its response may take in files, if it may go there.
    pub(super) quota: Option<Arc<SpoolQuota>>,
}

/// What an application speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    FastCgi,
    Http(Expected),
    Http2(Expected),
}

/// What a request of HTTP expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// A head alone: its method is `HEAD`.
    pub is_head: bool,
    /// Most bytes of a response's head.
    pub largest_head: usize,
    /// A WebSocket, for which the request asks: see [`super::Tunnel`].
    pub websocket: bool,
}

/// How much of a call has been written.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Records that have been made, and how much of them is written.
    records: Vec<u8>,
    at: usize,
    head: usize,
    /// Streams that are in records to their end, and how much of the next one is.
    streams: usize,
    body: u64,
    /// Bytes of the live body, and whether its end has been reached.
    live: u64,
    has_ended: bool,
}

impl Call {
    /// A request of FastCGI with the parameters that `describe` adds, and a body. `keep`: the
    /// application is to keep the connection open.
    ///
    /// # Errors
    /// Those of `describe`.
    pub fn fastcgi<E>(
        role: Role,
        keep: bool,
        is_repeatable: bool,
        body: Body,
        describe: impl FnOnce(&mut encode::Params<'_>) -> Result<(), E>,
    ) -> Result<Call, E> {
        let mut head = Vec::with_capacity(HEAD);
        encode::begin(&mut head, ID, role, keep);
        let mut params = encode::Params::new(&mut head, ID);
        describe(&mut params)?;
        params.finish();
        let protocol = Protocol::FastCgi;
        Ok(Call::of(protocol, head, is_repeatable).with(Stream::Stdin, body))
    }

    /// A request of HTTP/1.1 with this head, which ends with an empty line and says how long the
    /// body is.
    pub fn http(head: Vec<u8>, expected: Expected, is_repeatable: bool, body: Body) -> Call {
        let protocol = Protocol::Http(expected);
        Call::of(protocol, head, is_repeatable).with(Stream::Stdin, body)
    }

    /// A request of HTTP/2 with these fields, pseudo-header fields first: names in small letters
    /// and values in turn, each with a line feed behind it.
    pub fn http2(fields: Vec<u8>, expected: Expected, is_repeatable: bool, body: Body) -> Call {
        let protocol = Protocol::Http2(expected);
        Call::of(protocol, fields, is_repeatable).with(Stream::Stdin, body)
    }

    /// The fields of a request of HTTP/2, by name and value.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut lines = self.head.split(|byte| *byte == b'\n');
        std::iter::from_fn(move || Some((lines.next()?, lines.next()?)))
    }

    /// The whole body of a request of HTTP/2, if it has one that the client does not send still.
    pub(super) fn whole_body(&self) -> Option<&Body> {
        self.streams.first().map(|(_, body)| body)
    }

    /// The body that the client still sends.
    pub(super) fn live(&self) -> Option<&LiveBody> {
        self.live.as_deref()
    }

    /// Whether the request can be made from its beginning.
    pub(super) fn can_begin_again(&self) -> bool {
        self.live.as_ref().is_none_or(|live| live.can_be_read_again())
    }

    /// The same with a body that the client still sends: in chunks, if it has no length.
    pub fn with_live(self, live: Option<Arc<LiveBody>>) -> Call {
        Call { live, ..self }
    }

    /// Whether the client still sends the body while the application has the request.
    pub(super) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    fn of(protocol: Protocol, head: Vec<u8>, is_repeatable: bool) -> Call {
        Call {
            protocol,
            head,
            streams: Vec::new(),
            live: None,
            is_repeatable,
            flow: None,
            quota: None,
        }
    }

    /// The same as one of this flow.
    pub fn with_flow(self, flow: Option<Flow>) -> Call {
        Call { flow, ..self }
    }

    /// The same with a response that may go to files for a slow client, as far as this quota
    /// allows.
    pub fn with_quota(self, quota: Arc<SpoolQuota>) -> Call {
        Call { quota: Some(quota), ..self }
    }

    /// The same with FCGI_DATA, for a filter.
    pub fn with_data(self, data: Body) -> Call {
        self.with(Stream::Data, data)
    }

    fn with(mut self, stream: Stream, body: Body) -> Call {
        let is_http2 = matches!(self.protocol, Protocol::Http2(_));
        let is_next = self.streams.is_empty() && !is_http2;
        match body {
            Body::Empty if is_http2 => {}
            Body::Empty if is_next => self.protocol.put(&mut self.head, stream, &[], true),
            Body::Memory(bytes) if bytes.len() <= PIECE && is_next => {
                self.protocol.put(&mut self.head, stream, &bytes, true);
            }
            other => self.streams.push((stream, other)),
        }
        self
    }

    /// Makes the next piece of a live body ready to be written, when all else is; false: there is
    /// no more.
    ///
    /// # Errors
    /// Fails if the client does not send the rest.
    pub(super) fn poll_live(
        &self,
        written: &mut Written,
        context: &mut Context<'_>,
    ) -> Poll<Result<bool, UpstreamError>> {
        let Some(live) = self.live.as_ref().filter(|_| !written.has_ended) else {
            return Poll::Ready(Ok(false));
        };
        let mut next = ready!(live.poll_next(context));
        // No bytes would be the last chunk.
        while matches!(&next, Next::Piece(piece) if piece.is_empty()) {
            next = ready!(live.poll_next(context));
        }
        written.records.clear();
        written.at = 0;
        let length = live.length();
        match (next, length) {
            (Next::Piece(piece), _) => {
                written.live += piece.len() as u64;
                if length.is_some_and(|length| written.live > length) {
                    return Poll::Ready(Err(UpstreamError::Cut));
                }
                written.has_ended = length == Some(written.live);
                if length.is_none() {
                    let size = format!("{:x}\r\n", piece.len());
                    written.records.extend_from_slice(size.as_bytes());
                }
                written.records.extend_from_slice(&piece);
                if length.is_none() {
                    written.records.extend_from_slice(b"\r\n");
                }
            }
            (Next::End(trailers), None) => {
                written.has_ended = true;
                for part in [b"0\r\n", &trailers[..], b"\r\n"] {
                    written.records.extend_from_slice(part);
                }
            }
            // Behind a body of a known length there is no place for trailers.
            (Next::End(_), Some(length)) if length == written.live => written.has_ended = true,
            (Next::End(_), Some(_)) | (Next::Cut, _) => {
                return Poll::Ready(Err(UpstreamError::Cut));
            }
        }
        Poll::Ready(Ok(true))
    }

    /// The bytes to write next; none when all is written.
    ///
    /// # Errors
    /// Fails if the file with the body cannot be read.
    pub(super) fn rest<'a>(&'a self, written: &'a mut Written) -> io::Result<&'a [u8]> {
        if written.head < self.head.len() {
            return Ok(&self.head[written.head..]);
        }
        if written.at == written.records.len()
            && let Some((stream, body)) = self.streams.get(written.streams)
        {
            written.records.clear();
            written.at = 0;
            let piece = body.read_at(written.body, PIECE)?;
            written.body += piece.len() as u64;
            let is_last = written.body == body.left();
            self.protocol.put(&mut written.records, *stream, &piece, is_last);
            if is_last {
                written.streams += 1;
                written.body = 0;
            }
        }
        Ok(&written.records[written.at..])
    }
}

impl Protocol {
    /// Puts bytes of a stream behind others; `is_last`: they are the last ones.
    fn put(self, out: &mut Vec<u8>, stream: Stream, bytes: &[u8], is_last: bool) {
        match self {
            Protocol::Http(_) | Protocol::Http2(_) => out.extend_from_slice(bytes),
            Protocol::FastCgi => {
                encode::stream(out, ID, stream, bytes);
                if is_last {
                    encode::stream_end(out, ID, stream);
                }
            }
        }
    }
}

impl Written {
    /// So many bytes more have been written.
    pub fn advance(&mut self, call: &Call, n: usize) {
        if self.head < call.head.len() {
            self.head += n;
        } else {
            self.at += n;
        }
    }

    /// Whether anything has been written.
    pub fn has_begun(&self) -> bool {
        self.head > 0
    }
}
