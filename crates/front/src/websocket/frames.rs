//! Where the frames of a WebSocket begin and end (RFC 6455 section 5.2). A proxy that has something
//! to say itself may only do so between two of them.

/// The longest head of a frame: two bytes, a length of eight, a mask of four.
const LONGEST_HEAD: usize = 14;

/// Close code 1001: the server goes away.
const GOING_AWAY: [u8; 2] = 1001_u16.to_be_bytes();

/// Follows the frames of one direction.
#[derive(Debug, Default)]
pub struct Frames {
    head: [u8; LONGEST_HEAD],
    /// Bytes of the head that have come.
    length: usize,
    /// Bytes of the frame's payload that are still to come.
    payload: u64,
}

impl Frames {
    /// Whether the last frame is complete, and none has begun.
    pub fn is_between(&self) -> bool {
        self.length == 0 && self.payload == 0
    }

    /// Bytes have passed.
    pub fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            bytes = &bytes[self.step(bytes)..];
        }
    }

    /// How many of the bytes belong to the present frame, or to the next one if there is none.
    /// They have passed.
    pub fn pass_frame(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            at += self.step(&bytes[at..]);
            if self.is_between() {
                break;
            }
        }
        at
    }

    /// Takes some of the bytes, one at least, and not beyond the end of a frame.
    fn step(&mut self, bytes: &[u8]) -> usize {
        if self.payload > 0 {
            let count = usize::try_from(self.payload).map_or(bytes.len(), |n| n.min(bytes.len()));
            self.payload -= count as u64;
            return count;
        }
        self.head[self.length] = bytes[0];
        self.length += 1;
        if let Some(payload) = payload_behind(&self.head[..self.length]) {
            self.payload = payload;
            self.length = 0;
        }
        1
    }
}

/// The length of the payload, if the head is complete.
fn payload_behind(head: &[u8]) -> Option<u64> {
    let second = *head.get(1)?;
    let (length_bytes, short) = match second & 0x7F {
        126 => (2, 0),
        127 => (8, 0),
        short => (0, u64::from(short)),
    };
    let mask_bytes = if second & 0x80 == 0 { 0 } else { 4 };
    if head.len() < 2 + length_bytes + mask_bytes {
        return None;
    }
    let long = &head[2..2 + length_bytes];
    Some(long.iter().fold(short, |length, byte| length << 8 | u64::from(*byte)))
}

/// The frame that tells a client that the server goes away.
pub fn going_away_to_client() -> [u8; 4] {
    [0x88, 0x02, GOING_AWAY[0], GOING_AWAY[1]]
}

/// The same for an application, which expects a mask; one of zeros changes nothing.
pub fn going_away_to_application() -> [u8; 8] {
    [0x88, 0x82, 0, 0, 0, 0, GOING_AWAY[0], GOING_AWAY[1]]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(is_masked: bool, payload: &[u8]) -> Vec<u8> {
        let mask = if is_masked { 0x80 } else { 0 };
        let mut out = vec![0x82];
        match payload.len() {
            short @ 0..126 => out.push(mask | short as u8),
            middle @ 126..65_536 => {
                out.push(mask | 126);
                out.extend((middle as u16).to_be_bytes());
            }
            long => {
                out.push(mask | 127);
                out.extend((long as u64).to_be_bytes());
            }
        }
        out.extend(&[1, 2, 3, 4][..if is_masked { 4 } else { 0 }]);
        out.extend(payload);
        out
    }

    #[test]
    fn frames_of_all_lengths_end_where_they_end() {
        for length in [0, 1, 125, 126, 127, 65_535, 65_536, 100_000] {
            for is_masked in [false, true] {
                let frame = frame(is_masked, &vec![0x88; length]);
                let mut frames = Frames::default();
                frames.pass(&frame[..frame.len() - 1]);
                assert!(!frames.is_between(), "{length}");
                frames.pass(&frame[frame.len() - 1..]);
                assert!(frames.is_between(), "{length}");
                let two = [&frame[..], &frame].concat();
                assert_eq!(Frames::default().pass_frame(&two), frame.len());
            }
        }
    }

    #[test]
    fn what_the_server_says_is_a_frame() {
        for own in [&going_away_to_client()[..], &going_away_to_application()] {
            assert_eq!(Frames::default().pass_frame(own), own.len());
        }
    }

    #[test]
    fn a_length_beyond_all_bounds_is_a_long_frame() {
        let mut frames = Frames::default();
        frames.pass(&[0x82, 127, 255, 255, 255, 255, 255, 255, 255, 255, 0]);
        assert!(!frames.is_between());
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(
            payloads in prop::collection::vec((any::<bool>(), 0..300usize), 1..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let all: Vec<u8> = payloads
                .iter()
                .flat_map(|(is_masked, length)| frame(*is_masked, &vec![7; *length]))
                .collect();
            let cut = cut.index(all.len());
            let mut frames = Frames::default();
            frames.pass(&all[..cut]);
            frames.pass(&all[cut..]);
            prop_assert!(frames.is_between());
        }
    }
}
