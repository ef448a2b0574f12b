//! Frames in any order, of any kind and size: what h2spec does not send. Whatever comes, the
//! connection goes on or ends with a GOAWAY, and nothing else suffers.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;

use crate::harness::{Kind, Server, Setup, eventually};
use crate::operate::status;

use super::client::{PATIENCE, field, frame, head};

/// Connections of the test, each with frames from a seed of its own.
/// `TOKAMAK_HTTP2_CASES` sets another number.
const CASES: u64 = 400;

/// Frames of a connection, at most.
const FRAMES: u64 = 40;

/// Bytes that the server may answer to each frame: a whole response with its head.
pub const FOR_EACH: usize = 2048;

/// Memory that the front may hold more after all cases, in KiB. Each leaves at most so much that
/// all of them together stay below this.
const GROWTH: u64 = 8 * 1024;

/// The payload of the last PING, by which its answer is known.
const LAST: [u8; 8] = *b"the last";

const GOAWAY: u8 = 7;
const PING: u8 = 6;
const ACK: u8 = 1;

/// Numbers from a seed (splitmix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn bytes(&mut self, count: u64) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    /// A frame that is right after requests up to this stream.
    fn right(&mut self, last: &mut u32) -> Vec<u8> {
        match self.below(8) {
            0..3 => {
                *last += 2;
                frame(1, 5, *last, &head("GET", self.one(&["/small.txt", "/missing"])))
            }
            3 => frame(PING, self.below(2) as u8, 0, &self.next().to_be_bytes()),
            4 => frame(4, 0, 0, &[0, self.one(&[1, 3, 6, 9]), 0, 0, self.next() as u8, 0]),
            5 => frame(8, 0, self.one(&[0, *last]), &(1 + self.below(1000) as u32).to_be_bytes()),
            6 => frame(3, 0, *last, &8_u32.to_be_bytes()),
            _ => {
                let (kind, size) = (10 + self.below(246) as u8, self.below(100));
                frame(kind, self.next() as u8, self.next() as u32, &self.bytes(size))
            }
        }
    }

    /// A frame that may be wrong: most are nearly right, some are anything.
    fn wrong(&mut self) -> Vec<u8> {
        let stream = match self.below(8) {
            0 => 0,
            1..6 => 1 + 2 * self.below(12) as u32,
            6 => self.one(&[2, 4, 0x7fff_ffff, 0x8000_0001, u32::MAX]),
            _ => self.next() as u32,
        };
        let flags = match self.below(3) {
            0 => self.next() as u8,
            _ => self.one(&[0, 1, 4, 5, 8, 0x20, 0x25, 0x2d]),
        };
        match self.below(10) {
            0..3 => frame(1, flags & !0x28 | 4, stream, &self.fields()),
            3 => frame(0, flags & !8, stream, &vec![0; self.below(300) as usize]),
            4 => frame(8, flags, stream, &(self.next() as u32).to_be_bytes()),
            5 => {
                let mut settings = vec![0, self.below(10) as u8];
                settings.extend_from_slice(&(self.next() as u32 >> self.below(32)).to_be_bytes());
                frame(4, 0, 0, &settings)
            }
            6 => frame(3, flags, stream, &(self.below(16) as u32).to_be_bytes()),
            7 => frame(9, flags, stream, &self.fields()),
            8 => {
                let size = self.one(&[0, 1, 4, 5, 6, 8, 9, 64, 16_384, 16_385, 40_000]);
                let kind = self.below(14) as u8;
                let payload = self.bytes(size);
                frame(kind, flags, stream, &payload)
            }
            _ => {
                let (kind, size) = (self.next() as u8, self.below(100));
                let payload = self.bytes(size);
                frame(kind, flags, stream, &payload)
            }
        }
    }

    /// The fields of a head, or something like it.
    fn fields(&mut self) -> Vec<u8> {
        let method = self.one(&["GET", "GET", "POST", "HEAD", "OPTIONS", "", "g"]);
        let path = self.one(&["/small.txt", "/small.txt", "/missing", "*", "", "/\u{7f}"]);
        let mut fields = head(method, path);
        match self.below(6) {
            0 => fields.extend_from_slice(&field("connection", "close")),
            1 => fields.extend_from_slice(&field("content-length", "3")),
            2 => fields.extend_from_slice(&self.bytes(20)),
            3 => fields.truncate(self.below(fields.len() as u64) as usize),
            _ => {}
        }
        fields
    }
}

