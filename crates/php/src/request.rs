//! A request in the worker's own memory, in the shape that C reads.
//!
//! The record is copied out of the slot once: after `fastcgi_finish_request` the slot is somebody
//! else's while the script still reads `$_SERVER`. The memory is kept from request to request.

use std::ptr::null;

use tokamak_cost::RequestId;
use tokamak_sys::queue::record::{self, Field, Origin, Reader};
use tokamak_sys::queue::{CallWords, Doing, Job};

use crate::engine;
use crate::fastcgi::{self, Environment, Rules};
use crate::ffi;

const NOTHING: ffi::Text = ffi::Text { at: c"".as_ptr(), len: 0 };

/// What a request does after its response, for which there is no place in the queue.
static UNSEEN: Doing = Doing::unread();
/// What it calls then, and what it calls in a site that does not count calls.
static UNCOUNTED: CallWords = CallWords::unread();

/// The current request, or the last one.
pub struct Request {
    /// How a request over FastCGI finds its script.
    rules: Rules,
    record: Vec<u8>,
    environment: Environment,
    /// Headers and variables, or over FastCGI parameters.
    pairs: Vec<ffi::Pair>,
    shim: ffi::Request,
}

impl Request {
    /// Nothing yet. `index`: which it is among the requests under way.
    pub fn new(rules: Rules, index: u32) -> Request {
        let shim = ffi::Request {
            fields: [NOTHING; Field::ALL.len()],
            headers: null(),
            header_count: 0,
            parameters: null(),
            parameter_count: 0,
            body_len: 0,
            begun: 0,
            due: u64::MAX,
            doing: &raw const UNSEEN,
            calls: &raw const UNCOUNTED,
            is_fastcgi: 0,
            verdict: 0,
            index,
            ticket: 0,
            slot: ffi::NO_SLOT,
            padding: 0,
        };
        Request {
            rules,
            // Enough for most requests: in sealed mode each would let these grow anew.
            record: Vec::with_capacity(2048),
            environment: Environment::new(),
            pairs: Vec::with_capacity(32),
            shim,
        }
    }

    /// Its name, and when it is to end, in nanoseconds ([`tokamak_cost::now`]).
    pub fn begin(&mut self, id: RequestId, due: Option<u64>) {
        self.shim.begun = id.taken_at();
        self.shim.ticket = id.ticket();
        self.shim.due = due.unwrap_or(u64::MAX);
    }

    /// What it is called in the logs.
    pub fn id(&self) -> RequestId {
        RequestId::new(self.shim.begun, self.shim.ticket)
    }

    /// What it does is seen in the slot of this job, until [`Request::hide`].
    pub fn show(&mut self, job: &Job) {
        (self.shim.doing, self.shim.slot) = (job.doing(), job.slot());
    }

    /// What it calls is counted in the slot of this job, until [`Request::hide`].
    pub fn count_calls(&mut self, job: &Job) {
        self.shim.calls = job.calls();
    }

    /// Its slot is about to be another one's.
    pub fn hide(&mut self) {
        (self.shim.doing, self.shim.slot) = (&raw const UNSEEN, ffi::NO_SLOT);
        self.shim.calls = &raw const UNCOUNTED;
    }

    /// Takes a record over; false: it is none.
    pub fn take(&mut self, record: &[u8], body_len: u64) -> bool {
        self.pairs.clear();
        self.shim.body_len = body_len;
        match Origin::of(record) {
            Some(Origin::Http) => self.take_http(record),
            Some(Origin::FastCgi) => self.take_fastcgi(record),
            None => false,
        }
    }

    fn take_http(&mut self, record: &[u8]) -> bool {
        self.record.clear();
        self.record.extend_from_slice(record);
        let Some(reader) = Reader::new(&self.record) else { return false };
        for (value, field) in self.shim.fields.iter_mut().zip(Field::ALL) {
            *value = text(reader.field(*field));
        }
        let mut header_count = 0;
        for (name, value) in reader.pairs() {
            let variable = Reader::variable_name(name);
            header_count += usize::from(variable.is_none());
            self.pairs.push(ffi::Pair { name: text(variable.unwrap_or(name)), value: text(value) });
        }
        // Variables stand behind the headers.
        let variables = &self.pairs[header_count..];
        (self.shim.headers, self.shim.header_count) = (self.pairs.as_ptr(), header_count);
        (self.shim.parameters, self.shim.parameter_count) = (variables.as_ptr(), variables.len());
        (self.shim.is_fastcgi, self.shim.verdict) = (0, 0);
        true
    }

