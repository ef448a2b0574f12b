//! The QUIC library as the HTTP/3 library sees it.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf};
use quinn::{ConnectionError, ReadError, VarInt, WriteError};

use super::control::Control;
use super::gate::Gate;
use super::shared::{Shared, number};

/// A connection.
pub struct Transport {
    quic: quinn::Connection,
    shared: Arc<Shared>,
    accepting: Option<Accepting<(quinn::SendStream, quinn::RecvStream)>>,
    accepting_one_way: Option<Accepting<quinn::RecvStream>>,
    opening: Opener,
}

type Accepting<S> = Pin<Box<dyn Future<Output = Result<S, ConnectionError>> + Send + Sync>>;

impl Transport {
    /// That of this connection.
    pub fn new(quic: quinn::Connection, shared: Arc<Shared>) -> Transport {
        let opening = Opener { quic: quic.clone(), opening: None };
        Transport { quic, shared, accepting: None, accepting_one_way: None, opening }
    }
}

/// Waits for what this future gives; another one is made the next time.
fn poll_slot<T>(
    slot: &mut Option<Accepting<T>>,
    make: impl FnOnce() -> Accepting<T>,
    cx: &mut Context<'_>,
) -> Poll<Result<T, ConnectionError>> {
    let result = ready!(slot.get_or_insert_with(make).as_mut().poll(cx));
    *slot = None;
    Poll::Ready(result)
}

impl quic::Connection<Bytes> for Transport {
    type RecvStream = RecvStream;
    type OpenStreams = Opener;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<RecvStream, ConnectionErrorIncoming>> {
        let Transport { quic, shared, accepting_one_way, .. } = self;
        let make = || -> Accepting<_> {
            let quic = quic.clone();
            Box::pin(async move { quic.accept_uni().await })
        };
        let stream = ready!(poll_slot(accepting_one_way, make, cx)).map_err(of_connection)?;
        let guard = Guard::OneWay(Control::default(), shared.clone());
        Poll::Ready(Ok(RecvStream { stream, guard }))
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream, ConnectionErrorIncoming>> {
        let Transport { quic, shared, accepting, .. } = self;
        let make = || -> Accepting<_> {
            let quic = quic.clone();
            Box::pin(async move { quic.accept_bi().await })
        };
        let (send, stream) = ready!(poll_slot(accepting, make, cx)).map_err(of_connection)?;
        let gate = shared.accept(&send);
        let send = SendStream { stream: send, writing: None, gate: Some(gate.clone()) };
        Poll::Ready(Ok(BidiStream {
            send,
            recv: RecvStream { stream, guard: Guard::Request(gate) },
        }))
    }

    fn opener(&self) -> Opener {
        Opener { quic: self.quic.clone(), opening: None }
    }
}

impl quic::OpenStreams<Bytes> for Transport {
    type BidiStream = BidiStream;
    type SendStream = SendStream;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream, StreamErrorIncoming>> {
        self.opening.poll_open_bidi(cx)
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SendStream, StreamErrorIncoming>> {
        self.opening.poll_open_send(cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.opening.close(code, reason);
    }
}

/// Opens the streams that a server has: those of its own control and of header compression.
pub struct Opener {
    quic: quinn::Connection,
    opening: Option<Accepting<quinn::SendStream>>,
}

impl quic::OpenStreams<Bytes> for Opener {
    type BidiStream = BidiStream;
    type SendStream = SendStream;

    /// A server opens none (RFC 9114 section 6.1).
    fn poll_open_bidi(
        &mut self,
        _: &mut Context<'_>,
    ) -> Poll<Result<BidiStream, StreamErrorIncoming>> {
        let error = io::Error::from(io::ErrorKind::Unsupported);
        Poll::Ready(Err(StreamErrorIncoming::Unknown(error.into())))
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SendStream, StreamErrorIncoming>> {
        let Opener { quic, opening } = self;
        let make = || -> Accepting<_> {
            let quic = quic.clone();
            Box::pin(async move { quic.open_uni().await })
        };
        let stream = ready!(poll_slot(opening, make, cx)).map_err(lost)?;
        Poll::Ready(Ok(SendStream { stream, writing: None, gate: None }))
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.quic.close(number(code.value()), reason);
    }
}

/// A request's stream.
pub struct BidiStream {
    send: SendStream,
    recv: RecvStream,
}

impl quic::BidiStream<Bytes> for BidiStream {
    type SendStream = SendStream;
    type RecvStream = RecvStream;

    fn split(self) -> (SendStream, RecvStream) {
        (self.send, self.recv)
    }
}

impl quic::RecvStream for BidiStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.recv.poll_data(cx)
    }

    fn stop_sending(&mut self, code: u64) {
        self.recv.stop_sending(code);
    }

    fn recv_id(&self) -> StreamId {
        self.recv.recv_id()
    }
}

impl quic::SendStream<Bytes> for BidiStream {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.send.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_finish(cx)
    }