/// What the client of a seed sends: frames, and then a PING. Returns the number of frames, too.
pub fn begins(seed: u64) -> (Vec<u8>, usize) {
    let mut chance = Chance(seed);
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    if chance.below(10) > 0 {
        bytes.extend_from_slice(&frame(4, 0, 0, &[]));
    }
    let count = 1 + chance.below(FRAMES) as usize;
    // Of so many frames one may be wrong.
    let (one_of, mut last) = (chance.one(&[1, 4, 16, u64::MAX]), 1);
    bytes.extend_from_slice(&frame(1, 5, last, &head("GET", "/small.txt")));
    for _ in 0..count {
        let is_right = chance.below(one_of) > 0;
        bytes.extend_from_slice(&if is_right { chance.right(&mut last) } else { chance.wrong() });
    }
    bytes.extend_from_slice(&frame(PING, 0, 0, &LAST));
    (bytes, count)
}

/// The answer to the PING.
pub fn last_answer() -> Vec<u8> {
    frame(PING, ACK, 0, &LAST)
}

/// Sends the frames of a seed and then a PING. Returns what the server sent, until it answered that
/// PING or closed the connection.
fn send_invented_frames(server: &Server, seed: u64) -> (Vec<u8>, usize) {
    let (bytes, count) = begins(seed);
    let mut stream = TcpStream::connect(server.address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut sending = stream.try_clone().unwrap();
    let sender = thread::spawn(move || {
        // The server may close the connection before it has all of it.
        let _ = sending.write_all(&bytes);
    });
    let answer = last_answer();
    let (mut got, mut piece) = (Vec::new(), [0; 16 * 1024]);
    while !contains(&got, &answer) {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => got.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("seed {seed}: neither an answer nor an end: {error}"),
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
    sender.join().expect("no panic");
    (got, count)
}

pub fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// The kinds of the frames that the server sent.
pub fn kinds(mut bytes: &[u8]) -> Vec<u8> {
    let mut kinds = Vec::new();
    while let [a, b, c, kind, ..] = *bytes {
        kinds.push(kind);
        let end = 9 + u32::from_be_bytes([0, a, b, c]) as usize;
        bytes = bytes.get(end..).unwrap_or_default();
    }
    kinds
}

/// Memory that the front has written and no other process has, in KiB. What is only read, as the
/// program itself, becomes private when the server of another test ends, and says nothing.
fn held(server: &Server) -> u64 {
    let front = &status(server)["front_pid"];
    let text = fs::read_to_string(format!("/proc/{front}/smaps_rollup")).expect("a front");
    let of = |name: &str| -> Option<u64> {
        text.lines()
            .find_map(|line| line.strip_prefix(name))?
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    };
    of("Private_Dirty:").expect("a number") + of("Swap:").expect("a number")
}

#[test]
fn any_frames_are_answered_or_end_the_connection() {
    let server = Setup::new(Kind::Classic).line("loops = 1").start();
    fs::write(server.places.root().join("small.txt"), "x".repeat(1000)).unwrap();
    let asked = std::env::var("TOKAMAK_HTTP2_CASES").ok();
    let cases = asked.and_then(|text| text.parse().ok()).unwrap_or(CASES);
    // What the first connections take is there for all others.
    (0..20).for_each(|seed| drop(send_invented_frames(&server, seed)));
    let (front, before) = (status(&server)["front_pid"].clone(), held(&server));
    let (mut going_on, mut ended) = (0, 0);
    for seed in 0..cases {
        let (got, frames) = send_invented_frames(&server, seed);
        assert!(got.len() <= FOR_EACH * (frames + 2), "seed {seed}: {} bytes", got.len());
        if contains(&got, &last_answer()) {
            going_on += 1;
        } else if kinds(&got).contains(&GOAWAY) {
            ended += 1;
        }
        // Else a reset has taken the GOAWAY with it: bytes of the client were on their way.
    }
    assert!(going_on > cases / 5, "{going_on} of {cases} connections go on");
    assert!(ended > cases / 5, "{ended} of {cases} connections end with GOAWAY");
    // What was free before may have been given back to the system by then, and is given back again.
    let mut after = 0;
    let is_given_back = || {
        after = held(&server);
        (after < before + GROWTH).then_some(())
    };
    assert!(eventually(PATIENCE, is_given_back).is_some(), "{before} KiB before, {after} after");
    assert_eq!(status(&server)["front_pid"], front, "no panic");
    assert!(!server.log().contains("panicked"), "{}", server.log());
    assert_eq!(server.get("/small.txt").expect(200).body.len(), 1000);
    println!(
        "{cases} connections: {going_on} go on, {ended} end with GOAWAY, {before}→{after} KiB"
    );
}
