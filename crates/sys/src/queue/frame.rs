//! What stands in a response ring: whole frames, one after the other.
//!
//! ```text
//! frame   = kind (1 byte: 1 head, 2 interim, 3 body, 4 stderr, 5 usage, 6 trailers)  zero (3)  length (4, little endian)  payload
//! head    = status (2)  header count (2)  { name length (2)  zero (2)  value length (4)  name  value } …
//! usage = user CPU (8)  system CPU (8)  memory (8)  status (8)  { length (2)  bytes } × 3: script, URI, user
//! trailers = lines `name: value CR LF`, which may be divided anywhere
//! ```

use std::fmt;

/// The status by which a worker says that this request is for the workers of the site's fallback.
/// No response has it.
pub const DECLINED: u16 = 0;

pub(super) const FRAME_HEAD: usize = 8;
pub(super) const KIND_HEAD: u8 = 1;
pub(super) const KIND_INTERIM: u8 = 2;
pub(super) const KIND_BODY: u8 = 3;
pub(super) const KIND_STDERR: u8 = 4;
pub(super) const KIND_USAGE: u8 = 5;
pub(super) const KIND_TRAILERS: u8 = 6;

/// A piece of a response, copied out of the ring.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Status and headers of the response.
    Head(HeadFrame<'a>),
    /// Status and headers of an interim (1xx) response.
    Interim(HeadFrame<'a>),
    /// Bytes of the body.
    Body(&'a [u8]),
    /// Bytes for the error log of the web server that sent the request: FastCGI's standard error.
    Stderr(&'a [u8]),
    /// What the request was and what it cost.
    Usage(Usage<'a>),
    /// Bytes of the fields that follow the body (RFC 9110 section 6.5). They come whenever the
    /// script says them: before the head, too.
    Trailers(&'a [u8]),
}

/// What a worker found out about a request that came over FastCGI, for the access log. Its own
/// word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage<'a> {
    /// CPU time in the process's own code, in microseconds.
    pub user_cpu: u64,
    /// CPU time in the kernel, in microseconds.
    pub system_cpu: u64,
    /// Most bytes that PHP held.
    pub memory: u64,
    /// The status as PHP has it in the end; a script may have changed it after the response's head
    /// was sent.
    pub status: u16,
    /// The script's file; empty: none was found.
    pub script: &'a [u8],
    /// The path as URL that the request is taken for, without the query.
    pub uri: &'a [u8],
    /// The user of the request's authentication.
    pub user: &'a [u8],
}

impl<'a> Usage<'a> {
    fn parse(payload: &'a [u8]) -> Option<Usage<'a>> {
        let (numbers, mut rest) = payload.split_at_checked(32)?;
        let mut text = || {
            let (len, tail) = rest.split_at_checked(2)?;
            let (text, tail) = tail.split_at_checked(u16_at(len, 0).into())?;
            rest = tail;
            Some(text)
        };
        let (script, uri, user) = (text()?, text()?, text()?);
        let number = |n: usize| {
            u64::from(u32_at(numbers, 8 * n + 4)) << 32 | u64::from(u32_at(numbers, 8 * n))
        };
        let usage = Usage {
            user_cpu: number(0),
            system_cpu: number(1),
            memory: number(2),
            status: u16::try_from(number(3)).ok()?,
            script,
            uri,
            user,
        };
        rest.is_empty().then_some(usage)
    }

    /// Appends the payload; a text is cut to what its length can say.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        for number in [self.user_cpu, self.system_cpu, self.memory, self.status.into()] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for text in [self.script, self.uri, self.user] {
            let text = &text[..text.len().min(u16::MAX.into())];
            out.extend_from_slice(&(text.len() as u16).to_le_bytes());
            out.extend_from_slice(text);
        }
    }
}

/// Status and headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadFrame<'a> {
    /// The HTTP status; any number.
    pub status: u16,
    count: u16,
    /// The headers, for [`split_headers`].
    pub bytes: &'a [u8],
}

/// A frame that a sound worker does not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the worker's response is damaged: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

impl<'a> HeadFrame<'a> {
    /// Names and values in the order in which they were sent. Their bytes are unchecked.
    pub fn headers(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        split_headers(self.bytes)
    }

    fn parse(payload: &'a [u8]) -> Option<Self> {
        let (fixed, bytes) = payload.split_at_checked(4)?;
        let frame = HeadFrame { status: u16_at(fixed, 0), count: u16_at(fixed, 2), bytes };
        let mut rest = bytes;
        for _ in 0..frame.count {
            rest = split_header(rest)?.1;
        }
        rest.is_empty().then_some(frame)
    }
}

/// Splits the headers of a frame into names and values. [`split_frame`] has checked that they add
/// up.
pub fn split_headers(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (header, tail) = split_header(rest)?;
        rest = tail;
        Some(header)
    })
}

