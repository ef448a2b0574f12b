//! Lines that wait for room in the error log, which may be a pipe that nobody reads. The supervisor
//! must not block on it: it has to replace processes and to answer the control socket.
//!
//! In the front a thread writes the log and may block. The supervisor forks, so it must have a
//! single thread. It therefore writes without blocking: what the pipe has no room for stays here,
//! and the supervisor's loop tries to write it again a few times a second.

use std::io;

/// Bytes that may wait: as many as of the front's lines.
const MOST: usize = 2 << 20;
/// Bytes of an entry that are written at once: as many as a pipe takes in one piece or not at all.
const AT_ONCE: usize = 4096;

/// The lines, oldest first.
#[derive(Debug, Default)]
pub struct Backlog {
    waiting: Vec<u8>,
    /// Lines for which there was no room here either, or that could not be written.
    lost: u64,
    /// The same, and those whose loss has been logged.
    all_lost: u64,
}

impl Backlog {
    /// None.
    pub const fn new() -> Backlog {
        Backlog { waiting: Vec::new(), lost: 0, all_lost: 0 }
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds lines, or drops and counts them if too many wait.
    pub fn add(&mut self, lines: &[u8]) {
        if self.waiting.len() + lines.len() > MOST {
            let lost = lines.split_inclusive(is_end).count() as u64;
            self.lost += lost;
            self.all_lost += lost;
        } else {
            self.waiting.extend_from_slice(lines);
        }
    }

    /// Writes as many as there is room for, each by itself and together with the indented ones that
    /// follow it, so that those of several processes do not mix.
    pub fn flush(&mut self, mut write: impl FnMut(&[u8]) -> io::Result<usize>) {
        let mut done = 0;
        let mut rest = &self.waiting[..];
        'lines: while !rest.is_empty() {
            let (mut line, after) = rest.split_at(end_of_entry(rest));
            rest = after;
            while !line.is_empty() {
                match write(line) {
                    Ok(count) => {
                        done += count;
                        line = &line[count..];
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break 'lines,
                    // There is nowhere to say so before a line can be written again.
                    Err(_) => {
                        self.lost += 1;
                        self.all_lost += 1;
                        done += line.len();
                        break;
                    }
                }
            }
        }
        self.waiting.drain(..done);
    }

    /// How many lines were lost so far.
    pub fn all_lost(&self) -> u64 {
        self.all_lost
    }

    /// How many lines are lost whose loss was not logged yet, once it can be.
    pub fn take_lost(&mut self) -> Option<u64> {
        (self.is_empty() && self.lost > 0).then(|| std::mem::take(&mut self.lost))
    }
}

/// Where the first entry ends: a line, and those below it that begin with a space, as many as can
/// be written at once.
fn end_of_entry(lines: &[u8]) -> usize {
    let mut end = 0;
    for line in lines.split_inclusive(is_end) {
        if end > 0 && (!line.starts_with(b" ") || end + line.len() > AT_ONCE) {
            break;
        }
        end += line.len();
    }
    end
}

fn is_end(byte: &u8) -> bool {
    *byte == b'\n'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was written, with a bar behind each write, while there was room for `room` bytes.
    fn flush(backlog: &mut Backlog, mut room: usize) -> String {
        let mut written = String::new();
        backlog.flush(|bytes| {
            let count = bytes.len().min(room);
            if count == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            room -= count;
            written += std::str::from_utf8(&bytes[..count]).unwrap();
            written.push('|');
            Ok(count)
        });
        written
    }

    #[test]
    fn lines_are_written_in_order_and_each_by_itself_as_there_is_room() {
        let mut backlog = Backlog::new();
        backlog.add(b"one\ntwo\n");
        backlog.add(b"three\n");
        assert_eq!(flush(&mut backlog, 0), "");
        assert_eq!(flush(&mut backlog, 6), "one\n|tw|");
        assert_eq!(flush(&mut backlog, 100), "o\n|three\n|");
        assert!(backlog.is_empty());
        assert_eq!(backlog.take_lost(), None);
    }

    #[test]
    fn an_entry_of_several_lines_is_written_at_once() {
        let mut backlog = Backlog::new();
        backlog.add(b"one\n    #0 f()\n    #1 g()\ntwo\n");
        backlog.add(b"three\n    end");
        let expected = "one\n    #0 f()\n    #1 g()\n|two\n|three\n    end|";
        assert_eq!(flush(&mut backlog, usize::MAX), expected);
    }

    #[test]
    fn a_long_entry_is_written_in_pieces_of_whole_lines() {
        let line = format!(" {}\n", "x".repeat(998));
        let lines = line.repeat(9);
        assert_eq!(end_of_entry(lines.as_bytes()), 4000);
        let long = format!("{}\n b\n", "x".repeat(2 * AT_ONCE));
        assert_eq!(end_of_entry(long.as_bytes()), 2 * AT_ONCE + 1);
    }

    #[test]
    fn lines_without_room_are_counted_and_reported_after_all_others() {
        let mut backlog = Backlog::new();
        let line = format!("{}\n", "x".repeat((1 << 20) - 1));
        backlog.add(line.as_bytes());
        backlog.add(line.as_bytes());
        backlog.add(b"no\nroom\n");
        assert_eq!(backlog.take_lost(), None, "two lines still wait");
        assert_eq!(flush(&mut backlog, usize::MAX).matches('|').count(), 2);
        assert_eq!(backlog.take_lost(), Some(2));
        assert_eq!(backlog.take_lost(), None);
    }

    #[test]
    fn what_cannot_be_written_is_counted_too() {
        let mut backlog = Backlog::new();
        backlog.add(b"one\ntwo\n");
        let mut errors = [io::ErrorKind::Interrupted, io::ErrorKind::StorageFull].into_iter();
        backlog.flush(|bytes| errors.next().map_or(Ok(bytes.len()), |kind| Err(kind.into())));
        assert!(backlog.is_empty());
        assert_eq!(backlog.take_lost(), Some(1));
    }
}
