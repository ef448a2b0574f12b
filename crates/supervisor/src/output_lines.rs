//! Bytes that another process has written, as lines for the error log.

/// Longest line; a longer one is logged in parts. A stack trace in JSON fits. With a tenth it would
/// be cut; ten times more would be memory for each process, and lines that many log readers refuse.
const LONGEST: usize = 8 * 1024;

/// What has been read of a stream and is not logged yet.
#[derive(Debug, Default)]
pub struct OutputLines(Vec<u8>);

impl OutputLines {
    /// Takes bytes as they come, and passes on the lines that are complete.
    pub fn feed(&mut self, bytes: &[u8], mut write_line: impl FnMut(&str)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            for part in piece.chunks(LONGEST) {
                self.0.extend_from_slice(part);
                if self.0.len() >= LONGEST || part.ends_with(b"\n") {
                    self.end(&mut write_line);
                }
            }
        }
    }

    /// The stream has ended: passes on what is left.
    pub fn end(&mut self, mut write_line: impl FnMut(&str)) {
        let line = std::mem::take(&mut self.0);
        let line = line.trim_ascii_end();
        if !line.is_empty() {
            write_line(&escape(&String::from_utf8_lossy(line)));
        }
    }
}

/// So that a process cannot begin a line of its own in the log, or send escape sequences to a
/// terminal.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { escaped.extend(c.escape_default()) } else { escaped.push(c) }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut found) = (OutputLines::default(), Vec::new());
        pieces.iter().for_each(|piece| lines.feed(piece, |line| found.push(line.to_owned())));
        lines.end(|line| found.push(line.to_owned()));
        found
    }

    #[test]
    fn lines_are_whole_wherever_they_are_cut() {
        assert_eq!(split(&[b"one\ntw", b"o\n\nthree"]), ["one", "two", "three"]);
        assert_eq!(split(&[b"", b"\r\n"]), [""; 0]);
    }

    #[test]
    fn a_line_is_bounded_and_nothing_is_lost() {
        let lines = split(&[&[b'a'; 3 * LONGEST], b"b\n"]);
        assert_eq!(lines.concat().len(), 3 * LONGEST + 1);
        assert!(lines.iter().all(|line| line.len() <= LONGEST));
    }

    #[test]
    fn nothing_controls_a_terminal() {
        assert_eq!(split(&[b"a\x1b[2Jb\rc\td\xff\n"]), ["a\\u{1b}[2Jb\\rc\\td\u{fffd}"]);
    }
}
