//! Follows the frames of a client, and counts those that cost the server more than the client.
//!
//! The HTTP library bounds what the frames of a client make it keep. What they make it do it bounds
//! in part: it answers any number of PING and SETTINGS frames, and takes any number of requests
//! that are cancelled at once. So the meter sees every byte before the library, and counts.

use tokamak_nghttp2::Reason;

use super::order::Order;
use crate::counters::ProtocolFault;
use crate::http::multiplex::Budget;

/// The bytes that begin a connection (RFC 9113 section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Control frames that are due with a request: its CONTINUATION and PRIORITY frames, and window
/// updates for what it is answered.
const DUE_WITH_REQUEST: u64 = 10;

/// One control frame is due for so many bytes that the client gets: clients answer with one or two
/// window updates, at most for every DATA frame, the smallest of which have some twenty bytes.
const BYTES_FOR_DUE: u64 = 16;

/// DATA frames with nothing in them that a client may send. None is of use but the last of a body;
/// ten times fewer would end connections of clients that flush their buffers often.
const EMPTY_PIECES: usize = 100;

/// Bytes of a frame's head.
const FRAME_HEAD: usize = 9;

/// Bytes of a PING frame.
const PING_SIZE: u64 = 17;

/// Bytes of a RST_STREAM frame, by which a request is refused.
const RST_SIZE: u64 = 13;

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const DATA: u8 = 0;
/// The flag of PING and SETTINGS frames that answer one. They are not answered.
const ACK: u8 = 1;
/// The flag of DATA that ends a body.
const END_STREAM: u8 = 1;
/// The flag of HEADERS and CONTINUATION that ends a head.
const END_HEADERS: u8 = 4;

/// Why a connection ends though the library would go on with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http2Violation {
    /// It cancels requests.
    Resets,
    /// It sends frames that belong to no request.
    ControlFrames,
    /// It sends pieces of a body with nothing in them.
    EmptyPieces,
    /// It sends more on this stream, which it has ended.
    Ended(u32),
    /// It raises the window of this stream by nothing, for which the library would end the
    /// connection.
    NoIncrement(u32),
    /// It begins a stream that should have been begun before another one.
    Backwards,
}

impl Http2Violation {
    /// What it counts as.
    pub fn fault(self) -> ProtocolFault {
        match self {
            Http2Violation::Resets => ProtocolFault::Resets,
            Http2Violation::ControlFrames => ProtocolFault::ControlFrames,
            Http2Violation::EmptyPieces
            | Http2Violation::Ended(_)
            | Http2Violation::NoIncrement(_)
            | Http2Violation::Backwards => ProtocolFault::Protocol,
        }
    }

    /// The error code for the client.
    pub fn code(self) -> Reason {
        match self {
            Http2Violation::Resets
            | Http2Violation::ControlFrames
            | Http2Violation::EmptyPieces => Reason::ENHANCE_YOUR_CALM,
            Http2Violation::Ended(_) => Reason::STREAM_CLOSED,
            Http2Violation::NoIncrement(_) | Http2Violation::Backwards => Reason::PROTOCOL_ERROR,
        }
    }

    /// The text for the log.
    pub fn reason(self) -> &'static str {
        match self {
            Http2Violation::Resets => "too many cancelled requests (http2.resets)",
            Http2Violation::ControlFrames => "too many control frames (http2.control_frames)",
            Http2Violation::EmptyPieces => "ENHANCE_YOUR_CALM (too many empty DATA frames)",
            Http2Violation::Ended(_) => {
                "STREAM_CLOSED (a frame on a stream that the client has ended)"
            }
            Http2Violation::NoIncrement(_) => {
                "PROTOCOL_ERROR (a WINDOW_UPDATE without an increment)"
            }
            Http2Violation::Backwards => "PROTOCOL_ERROR (the streams are not in their order)",
        }
    }
}

/// Where in the stream of frames the next byte belongs.
#[derive(Debug)]
enum Position {
    /// So many bytes of the preface are missing.
    Preface(usize),
    /// In the head of a frame, of which so many bytes have come.
    Head(usize),
    /// So many bytes of a frame's payload are missing.
    Payload(usize),
}

