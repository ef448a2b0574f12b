//! What a worker writes to its standard output and error (`catch_workers_output`), as lines of the
//! error log: `[TIME] WARNING: [pool www] child 7 said into stderr: "…"`. Lines longer than
//! `log_limit` are continued in further ones.
//!
//! A worker may write anything here, and cannot forge a line or cut another's: what it writes is
//! one line per line, quoted, and the order to flush ([`FLUSH`]) is recognised wherever pieces of
//! it fall.

use std::time::SystemTime;

use crate::log::Style;
use crate::message::Level;

/// What a worker writes at the end of a request, so that what it said is not kept back for want of
/// a line's end.
pub const FLUSH: &[u8] = b"\0fscf\0";

/// Where a worker wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Descriptor 1.
    Stdout,
    /// Descriptor 2.
    Stderr,
}

impl Stream {
    /// Its name in a line of the log.
    pub const fn name(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }
    }
}

/// The output of one worker.
#[derive(Debug)]
pub struct WorkerOutput {
    style: Style,
    /// `decorate_workers_output`
    decorate: bool,
    /// `log_buffering`: lines are given out whole.
    buffer: bool,
    pool: String,
    pid: u32,
    from: Option<Stream>,
    /// The line so far, unless it has been given out already.
    line: Vec<u8>,
    /// The length of the line so far. 0: none has begun.
    len: usize,
    /// How much of [`FLUSH`] the last piece ended with, for each stream.
    held: [usize; 2],
}

impl WorkerOutput {
    /// A worker that has said nothing yet.
    pub fn new(style: Style, decorate: bool, buffer: bool, pool: &str, pid: u32) -> WorkerOutput {
        let pool = pool.to_string();
        WorkerOutput {
            style,
            decorate,
            buffer,
            pool,
            pid,
            from: None,
            line: Vec::new(),
            len: 0,
            held: [0; 2],
        }
    }

