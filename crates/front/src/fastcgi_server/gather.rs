//! Collects a request that is coming: first the parameters, then the body.

use tokamak_config as config;
use tokamak_fastcgi::params::{Limits, Pairs};
use tokamak_fastcgi::{Role, Stream};
use tokamak_upstream::body::Body;
use tokamak_upstream::record::Writer;

use crate::failure::Failure;
use crate::fpm::parameter;
use crate::request::body::{Pace, Spool};

/// Most parameters of a request. Web servers send some dozens, and one for each header of the
/// client: a tenth of this might refuse requests with many headers. Ten times more would let a tiny
/// request cost much work.
const MOST_PARAMETERS: usize = 4096;

/// A request as far as it has come.
pub struct Gathering {
    /// Its parameters, in the form for the worker.
    pub record: Writer,
    /// Decodes the parameters; `None` once they are complete.
    pairs: Option<Pairs>,
    /// The length of the body that the web server announced.
    length: Option<u64>,
    spool: Spool,
    /// Most bytes of the body.
    most: u64,
    /// The pace of the body, once the parameters are complete.
    pace: Option<Pace>,
    role: Role,
    /// Streams that have not ended.
    open: Vec<Stream>,
}

/// Why a request cannot be read.
#[derive(Debug)]
pub enum GatherError {
    /// The records make no sense: the connection must be closed.
    Records(&'static str),
    /// The same, as an error of the codec.
    Codec(tokamak_fastcgi::Error),
    /// Only this request is wrong, and gets this answer.
    Request(Failure, &'static str),
}

impl From<tokamak_fastcgi::Error> for GatherError {
    fn from(error: tokamak_fastcgi::Error) -> GatherError {
        GatherError::Codec(error)
    }
}

impl Gathering {
    /// Begins a request of this role, within these limits.
    pub fn new(role: Role, limits: &config::Limits) -> Gathering {
        let mut record = Writer::new();
        let name: &[u8] = match role {
            Role::Authorizer => b"AUTHORIZER",
            Role::Filter => b"FILTER",
            Role::Responder | Role::Unknown(_) => b"RESPONDER",
        };
        record.begin_parameters().parameter(b"FCGI_ROLE", name);
        let open = match role {
            // An authorizer gets no body (section 6.3 of the specification).
            Role::Authorizer => vec![Stream::Params],
            Role::Responder | Role::Filter | Role::Unknown(_) => {
                vec![Stream::Params, Stream::Stdin]
            }
        };
        let pairs = Some(Pairs::new(Limits { bytes: limits.head, pairs: MOST_PARAMETERS }));
        let spool = Spool::new(limits.buffer, 0);
        Gathering { record, pairs, length: None, spool, most: limits.body, pace: None, role, open }
    }

    /// Whether more records may follow although the request is complete: some web servers end the
    /// standard input of an authorizer, which has none, and a filter gets a file.
    pub fn may_go_on(&self) -> bool {
        matches!(self.role, Role::Authorizer | Role::Filter)
    }

    /// The pace of the body. `None`: the parameters are still coming.
    pub fn pace(&self) -> Option<Pace> {
        self.pace
    }

    /// Whether the request is complete.
    pub fn is_complete(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether nothing more is needed, as for php-fpm: some web servers do not end the standard
    /// input, or begin none. A body of unknown length has to end, with its stream or because
    /// nothing follows, `ended`.
    pub fn is_sufficient(&self, ended: bool) -> bool {
        self.pairs.is_none()
            && match self.length {
                Some(length) => self.spool.len() == length,
                None => self.spool.len() == 0 && !self.may_have_body(ended),
            }
    }

    /// Whether a request without a length may have a body. In HTTP/1 it has one only with
    /// `Transfer-Encoding`, for which Caddy announces the length -1. HTTP/2 and 3 have no such
    /// field, so there the method decides.
    fn may_have_body(&self, ended: bool) -> bool {
        let parameter = |name| parameter(&self.record, name).filter(|value| !value.is_empty());
        let protocol = parameter(b"SERVER_PROTOCOL").unwrap_or_default();
        let is_unsaid = protocol.starts_with(b"HTTP/2") || protocol.starts_with(b"HTTP/3");
        let method = parameter(b"REQUEST_METHOD");
        parameter(b"HTTP_TRANSFER_ENCODING").is_some()
            || parameter(b"CONTENT_LENGTH").is_some()
            || (is_unsaid && !ended && matches!(method, Some(b"POST" | b"PUT" | b"PATCH")))
    }

    /// Adds bytes of a stream. The file for a Filter is dropped, because PHP has no way to read it.
    pub fn bytes(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), GatherError> {
        if let Some(pace) = &mut self.pace {
            pace.received(bytes.len(), tokamak_cost::now());
        }
        match stream {
            Stream::Params => {
                let Some(pairs) = &mut self.pairs else {
                    return Err(GatherError::Records("parameters after their end"));
                };
                let (record, length) = (&mut self.record, &mut self.length);
                pairs.feed(bytes, |name, value| {
                    if name == b"CONTENT_LENGTH" {
                        *length = number(value);
                    }
                    record.parameter(name, value);
                })?;
            }
            Stream::Stdin | Stream::Data if self.pairs.is_some() => {
                return Err(GatherError::Records("a body before the end of the parameters"));
            }
            Stream::Stdin if self.open.contains(&Stream::Stdin) => self.body(bytes)?,
            Stream::Stdin | Stream::Data => {}
            Stream::Stdout | Stream::Stderr => {
                return Err(GatherError::Records("an application's stream"));
            }
        }
        Ok(())
    }

    /// Ends a stream.
    pub fn end(&mut self, stream: Stream) -> Result<(), GatherError> {
        match (&self.pairs, stream) {
            (Some(pairs), Stream::Params) => pairs.finish()?,
            (Some(_), _) => {
                return Err(GatherError::Records("a body before the end of the parameters"));
            }
            (None, _) => {}
        }
        if self.pairs.take().is_some() {
            self.pace = Some(Pace::new(tokamak_cost::now()));
            if self.length.is_some_and(|said| said > self.most) {
                return Err(too_large());
            }
        }
        self.open.retain(|open| *open != stream);
        if stream == Stream::Stdin && self.length.is_some_and(|said| said > self.spool.len()) {
            return Err(GatherError::Request(
                Failure::BadRequest,
                "the body is shorter than CONTENT_LENGTH says",
            ));
        }
        Ok(())
    }

    fn body(&mut self, bytes: &[u8]) -> Result<(), GatherError> {
        // Bytes beyond the announced length are dropped, as in php-fpm.
        let wanted = self.length.map_or(u64::MAX, |said| said.saturating_sub(self.spool.len()));
        let bytes = &bytes[..bytes.len().min(usize::try_from(wanted).unwrap_or(usize::MAX))];
        if self.spool.len() + bytes.len() as u64 > self.most {
            return Err(too_large());
        }
        self.spool.put(bytes).map_err(|failure| GatherError::Request(failure, failure.text()))
    }

    /// The length of the body so far.
    pub fn body_len(&self) -> u64 {
        self.spool.len()
    }

    /// Takes the whole body.
    pub fn take_body(&mut self) -> Body {
        std::mem::replace(&mut self.spool, Spool::new(0, 0)).finish()
    }
}

fn too_large() -> GatherError {
    GatherError::Request(Failure::BodyTooLarge, Failure::BodyTooLarge.text())
}

/// Parses a plain decimal number. Anything else counts as absent.
fn number(value: &[u8]) -> Option<u64> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: config::Limits = config::Limits {
        head: 1000,
        headers: 0,
        body: 100,
        buffer: 16,
        spool: 0,
        send_rate: 0,
        connections: 1,
        client: config::ClientLimits::NONE,
    };

    fn gathering(role: Role) -> Gathering {
        Gathering::new(role, &LIMITS)
    }

    /// A request whose parameters are complete.
    fn with_length(length: &str) -> Gathering {
        let mut gathering = gathering(Role::Responder);
        let value = length.as_bytes();
        let pair = [&[14, value.len() as u8], &b"CONTENT_LENGTH"[..], value].concat();
        // However they are cut.
        for byte in pair {
            gathering.bytes(Stream::Params, &[byte]).unwrap();
        }
        gathering.end(Stream::Params).unwrap();
        gathering
    }

    fn all(gathering: &mut Gathering) -> Vec<u8> {
        let body = gathering.take_body();
        body.read_at(0, usize::MAX).unwrap().to_vec()
    }

    #[test]
    fn a_request_is_complete_when_its_streams_are() {
        for (role, name, streams) in [
            (Role::Responder, "RESPONDER", &[Stream::Params, Stream::Stdin][..]),
            (Role::Authorizer, "AUTHORIZER", &[Stream::Params]),
            (Role::Filter, "FILTER", &[Stream::Params, Stream::Stdin]),
        ] {
            let mut gathering = gathering(role);
            for stream in streams {
                assert!(!gathering.is_complete());
                gathering.end(*stream).unwrap();
            }
            assert!(gathering.is_complete());
            assert_eq!(parameter(&gathering.record, b"FCGI_ROLE"), Some(name.as_bytes()));
        }
    }

    #[test]
    fn a_body_that_has_come_need_not_end() {
        let pair = |name: &str, value: &str| {
            [&[name.len() as u8, value.len() as u8], name.as_bytes(), value.as_bytes()].concat()
        };
        let (length, chunked) = ("CONTENT_LENGTH", "HTTP_TRANSFER_ENCODING");
        let http2 = ("SERVER_PROTOCOL", "HTTP/2.0");
        // Whether it is enough now, and if nothing follows.
        for (method, parameters, body, now, ended) in [
            ("GET", &[][..], "", true, true),
            ("GET", &[(length, "0")], "", true, true),
            ("GET", &[(length, "3")], "ab", false, false),
            ("GET", &[(chunked, "chunked")], "", false, false),
            ("GET", &[http2], "", true, true),
            ("POST", &[], "", true, true),
            ("POST", &[(length, "")], "", true, true),
            ("POST", &[], "some", false, false),
            ("POST", &[(chunked, "chunked")], "", false, false),
            ("POST", &[(length, "-1")], "", false, false),
            ("POST", &[http2], "", false, true),
            ("PUT", &[http2, (length, "")], "", false, true),
            ("PUT", &[http2], "some", false, false),
            ("POST", &[(length, "0")], "", true, true),
            ("POST", &[(length, "3")], "ab", false, false),
            ("POST", &[(length, "3")], "abc", true, true),
            ("POST", &[(length, "3")], "abcd", true, true),
        ] {
            let mut gathering = gathering(Role::Responder);
            gathering.bytes(Stream::Params, &pair("REQUEST_METHOD", method)).unwrap();
            for (name, value) in parameters {
                gathering.bytes(Stream::Params, &pair(name, value)).unwrap();
            }
            assert!(!gathering.is_sufficient(true));
            gathering.end(Stream::Params).unwrap();
            if !body.is_empty() {
                gathering.bytes(Stream::Stdin, body.as_bytes()).unwrap();
            }
            let seen = (gathering.is_sufficient(false), gathering.is_sufficient(true));
            assert_eq!(seen, (now, ended), "{method} {parameters:?} {body}");
        }
    }

    #[test]
    fn a_body_has_the_length_that_was_said() {
        let long: &[u8] = b"longer than the memory for it";
        let mut exact = with_length("29");
        exact.bytes(Stream::Stdin, long).unwrap();
        exact.end(Stream::Stdin).unwrap();
        assert_eq!(all(&mut exact), long);

        let mut more = with_length("6");
        more.bytes(Stream::Stdin, b"long").unwrap();
        more.bytes(Stream::Stdin, b"er than said").unwrap();
        more.end(Stream::Stdin).unwrap();
        assert_eq!(all(&mut more), b"longer", "as php-fpm reads it");

        let mut less = with_length("7");
        less.bytes(Stream::Stdin, b"longer").unwrap();
        assert!(matches!(
            less.end(Stream::Stdin),
            Err(GatherError::Request(Failure::BadRequest, _))
        ));

        for nothing_said in ["", "-1", "+3", " 3", "3x", "99999999999999999999999"] {
            let mut unsaid = with_length(nothing_said);
            unsaid.bytes(Stream::Stdin, b"abc").unwrap();
            unsaid.end(Stream::Stdin).unwrap();
            assert_eq!(all(&mut unsaid), b"abc", "{nothing_said}");
        }
    }

    #[test]
    fn a_body_is_bounded() {
        let is_refused =
            |heard| matches!(heard, Err(GatherError::Request(Failure::BodyTooLarge, _)));
        let announced = |length: &[u8]| {
            let mut gathering = gathering(Role::Responder);
            let pair = [&[14, length.len() as u8], &b"CONTENT_LENGTH"[..], length].concat();
            gathering.bytes(Stream::Params, &pair).unwrap();
            gathering.end(Stream::Params)
        };
        assert!(announced(b"100").is_ok() && is_refused(announced(b"101")));
        let mut unsaid = with_length("");
        unsaid.bytes(Stream::Stdin, &[0; 60]).unwrap();
        assert!(is_refused(unsaid.bytes(Stream::Stdin, &[0; 41])));
    }

    #[test]
    fn streams_out_of_order_are_no_fastcgi() {
        assert!(matches!(
            gathering(Role::Responder).bytes(Stream::Stdin, b"x"),
            Err(GatherError::Records(_))
        ));
        assert!(matches!(
            gathering(Role::Responder).end(Stream::Stdin),
            Err(GatherError::Records(_))
        ));
        assert!(matches!(
            with_length("").bytes(Stream::Params, b"x"),
            Err(GatherError::Records(_))
        ));
        assert!(matches!(
            with_length("").bytes(Stream::Stdout, b"x"),
            Err(GatherError::Records(_))
        ));
        // A stream that has ended may be ended again, as empty streams are by some.
        assert!(with_length("").end(Stream::Params).is_ok());
    }

    #[test]
    fn parameters_that_lie_or_do_not_end_are_refused() {
        let feed = |bytes: &[u8]| gathering(Role::Responder).bytes(Stream::Params, bytes);
        assert!(matches!(feed(&[0xff; 10]), Err(GatherError::Codec(_))));
        assert!(matches!(feed(&[0; 1001]), Err(GatherError::Codec(_))));
        let mut cut = gathering(Role::Responder);
        cut.bytes(Stream::Params, b"\x05\x05abc").unwrap();
        assert!(matches!(cut.end(Stream::Params), Err(GatherError::Codec(_))));
        let mut many = Gathering::new(Role::Responder, &config::Limits { head: 1 << 20, ..LIMITS });
        assert!(matches!(
            many.bytes(Stream::Params, &[0; 2 * MOST_PARAMETERS + 2]),
            Err(GatherError::Codec(_))
        ));
    }
}