/// Follows the frames of one client.
#[derive(Debug)]
pub struct Meter {
    position: Position,
    /// The head of the current frame, as far as it has come.
    head: [u8; FRAME_HEAD],
    /// Whether a request's head has begun and is not complete.
    in_head: bool,
    /// Whether the frame is the WINDOW_UPDATE of a stream, and its increment 0 so far.
    is_zero: bool,
    resets: Budget,
    control: Budget,
    empty: Budget,
    /// Heads that may come before a request is accepted. The others are refused, or are trailers.
    streams: usize,
    /// Heads that have come and are no accepted requests, at most `streams`.
    unaccepted: usize,
    /// Which streams the client has ended.
    order: Order,
    /// Bytes of answers to control frames, which are due to be sent. They earn nothing: frames
    /// that are answered would pay for themselves.
    answers: u64,
}

impl Meter {
    /// The meter of a new connection, with the limits of `http2.resets`, `http2.control_frames`
    /// and `http2.streams`. `now` is in nanoseconds.
    pub fn new(resets: usize, control: usize, streams: usize, now: u64) -> Meter {
        Meter {
            position: Position::Preface(PREFACE.len()),
            head: [0; FRAME_HEAD],
            in_head: true,
            is_zero: false,
            resets: Budget::new(resets, now),
            control: Budget::new(control, now),
            empty: Budget::new(EMPTY_PIECES, now),
            streams,
            unaccepted: 0,
            order: Order::default(),
            answers: 0,
        }
    }

    /// Follows the next bytes of the client. `now` is in nanoseconds.
    ///
    /// # Errors
    /// Fails if the client sends too many frames of a kind, one on a stream that has ended, or a
    /// wrong one. The bytes that have not been followed then begin in that frame.
    pub fn feed(&mut self, bytes: &mut &[u8], now: u64) -> Result<(), Http2Violation> {
        while !bytes.is_empty() {
            let used = match self.position {
                Position::Preface(missing) => {
                    let used = missing.min(bytes.len());
                    self.position = Position::Preface(missing - used);
                    if used == missing {
                        self.in_head = false;
                        self.position = Position::Head(0);
                    }
                    used
                }
                Position::Head(come) => {
                    let used = (FRAME_HEAD - come).min(bytes.len());
                    self.head[come..come + used].copy_from_slice(&bytes[..used]);
                    self.position = Position::Head(come + used);
                    if come + used == FRAME_HEAD
                        && let Err(violation) = self.frame(now)
                    {
                        // Without its last byte, it is no complete frame.
                        self.position = Position::Head(FRAME_HEAD - 1);
                        *bytes = &bytes[used - 1..];
                        return Err(violation);
                    }
                    used
                }
                Position::Payload(missing) => {
                    let used = missing.min(bytes.len());
                    if self.is_zero {
                        self.increment(&bytes[..used], missing);
                        if self.is_zero && used == missing {
                            self.is_zero = false;
                            // Without its last byte, as above. When that comes, it is right.
                            self.position = Position::Payload(1);
                            *bytes = &bytes[used - 1..];
                            return Err(Http2Violation::NoIncrement(self.stream()));
                        }
                    }
                    self.payload(missing - used);
                    used
                }
            };
            *bytes = &bytes[used..];
        }
        Ok(())
    }

    /// What comes on this stream, which the client has ended, is no violation from now on.
    pub fn ignore(&mut self, stream: u32) {
        self.order.ignore(stream);
    }

    /// Counts bytes that are sent to the client.
    pub fn sent(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        let answers = self.answers.min(bytes);
        self.answers -= answers;
        self.control.earn((bytes - answers) / BYTES_FOR_DUE);
    }

    /// Counts a request that has been accepted.
    pub fn accepted(&mut self) {
        self.unaccepted = self.unaccepted.saturating_sub(1);
    }

    /// Whether a request's head, or the beginning of the connection, has come in part.
    pub fn is_in_head(&self) -> bool {
        self.in_head
    }

    /// Whether the client has begun a connection of HTTP/2.
    pub fn has_begun(&self) -> bool {
        !matches!(self.position, Position::Preface(_))
    }