    /// Takes what was read from a stream, and gives what to write to the log now.
    pub fn feed(&mut self, stream: Stream, bytes: &[u8], now: SystemTime) -> Vec<u8> {
        let mut out = Vec::new();
        if self.from != Some(stream) {
            self.finish(&mut out);
            self.from = Some(stream);
        }
        let held = std::mem::take(&mut self.held[stream as usize]);
        let joined: Vec<u8>;
        let mut rest = bytes;
        if held > 0 {
            joined = [&FLUSH[..held], bytes].concat();
            rest = &joined;
        }
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n' || *byte == 0) {
            let (before, from) = rest.split_at(at);
            if from[0] == b'\n' {
                self.add(before, now, &mut out);
                self.finish(&mut out);
                rest = &from[1..];
            } else if from.starts_with(FLUSH) {
                self.add(before, now, &mut out);
                self.finish(&mut out);
                rest = &from[FLUSH.len()..];
            } else if FLUSH.starts_with(from) {
                self.add(before, now, &mut out);
                self.held[stream as usize] = from.len();
                return out;
            } else {
                self.add(&rest[..=at], now, &mut out);
                rest = &from[1..];
            }
        }
        self.add(rest, now, &mut out);
        out
    }

    /// Whether a line has begun that something may still have to end.
    pub fn is_unfinished(&self) -> bool {
        self.len > 0 || self.held != [0; 2]
    }

    /// The worker is gone: what is left of its last line.
    pub fn end(&mut self, now: SystemTime) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(stream) = self.from {
            let held = std::mem::take(&mut self.held[stream as usize]);
            self.add(&FLUSH[..held], now, &mut out);
        }
        self.finish(&mut out);
        out
    }

    fn add(&mut self, mut text: &[u8], now: SystemTime, out: &mut Vec<u8>) {
        let quote = usize::from(self.decorate);
        while !text.is_empty() {
            // Even where the head leaves no room, a line brings something.
            let mut least = 0;
            if self.len == 0 {
                let head = self.head(now);
                self.put(&head, out);
                least = 1;
            }
            // With the end of the line and the quote before it.
            let room = self.style.limit.saturating_sub(self.len + quote + 1).max(least);
            if text.len() <= room {
                self.put(text, out);
                return;
            }
            let (fits, rest) = text.split_at(room);
            self.put(fits, out);
            self.finish(out);
            text = rest;
        }
    }

    fn head(&self, now: SystemTime) -> Vec<u8> {
        let Some(stream) = self.from.filter(|_| self.decorate) else { return Vec::new() };
        let head = self.style.head(now, Level::Warning);
        let debug = match self.style.lowest {
            Level::Debug => format!("pid {}, said(), line {}: ", std::process::id(), line!()),
            _ => String::new(),
        };
        format!(
            "{head}{debug}[pool {}] child {} said into {}: \"",
            self.pool,
            self.pid,
            stream.name()
        )
        .into_bytes()
    }

    fn put(&mut self, text: &[u8], out: &mut Vec<u8>) {
        self.len += text.len();
        if self.buffer {
            self.line.extend_from_slice(text);
        } else {
            out.extend_from_slice(text);
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        if self.len == 0 {
            return;
        }
        out.append(&mut self.line);
        out.extend_from_slice(if self.decorate { b"\"\n" } else { b"\n" });
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use proptest::prelude::*;

    use super::*;

    fn said(decorate: bool, buffer: bool, limit: usize) -> WorkerOutput {
        WorkerOutput::new(Style { limit, ..Style::default() }, decorate, buffer, "www", 7)
    }

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn decorated_lines() {
        let mut said = said(true, true, 1024);
        let out = text(said.feed(Stream::Stderr, b"one\ntwo\nthr", UNIX_EPOCH));
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(
            lines[0].ends_with("] WARNING: [pool www] child 7 said into stderr: \"one\""),
            "{out}"
        );
        let out = text(said.feed(Stream::Stderr, b"ee\n\n", UNIX_EPOCH));
        assert!(out.ends_with("stderr: \"three\"\n") && out.lines().count() == 1, "{out}");
        assert_eq!(text(said.feed(Stream::Stdout, b"last", UNIX_EPOCH)), "");
        assert!(text(said.end(UNIX_EPOCH)).ends_with("said into stdout: \"last\"\n"));
        assert_eq!(said.end(UNIX_EPOCH), b"");
    }

    #[test]
    fn another_stream_ends_the_line() {
        let mut said = said(true, true, 1024);
        assert_eq!(said.feed(Stream::Stdout, b"a", UNIX_EPOCH), b"");
        assert!(text(said.feed(Stream::Stderr, b"b", UNIX_EPOCH)).ends_with("stdout: \"a\"\n"));
        assert!(text(said.end(UNIX_EPOCH)).ends_with("stderr: \"b\"\n"));
    }

    #[test]
    fn a_long_line_is_continued_and_every_line_but_the_last_is_as_long_as_it_may_be() {
        for (limit, length) in [(1024, 4000), (1050, 2048), (1050, 2900), (8000, 4096)] {
            for buffer in [true, false] {
                let mut said = said(true, buffer, limit);
                let message = "a".repeat(length);
                let out =
                    text(said.feed(Stream::Stderr, format!("{message}\n").as_bytes(), UNIX_EPOCH));
                let lines: Vec<&str> = out.split_inclusive('\n').collect();
                let (last, others) = lines.split_last().expect("a line");
                assert!(others.iter().all(|line| line.len() == limit), "{limit}");
                assert!(last.len() <= limit && last.ends_with("\"\n"));
                let all: String =
                    lines.iter().map(|line| line.split('"').nth(1).expect("a quote")).collect();
                assert_eq!(all, message);
            }
        }
    }

    #[test]
    fn a_line_that_is_full_is_not_added_to() {
        let mut said = said(false, true, 512);
        let mut out = said.feed(Stream::Stderr, &[b'a'; 511], UNIX_EPOCH);
        out.extend(said.feed(Stream::Stderr, b"b\n", UNIX_EPOCH));
        assert_eq!(text(out), format!("{}\nb\n", "a".repeat(511)));
    }

    #[test]
    fn a_head_longer_than_a_line_is_no_endless_loop() {
        let style = Style { limit: 512, ..Style::default() };
        let mut said = WorkerOutput::new(style, true, true, &"p".repeat(600), 7);
        assert_eq!(text(said.feed(Stream::Stderr, b"abc\n", UNIX_EPOCH)).lines().count(), 3);
    }

    #[test]
    fn plain_lines() {
        let mut said = said(false, true, 1000);
        let out = text(said.feed(
            Stream::Stderr,
            format!("{}\n", "b".repeat(2000)).as_bytes(),
            UNIX_EPOCH,
        ));
        let lengths: Vec<usize> = out.lines().map(str::len).collect();
        assert_eq!(lengths, [999, 999, 2]);
    }

    #[test]
    fn without_buffering_each_piece_goes_out_at_once() {
        let mut said = said(true, false, 1024);
        assert!(text(said.feed(Stream::Stderr, b"a", UNIX_EPOCH)).ends_with("stderr: \"a"));
        assert_eq!(said.feed(Stream::Stderr, b"b", UNIX_EPOCH), b"b");
        assert_eq!(said.feed(Stream::Stderr, b"\n", UNIX_EPOCH), b"\"\n");
    }

    #[test]
    fn the_order_to_flush_is_no_text_wherever_it_is_cut() {
        for cut in 0..=FLUSH.len() {
            let mut said = said(false, true, 1024);
            let (head, tail) = FLUSH.split_at(cut);
            let mut out = said.feed(Stream::Stderr, &[b"one", head].concat(), UNIX_EPOCH);
            out.extend(said.feed(Stream::Stderr, &[tail, b"two"].concat(), UNIX_EPOCH));
            out.extend(said.end(UNIX_EPOCH));
            assert_eq!(text(out), "one\ntwo\n", "{cut}");
        }
    }

    #[test]
    fn what_only_begins_like_that_order_is_text() {
        let mut said = said(false, true, 1024);
        let mut out = said.feed(Stream::Stderr, b"a\0fs", UNIX_EPOCH);
        out.extend(said.feed(Stream::Stderr, b"cx\0", UNIX_EPOCH));
        out.extend(said.end(UNIX_EPOCH));
        assert_eq!(out, b"a\0fscx\0\n");
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_and_no_line_too_long(
            pieces in prop::collection::vec("[a\n\u{0}fsc]{0,30}|a{500,513}", 0..8),
            buffer: bool,
        ) {
            let mut said = said(false, buffer, 512);
            let mut out = Vec::new();
            for piece in &pieces {
                out.extend(said.feed(Stream::Stderr, piece.as_bytes(), UNIX_EPOCH));
            }
            out.extend(said.end(UNIX_EPOCH));
            prop_assert!(out.split(|byte| *byte == b'\n').all(|line| line.len() < 512));
            let all = pieces.concat().replace("\0fscf\0", "").replace('\n', "");
            prop_assert_eq!(String::from_utf8(out).expect("text").replace('\n', ""), all);
        }
    }
}
