//! Follows the frames on a client's control stream, of which the library ignores what it does not
//! know: how long they are, how many there are, and what they say of priorities.

/// Bytes of a frame on the control stream: its settings are some dozens. The library holds a whole
/// frame.
const FRAME: u64 = 4096;

/// The type of the stream (RFC 9114 section 6.2.1).
const CONTROL: u64 = 0x00;

/// The type of the frame that changes the priority of a request (RFC 9218 section 7.2).
const PRIORITY_UPDATE: u64 = 0xf0700;

/// Bytes of the longest number (RFC 9000 section 16).
const LONGEST: usize = 8;

/// A stream of one direction.
#[derive(Debug, Default)]
pub struct Control {
    position: Position,
    number: Number,
    /// The payload of a frame that says a priority, as far as it has come.
    update: Vec<u8>,
}

/// Where the next byte belongs.
#[derive(Clone, Copy, Debug, Default)]
enum Position {
    /// To the type of the stream.
    #[default]
    Stream,
    /// To the type of a frame.
    Type,
    /// To the length of a frame of this type.
    Length(u64),
    /// So many bytes of such a frame are missing.
    Payload(u64, u64),
    /// The stream is another one, of which the library reads nothing more.
    Other,
}

/// What a frame on the control stream says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlFrame {
    /// The request on this stream has another priority: the value of the field.
    Priority(u64, Vec<u8>),
    /// Something else.
    Other,
}

/// A frame is longer than any frame has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl Control {
    /// Takes the next bytes. Gives each frame that ends in them to `each`.
    ///
    /// # Errors
    /// Fails if a frame is too long.
    pub fn take(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(ControlFrame),
    ) -> Result<(), TooLong> {
        while !bytes.is_empty() {
            if let Position::Payload(kind, missing) = self.position {
                let here = bytes.len().min(usize::try_from(missing).unwrap_or(usize::MAX));
                let (payload, rest) = bytes.split_at(here);
                if kind == PRIORITY_UPDATE {
                    self.update.extend_from_slice(payload);
                }
                bytes = rest;
                self.missing(kind, missing - here as u64, &mut each);
                continue;
            }
            if let Position::Other = self.position {
                return Ok(());
            }
            let (first, rest) = bytes.split_at(1);
            bytes = rest;
            let Some(number) = self.number.push(first[0]) else { continue };
            match self.position {
                Position::Stream if number == CONTROL => self.position = Position::Type,
                Position::Stream => self.position = Position::Other,
                Position::Type => self.position = Position::Length(number),
                Position::Length(_) if number > FRAME => return Err(TooLong),
                Position::Length(kind) => self.missing(kind, number, &mut each),
                Position::Payload(..) | Position::Other => {}
            }
        }
        Ok(())
    }

    /// So many bytes of a frame are missing; at none it ends.
    fn missing(&mut self, kind: u64, missing: u64, each: &mut impl FnMut(ControlFrame)) {
        if missing > 0 {
            self.position = Position::Payload(kind, missing);
            return;
        }
        self.position = Position::Type;
        let update = std::mem::take(&mut self.update);
        let mut number = Number::default();
        let read = update.iter().enumerate();
        let stream = read.filter_map(|(at, byte)| Some((at, number.push(*byte)?))).next();
        each(match stream {
            Some((at, stream)) if kind == PRIORITY_UPDATE => {
                ControlFrame::Priority(stream, update[at + 1..].to_vec())
            }
            _ => ControlFrame::Other,
        });
    }
}

/// A number as far as it has come.
#[derive(Debug, Default)]
struct Number {
    bytes: [u8; LONGEST],
    come: usize,
}

impl Number {
    /// Takes a byte. Returns the number with its last one.
    fn push(&mut self, byte: u8) -> Option<u64> {
        self.bytes[self.come] = byte;
        self.come += 1;
        // The first two bits say how many bytes there are.
        let length = 1_usize << (self.bytes[0] >> 6);
        if self.come < length {
            return None;
        }
        self.come = 0;
        let [first, others @ ..] = self.bytes;
        let others = others.iter().take(length - 1);
        Some(others.fold(u64::from(first & 0x3f), |number, byte| number << 8 | u64::from(*byte)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(pieces: &[&[u8]]) -> Result<Vec<ControlFrame>, TooLong> {
        let (mut control, mut frames) = (Control::default(), Vec::new());
        for piece in pieces {
            control.take(piece, |frame| frames.push(frame))?;
        }
        Ok(frames)
    }

    /// Control stream, SETTINGS of two bytes, PRIORITY_UPDATE for stream 4, an empty frame.
    const STREAM: &[u8] = &[0, 4, 2, 6, 7, 0x80, 0x0f, 0x07, 0x00, 4, 4, b'u', b'=', b'1', 0x21, 0];

    #[test]
    fn frames_are_found_however_they_come() {
        let expected =
            [ControlFrame::Other, ControlFrame::Priority(4, b"u=1".to_vec()), ControlFrame::Other];
        assert_eq!(taken(&[STREAM]).unwrap(), expected);
        let single: Vec<&[u8]> = STREAM.chunks(1).collect();
        assert_eq!(taken(&single).unwrap(), expected);
        for at in 0..STREAM.len() {
            let (one, two) = STREAM.split_at(at);
            assert_eq!(taken(&[one, two]).unwrap(), expected, "{at}");
        }
    }

    #[test]
    fn long_frames_are_refused_and_other_streams_are_nobodys_business() {
        assert_eq!(taken(&[&[0, 4, 0x50, 0x01]]), Err(TooLong));
        assert_eq!(taken(&[&[0, 4, 0x50, 0x00]]), Ok(Vec::new()), "4096 bytes follow");
        assert_eq!(taken(&[&[2, 4, 0x50, 0x01], &[0xff; 100]]), Ok(Vec::new()), "QPACK's");
        assert_eq!(taken(&[&[0, 0x80, 0x0f, 0x07, 0x00, 1, 0xff]]), Ok(vec![ControlFrame::Other]));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(pieces: Vec<Vec<u8>>) {
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let _ = taken(&pieces);
        }
    }
}