    /// A frame's head is complete.
    fn frame(&mut self, now: u64) -> Result<(), Http2Violation> {
        let [a, b, c, kind, flags, ..] = self.head;
        let stream = self.stream();
        let is_end = flags & END_STREAM != 0;
        match kind {
            DATA if [a, b, c] == [0; 3] && !is_end && !self.empty.spend(now) => {
                return Err(Http2Violation::EmptyPieces);
            }
            DATA => self.order.data(stream, is_end)?,
            HEADERS => {
                self.order.head(stream, is_end)?;
                self.in_head = true;
                if self.unaccepted < self.streams {
                    self.unaccepted += 1;
                    self.control.earn(DUE_WITH_REQUEST);
                } else if self.control.spend(now) {
                    self.answers += RST_SIZE;
                } else {
                    return Err(Http2Violation::ControlFrames);
                }
            }
            RST_STREAM if !self.resets.spend(now) => return Err(Http2Violation::Resets),
            RST_STREAM => self.order.end(stream),
            _ if !self.control.spend(now) => return Err(Http2Violation::ControlFrames),
            PING if flags & ACK == 0 => self.answers += PING_SIZE,
            WINDOW_UPDATE => self.is_zero = stream != 0 && [a, b, c] == [0, 0, 4],
            SETTINGS if flags & ACK == 0 => self.answers += FRAME_HEAD as u64,
            _ => {}
        }
        self.payload(u32::from_be_bytes([0, a, b, c]) as usize);
        Ok(())
    }

    /// The stream of the current frame. The first bit says nothing (RFC 9113 section 4.1).
    fn stream(&self) -> u32 {
        let [.., a, b, c, d] = self.head;
        u32::from_be_bytes([a, b, c, d]) & u32::MAX >> 1
    }

    /// Part of the payload of a WINDOW_UPDATE, of which so many bytes are missing. Its first bit
    /// says nothing.
    fn increment(&mut self, part: &[u8], missing: usize) {
        self.is_zero = part.iter().enumerate().all(|(at, byte)| {
            let counts = if missing - at == 4 { 0x7f } else { 0xff };
            byte & counts == 0
        });
    }