    fn take_fastcgi(&mut self, record: &[u8]) -> bool {
        let env = &mut self.environment;
        if !env.take(record) {
            return false;
        }
        let found = fastcgi::resolve(env, &self.rules, engine::file_kind);
        // Nothing is added from here on, so that texts stay where they are.
        let span = |span: Option<fastcgi::Span>| span.map_or(NOTHING, |span| text(env.text(span)));
        for (value, field) in self.shim.fields.iter_mut().zip(Field::ALL) {
            *value = match field {
                Field::ScriptFilename => span(found.script),
                Field::ScriptName => span(found.uri),
                _ => span(env.get(field.variable().as_bytes())),
            };
        }
        self.pairs.extend(env.pairs().map(|(n, v)| ffi::Pair { name: text(n), value: text(v) }));
        (self.shim.headers, self.shim.header_count) = (null(), 0);
        (self.shim.parameters, self.shim.parameter_count) = (self.pairs.as_ptr(), self.pairs.len());
        (self.shim.is_fastcgi, self.shim.verdict) = (1, found.verdict as u32);
        true
    }

    /// For C; valid until the next [`Request::take`].
    pub fn shim(&self) -> *const ffi::Request {
        &raw const self.shim
    }

    /// Whether it came over FastCGI.
    pub fn is_fastcgi(&self) -> bool {
        self.shim.is_fastcgi != 0
    }

    /// Length of its body.
    pub fn body_len(&self) -> u64 {
        self.shim.body_len
    }

    /// A field of the request; empty before the first one.
    pub fn field(&self, field: Field) -> &[u8] {
        self.bytes(self.shim.fields[field as usize])
    }

    /// The name of the trace that it belongs to, for the log; none if it says none.
    pub fn trace(&self) -> Option<&[u8]> {
        record::trace(self.pairs.iter().map(|pair| (self.bytes(pair.name), self.bytes(pair.value))))
    }

    /// The bytes of a text of `self.shim` or `self.pairs`.
    fn bytes(&self, text: ffi::Text) -> &[u8] {
        // SAFETY: points into `record` or `environment`, or to a static text; all live as long as
        // `self`, and are changed by `take` only, which sets the fields and the pairs anew.
        unsafe { std::slice::from_raw_parts(text.at.cast(), text.len) }
    }
}

/// A NUL follows: the reader has checked it, and the environment put it there.
fn text(bytes: &[u8]) -> ffi::Text {
    ffi::Text { at: bytes.as_ptr().cast(), len: bytes.len() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokamak_sys::queue::record::Writer;

    #[test]
    fn a_record_is_taken_over() {
        let mut writer = Writer::new();
        for field in Field::ALL {
            writer.field(*field, format!("{field:?}").as_bytes());
        }
        writer.header(b"Host", b"a").header(b"X", b"");
        let mut request = Request::new(Rules::default(), 0);
        assert_eq!(request.field(Field::Uri), b"");
        assert!(request.take(writer.bytes(), 7));
        assert_eq!(request.field(Field::Uri), b"Uri");
        assert_eq!((request.shim.header_count, request.shim.body_len), (2, 7));
        assert!(!request.take(b"nonsense", 0));
    }

    #[test]
    fn a_trace_is_named_if_it_has_a_name() {
        const TRACE: &[u8] = b"0af7651916cd43dd8448eb211c80319c";
        for (parent, expected) in [
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Some(TRACE)),
            ("00-0af7651916cd43dd8448eb211c80319c", None),
            ("00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None),
            ("00-0af7651916cd43dd8448eb211c8031 \"-b7ad6b7169203331-01", None),
            ("", None),
        ] {
            let mut writer = Writer::new();
            for field in Field::ALL {
                writer.field(*field, b"x");
            }
            writer.header(b"Host", b"a").header(b"Traceparent", parent.as_bytes());
            let mut request = Request::new(Rules::default(), 0);
            assert_eq!(request.trace(), None);
            assert!(request.take(writer.bytes(), 0));
            assert_eq!(request.trace(), expected, "{parent}");
        }
    }

    #[test]
    fn a_request_over_fastcgi_has_fields_and_parameters() {
        let mut writer = Writer::new();
        writer.begin_parameters();
        writer.parameter(b"REQUEST_METHOD", b"GET").parameter(b"SCRIPT_FILENAME", b"/none.php");
        writer.parameter(b"REQUEST_URI", b"/none.php?a=b").parameter(b"HTTP_HOST", b"a");
        let mut request = Request::new(Rules::default(), 0);
        assert!(request.take(writer.bytes(), 0) && request.is_fastcgi());
        assert_eq!(request.field(Field::Method), b"GET");
        assert_eq!(request.field(Field::Uri), b"/none.php?a=b");
        assert_eq!(request.field(Field::ScriptFilename), b"/none.php");
        assert_eq!((request.shim.header_count, request.shim.parameter_count), (0, 5));
    }
}