    fn reset(&mut self, code: u64) {
        self.send.reset(code);
    }

    fn send_id(&self) -> StreamId {
        self.send.send_id()
    }
}

/// What stands between a stream that is read and the library.
enum Guard {
    /// A request's.
    Request(Arc<Gate>),
    /// One of one direction.
    OneWay(Control, Arc<Shared>),
}

/// A stream that is read.
pub struct RecvStream {
    stream: quinn::RecvStream,
    guard: Guard,
}

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        if let Guard::Request(gate) = &self.guard
            && !gate.is_open()
        {
            // Who has closed it polls again, and opens it before.
            return Poll::Pending;
        }
        let chunk = ready!(pin!(self.stream.read_chunk(usize::MAX, true)).poll(cx));
        let bytes = match chunk {
            Ok(chunk) => chunk.map(|chunk| chunk.bytes),
            Err(ReadError::Reset(code)) => return Poll::Ready(Err(ended(code))),
            Err(ReadError::ConnectionLost(error)) => return Poll::Ready(Err(lost(error))),
            Err(error) => return Poll::Ready(Err(StreamErrorIncoming::Unknown(error.into()))),
        };
        if let Some(bytes) = &bytes {
            let is_bearable = match &mut self.guard {
                Guard::Request(gate) => gate.read(bytes.len()),
                Guard::OneWay(control, shared) => shared.control(control, bytes),
            };
            if !is_bearable {
                self.stop_sending(Code::H3_EXCESSIVE_LOAD.value());
                return Poll::Ready(Err(ended(number(Code::H3_EXCESSIVE_LOAD.value()))));
            }
        }
        Poll::Ready(Ok(bytes))
    }

    fn stop_sending(&mut self, code: u64) {
        // It fails if all has come already.
        let _ = self.stream.stop(number(code));
    }

    fn recv_id(&self) -> StreamId {
        id(self.stream.id())
    }
}

/// A stream that is written.
pub struct SendStream {
    stream: quinn::SendStream,
    writing: Option<WriteBuf<Bytes>>,
    /// Of a request; gone when the stream has its end.
    gate: Option<Arc<Gate>>,
}

impl quic::SendStream<Bytes> for SendStream {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        let SendStream { stream, writing, .. } = self;
        while let Some(data) = writing
            && data.has_remaining()
        {
            let written = ready!(Pin::new(&mut *stream).poll_write(cx, data.chunk()));
            data.advance(match written {
                Ok(written) => written,
                Err(WriteError::Stopped(code)) => return Poll::Ready(Err(ended(code))),
                Err(WriteError::ConnectionLost(error)) => return Poll::Ready(Err(lost(error))),
                Err(error) => return Poll::Ready(Err(StreamErrorIncoming::Unknown(error.into()))),
            });
        }
        *writing = None;
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        if let Some(gate) = &self.gate {
            // It fails if the stream is closed, which the next write says.
            let _ = self.stream.set_priority(gate.rank());
        }
        self.writing = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.gate = None;
        let finished = self.stream.finish();
        Poll::Ready(finished.map_err(|error| StreamErrorIncoming::Unknown(error.into())))
    }

    fn reset(&mut self, code: u64) {
        self.gate = None;
        let _ = self.stream.reset(number(code));
    }

    fn send_id(&self) -> StreamId {
        id(self.stream.id())
    }
}

impl Drop for SendStream {
    /// quinn would let a response that breaks off look complete.
    fn drop(&mut self) {
        if self.gate.as_ref().is_some_and(|gate| gate.is_answered()) {
            let _ = self.stream.reset(number(Code::H3_INTERNAL_ERROR.value()));
        }
    }
}

fn of_connection(error: ConnectionError) -> ConnectionErrorIncoming {
    match error {
        ConnectionError::ApplicationClosed(close) => {
            ConnectionErrorIncoming::ApplicationClose { error_code: close.error_code.into() }
        }
        ConnectionError::TimedOut => ConnectionErrorIncoming::Timeout,
        error => ConnectionErrorIncoming::Undefined(Arc::new(error)),
    }
}

/// The error of a stream whose connection has ended.
fn lost(error: ConnectionError) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error: of_connection(error) }
}

/// The error of a stream that its client has ended.
fn ended(code: VarInt) -> StreamErrorIncoming {
    StreamErrorIncoming::StreamTerminated { error_code: code.into() }
}

fn id(stream: quinn::StreamId) -> StreamId {
    let number = u64::from(VarInt::from(stream));
    let id = StreamId::try_from(number);
    id.unwrap_or_else(|_| unreachable!("the numbers of QUIC's streams are below 2^62"))
}