    /// So many bytes of the frame are missing.
    fn payload(&mut self, missing: usize) {
        if missing > 0 {
            self.position = Position::Payload(missing);
            return;
        }
        self.position = Position::Head(0);
        let [_, _, _, kind, flags, ..] = self.head;
        if matches!(kind, HEADERS | CONTINUATION) && flags & END_HEADERS != 0 {
            self.in_head = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const STREAMS: usize = 5;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let mut frame = (payload as u32).to_be_bytes()[1..].to_vec();
        frame.extend_from_slice(&[kind, flags, 0, 0, 0, 1]);
        frame.resize(FRAME_HEAD + payload, 0xff);
        frame
    }

    fn feed(meter: &mut Meter, mut bytes: &[u8], now: u64) -> Result<(), Http2Violation> {
        meter.feed(&mut bytes, now)
    }

    fn begun(resets: usize, control: usize) -> Meter {
        let mut meter = Meter::new(resets, control, STREAMS, 0);
        assert!(meter.is_in_head(), "the preface is missing");
        feed(&mut meter, PREFACE, 0).unwrap();
        assert!(!meter.is_in_head());
        meter
    }

    #[test]
    fn each_limit_holds_for_ten_seconds() {
        for (kind, violation) in
            [(RST_STREAM, Http2Violation::Resets), (PING, Http2Violation::ControlFrames)]
        {
            let mut meter = begun(20, 20);
            for _ in 0..20 {
                assert_eq!(feed(&mut meter, &frame(kind, 0, 4), SECOND), Ok(()));
            }
            assert_eq!(feed(&mut meter, &frame(kind, 0, 4), SECOND), Err(violation));
            let mut meter = begun(20, 20);
            for second in 0..100 {
                assert_eq!(feed(&mut meter, &frame(kind, 0, 4), second * SECOND), Ok(()));
                assert_eq!(feed(&mut meter, &frame(kind, 0, 4), second * SECOND), Ok(()));
            }
        }
    }

    #[test]
    fn requests_and_responses_make_control_frames_due() {
        let mut meter = begun(20, 20);
        for _ in 0..1000 {
            feed(&mut meter, &frame(HEADERS, END_HEADERS, 30), 0).unwrap();
            meter.accepted();
            for _ in 0..DUE_WITH_REQUEST {
                assert_eq!(feed(&mut meter, &frame(2, 0, 5), 0), Ok(()));
            }
            meter.sent(64);
            for _ in 0..4 {
                assert_eq!(feed(&mut meter, &frame(8, 0, 4), 0), Ok(()));
            }
        }
    }

    /// The default of `http2.control_frames` is meant.
    #[test]
    fn frames_that_are_answered_do_not_pay_for_themselves() {
        for (kind, size) in [(PING, 8), (SETTINGS, 0), (SETTINGS, 6)] {
            let mut meter = begun(20, 2000);
            let answer = if kind == PING { 17 } else { 9 };
            let count = (0..10_000)
                .take_while(|_| {
                    let verdict = feed(&mut meter, &frame(kind, 0, size), 0);
                    meter.sent(answer);
                    verdict.is_ok()
                })
                .count();
            assert_eq!(count, 2000, "frames of kind {kind}");
        }
    }

    #[test]
    fn heads_of_refused_requests_are_control_frames() {
        let head = frame(HEADERS, END_HEADERS, 30);
        let mut meter = begun(20, 20);
        for number in 0..STREAMS + 20 {
            assert_eq!(feed(&mut meter, &head, 0), Ok(()));
            if number == STREAMS + 9 {
                meter.sent(10 * RST_SIZE as usize);
            }
        }
        assert_eq!(feed(&mut meter, &head, 0), Err(Http2Violation::ControlFrames));
        // Requests with trailers are none.
        let mut meter = begun(20, 20);
        for _ in 0..1000 {
            assert_eq!(feed(&mut meter, &head, 0), Ok(()));
            meter.accepted();
            assert_eq!(feed(&mut meter, &head, 0), Ok(()));
        }
    }

    #[test]
    fn a_head_is_seen_until_its_end() {
        let mut meter = begun(20, 20);
        let is_in_head = |meter: &mut Meter, bytes: &[u8]| {
            feed(meter, bytes, 0).unwrap();
            meter.is_in_head()
        };
        let head = frame(HEADERS, 0, 30);
        assert!(!is_in_head(&mut meter, &head[..8]));
        assert!(is_in_head(&mut meter, &head[8..20]));
        assert!(is_in_head(&mut meter, &head[20..]));
        assert!(is_in_head(&mut meter, &frame(CONTINUATION, 0, 0)));
        assert!(!is_in_head(&mut meter, &frame(CONTINUATION, END_HEADERS, 3)));
        assert!(!is_in_head(&mut meter, &frame(DATA, END_HEADERS, 3)));
        assert!(!is_in_head(&mut meter, &frame(HEADERS, END_HEADERS, 0)));
    }

    #[test]
    fn a_frame_on_an_ended_stream_is_not_followed_unless_it_is_ignored() {
        let late = frame(DATA, END_STREAM, 3);
        let bytes = [frame(HEADERS, END_HEADERS | END_STREAM, 30), late.clone()].concat();
        let mut meter = begun(20, 20);
        let mut rest = &bytes[..];
        assert_eq!(meter.feed(&mut rest, 0), Err(Http2Violation::Ended(1)));
        assert_eq!(rest, &late[FRAME_HEAD - 1..]);
        assert_eq!(meter.feed(&mut rest, 0), Err(Http2Violation::Ended(1)));
        meter.ignore(1);
        assert_eq!((meter.feed(&mut rest, 0), rest), (Ok(()), &[][..]));
        assert_eq!(feed(&mut meter, &frame(PING, 0, 8), 0), Ok(()));
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_the_bytes_are_split(
            frames in prop::collection::vec((0u8..12, 0u8..8, 0usize..40), 0..60),
            sizes in prop::collection::vec(1usize..50, 1..50),
        ) {
            let mut bytes = PREFACE.to_vec();
            frames.iter().for_each(|&(kind, flags, size)| bytes.extend(frame(kind, flags, size)));
            let mut whole = Meter::new(9, 20, STREAMS, 0);
            let expected = feed(&mut whole, &bytes, 0);
            let mut split = Meter::new(9, 20, STREAMS, 0);
            let mut rest = &bytes[..];
            let mut verdict = Ok(());
            for size in sizes.iter().cycle() {
                let (piece, after) = rest.split_at((*size).min(rest.len()));
                verdict = feed(&mut split, piece, 0);
                rest = after;
                if rest.is_empty() || verdict.is_err() {
                    break;
                }
            }
            prop_assert_eq!(verdict, expected);
            if expected.is_ok() {
                prop_assert_eq!(split.is_in_head(), whole.is_in_head());
            }
        }
    }
}