type Header<'a> = (&'a [u8], &'a [u8]);

fn split_header(bytes: &[u8]) -> Option<(Header<'_>, &[u8])> {
    let (fixed, rest) = bytes.split_at_checked(8)?;
    let (name, rest) = rest.split_at_checked(u16_at(fixed, 0).into())?;
    let (value, rest) = rest.split_at_checked(u32_at(fixed, 4) as usize)?;
    Some(((name, value), rest))
}

/// Takes the first frame off `bytes`; returns it and what follows.
///
/// # Errors
/// [`Malformed`].
pub fn split_frame(bytes: &[u8]) -> Result<(Frame<'_>, &[u8]), Malformed> {
    let (fixed, rest) = bytes.split_at_checked(FRAME_HEAD).ok_or(Malformed("half a frame head"))?;
    let (payload, rest) = rest
        .split_at_checked(u32_at(fixed, 4) as usize)
        .ok_or(Malformed("a frame longer than what was published"))?;
    let frame = match fixed[0] {
        KIND_BODY => Frame::Body(payload),
        KIND_HEAD => {
            Frame::Head(HeadFrame::parse(payload).ok_or(Malformed("headers that do not add up"))?)
        }
        KIND_INTERIM => Frame::Interim(
            HeadFrame::parse(payload).ok_or(Malformed("headers that do not add up"))?,
        ),
        KIND_STDERR => Frame::Stderr(payload),
        KIND_USAGE => Frame::Usage(
            Usage::parse(payload).ok_or(Malformed("a usage record that does not add up"))?,
        ),
        KIND_TRAILERS => Frame::Trailers(payload),
        _ => return Err(Malformed("a frame of unknown kind")),
    };
    Ok((frame, rest))
}

pub(super) fn frame_head(kind: u8, len: usize) -> [u8; FRAME_HEAD] {
    let mut head = [0; FRAME_HEAD];
    head[0] = kind;
    head[4..].copy_from_slice(&(len as u32).to_le_bytes());
    head
}

/// Appends the payload of a head frame. `false`: a name or the number of headers is too large.
pub(super) fn put_head<'a>(
    out: &mut Vec<u8>,
    status: u16,
    headers: impl Iterator<Item = Header<'a>>,
) -> bool {
    let at = out.len();
    out.extend_from_slice(&status.to_le_bytes());
    out.extend_from_slice(&[0, 0]);
    let mut count: u16 = 0;
    for (name, value) in headers {
        let (Ok(name_len), Some(next)) = (u16::try_from(name.len()), count.checked_add(1)) else {
            return false;
        };
        count = next;
        out.extend_from_slice(&name_len.to_le_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&(value.len() as u32).to_le_bytes());
        out.extend_from_slice(name);
        out.extend_from_slice(value);
    }
    out[at + 2..at + 4].copy_from_slice(&count.to_le_bytes());
    true
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn head_round_trip() {
        let mut payload = Vec::new();
        let headers: [(&[u8], &[u8]); 2] = [(b"Content-Type", b"text/html"), (b"X", b"")];
        assert!(put_head(&mut payload, 404, headers.into_iter()));
        let mut bytes = frame_head(KIND_HEAD, payload.len()).to_vec();
        bytes.extend_from_slice(&payload);
        bytes.extend_from_slice(b"rest");
        let (Frame::Head(head), rest) = split_frame(&bytes).unwrap() else { panic!("no head") };
        assert_eq!((head.status, rest), (404, &b"rest"[..]));
        assert!(head.headers().eq(headers));
    }

    #[test]
    fn usage_round_trip() {
        let usage = Usage {
            user_cpu: 1 << 40,
            system_cpu: 2,
            memory: u64::MAX,
            status: 404,
            script: b"/srv/a.php",
            uri: b"/a.php",
            user: b"",
        };
        let mut payload = Vec::new();
        usage.put(&mut payload);
        let mut bytes = frame_head(KIND_USAGE, payload.len()).to_vec();
        bytes.extend_from_slice(&payload);
        assert_eq!(split_frame(&bytes).unwrap(), (Frame::Usage(usage), &b""[..]));
        bytes[4] -= 1;
        assert!(split_frame(&bytes).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged_without_panic(bytes in proptest::collection::vec(0u8..8, 0..64)) {
            let mut rest = &bytes[..];
            while let Ok((frame, tail)) = split_frame(rest) {
                if let Frame::Head(h) | Frame::Interim(h) = frame {
                    prop_assert_eq!(h.headers().count(), usize::from(h.count));
                }
                rest = tail;
            }
        }
    }
}
