//! One line of the access log, in one of the named formats. Values are escaped, so that nothing
//! that a client sends can end a field or a line.

use std::io::Write;
use std::time::SystemTime;

use tokamak_cost::{CallKind, Ledger};
use tokamak_trace::TraceContext;

use crate::clock::Clock;

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// The fields of a line. Texts are as the client sent them; an empty text means absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct AccessEntry<'a> {
    /// Address of the client.
    pub client: &'a [u8],
    /// Name from HTTP basic authentication.
    pub user: &'a [u8],
    /// Name of its site; empty if there is no other one.
    pub site: &'a [u8],
    /// Host that the request named.
    pub host: &'a [u8],
    /// Method.
    pub method: &'a [u8],
    /// Path and query.
    pub target: &'a [u8],
    /// Route of the configuration that it belongs to.
    pub route: &'a [u8],
    /// Its `X-Request-Id`.
    pub request_id: &'a [u8],
    /// `HTTP/1.0` or `HTTP/1.1`.
    pub protocol: &'a str,
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The port that the client has connected to.
    pub port: u16,
    /// Status of the response.
    pub status: u16,
    /// Bytes of the response's body.
    pub bytes: u64,
    /// `Referer`.
    pub referer: &'a [u8],
    /// `User-Agent`.
    pub agent: &'a [u8],
    /// Its place in a trace.
    pub trace: Option<TraceContext>,
    /// Further fields of its head, each behind its length.
    pub fields: &'a [u8],
}

impl AccessEntry<'_> {
    /// Appends the line as Apache and nginx write it: `client - user [time] "request" status bytes
    /// "referer" "agent"`.
    pub fn combined(&self, clock: &mut Clock, now: SystemTime, out: &mut Vec<u8>) {
        escape_or_dash(self.client, out);
        out.extend_from_slice(b" - ");
        // The field is not in quotes, so a space would shift the fields behind it.
        escape_word(self.user, out);
        out.extend_from_slice(b" [");
        out.extend_from_slice(clock.combined(now));
        out.extend_from_slice(b"] \"");
        escape(self.method, out);
        out.push(b' ');
        escape(self.target, out);
        out.push(b' ');
        out.extend_from_slice(self.protocol.as_bytes());
        out.extend_from_slice(b"\" ");
        number(u64::from(self.status), 1, out);
        out.push(b' ');
        number(self.bytes, 1, out);
        out.extend_from_slice(b" \"");
        escape_or_dash(self.referer, out);
        out.extend_from_slice(b"\" \"");
        escape_or_dash(self.agent, out);
        out.extend_from_slice(b"\"\n");
    }

    /// Appends the line as Apache's `vhost_combined`: `site:port` before the rest.
    pub fn vhost(&self, clock: &mut Clock, now: SystemTime, out: &mut Vec<u8>) {
        escape_or_dash(self.site, out);
        out.push(b':');
        number(self.port.into(), 1, out);
        out.push(b' ');
        self.combined(clock, now, out);
    }

    /// Appends the line as a JSON object, with the time spent in each phase and in calls in
    /// microseconds.
    pub fn json(&self, ledger: &Ledger, clock: &mut Clock, now: SystemTime, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"time\":\"");
        out.extend_from_slice(&clock.rfc3339(now));
        out.push(b'"');
        if let Some(id) = ledger.request() {
            // Writing to memory cannot fail.
            let _ = write!(out, ",\"id\":\"{id}\"");
        }
        if let Some(TraceContext { trace, span, .. }) = self.trace {
            let _ = write!(out, ",\"trace\":\"{trace}\",\"span\":\"{span}\"");
        }
        for (key, text) in [
            ("request_id", self.request_id),
            ("client", self.client),
            ("user", self.user),
            ("site", self.site),
            ("scheme", self.scheme.as_bytes()),
            ("host", self.host),
            ("method", self.method),
            ("target", self.target),
            ("route", self.route),
            ("protocol", self.protocol.as_bytes()),
            ("referer", self.referer),
            ("agent", self.agent),
        ] {
            if !text.is_empty() {
                out.extend_from_slice(b",\"");
                out.extend_from_slice(key.as_bytes());
                out.extend_from_slice(b"\":\"");
                json_text(text, out);
                out.push(b'"');
            }
        }
        out.extend_from_slice(b",\"status\":");
        number(u64::from(self.status), 1, out);
        out.extend_from_slice(b",\"bytes\":");
        number(self.bytes, 1, out);
        out.extend_from_slice(b",\"duration_us\":");
        number(ledger.total() / 1000, 1, out);
        out.extend_from_slice(b",\"phases_us\":{");
        for (at, (name, nanos)) in ledger.phases().enumerate() {
            out.extend_from_slice(if at == 0 { b"\"" } else { b",\"" });
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            microseconds(nanos, out);
        }
        out.push(b'}');
        if let Some(calls) = ledger.calls() {
            for kind in CallKind::ALL {
                let (name, sum) = (kind.name(), calls.of(kind));
                let _ = write!(out, ",\"{name}_calls\":{},\"{name}_us\":", sum.count);
                microseconds(sum.nanos, out);
            }
        }
        out.extend_from_slice(b"}\n");
    }
}

/// Appends nanoseconds as microseconds.
fn microseconds(nanos: u64, out: &mut Vec<u8>) {
    number(nanos / 1000, 1, out);
    out.push(b'.');
    number(nanos % 1000, 3, out);
}

/// Appends a number in at least `width` digits. Written by hand, because the standard formatting
/// costs more than the rest of a line.
pub(super) fn number(mut number: u64, width: usize, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    while number > 0 || digits.len() - at < width {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out.extend_from_slice(&digits[at..]);
}

pub(super) fn escape_or_dash(text: &[u8], out: &mut Vec<u8>) {
    if text.is_empty() { out.push(b'-') } else { escape(text, out) }
}

/// Appends text for use outside of quotes: everything but visible ASCII becomes `\xHH`.
pub(super) fn escape_word(text: &[u8], out: &mut Vec<u8>) {
    let text = if text.is_empty() { b"-" } else { text };
    escape_where(text, |byte| !byte.is_ascii_graphic() || matches!(byte, b'"' | b'\\'), out);
}

/// Appends text for use between double quotes: everything but visible ASCII and spaces becomes
/// `\xHH`.
pub(super) fn escape(text: &[u8], out: &mut Vec<u8>) {
    escape_where(text, |byte| !matches!(byte, b' '..=b'~') || matches!(byte, b'"' | b'\\'), out);
}

fn escape_where(mut text: &[u8], is_bad: impl Fn(u8) -> bool, out: &mut Vec<u8>) {
    while let Some(at) = text.iter().position(|&byte| is_bad(byte)) {
        let byte = text[at];
        out.extend_from_slice(&text[..at]);
        out.extend_from_slice(&[
            b'\\',
            b'x',
            HEX[usize::from(byte >> 4)],
            HEX[usize::from(byte & 15)],
        ]);
        text = &text[at + 1..];
    }
    out.extend_from_slice(text);
}

/// Appends text for use in a JSON string. Bytes that are not UTF-8 become the replacement
/// character.
pub(super) fn json_text(text: &[u8], out: &mut Vec<u8>) {
    // Try the whole text first: that is several times as fast as chunk by chunk, and nearly all
    // texts are valid.
    if let Ok(text) = std::str::from_utf8(text) {
        return json_str(text, out);
    }
    for chunk in text.utf8_chunks() {
        json_str(chunk.valid(), out);
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

fn json_str(text: &str, out: &mut Vec<u8>) {
    let mut text = text.as_bytes();
    while let Some(at) = text.iter().position(|byte| matches!(byte, 0..0x20 | 0x7f | b'"' | b'\\'))
    {
        let byte = text[at];
        out.extend_from_slice(&text[..at]);
        out.extend_from_slice(b"\\u00");
        out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        text = &text[at + 1..];
    }
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use proptest::prelude::*;
    use tokamak_cost::{CallSum, Calls, Phase, RequestId};

    use super::*;

    const NOON: Duration = Duration::from_millis(1_795_176_000_123);

    fn combined(line: &AccessEntry) -> String {
        let mut out = Vec::new();
        line.combined(&mut Clock::default(), UNIX_EPOCH + NOON, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn json(line: &AccessEntry, ledger: &Ledger) -> String {
        let mut out = Vec::new();
        line.json(ledger, &mut Clock::default(), UNIX_EPOCH + NOON, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn line() -> AccessEntry<'static> {
        AccessEntry {
            client: b"192.0.2.1",
            user: b"",
            site: b"",
            host: b"example.org",
            method: b"GET",
            target: b"/a?b=c",
            route: b"/a",
            request_id: b"",
            protocol: "HTTP/1.1",
            scheme: "https",
            port: 443,
            status: 200,
            bytes: 1234,
            referer: b"http://example.org/",
            agent: b"Browser/1.0 (like \"another\")",
            trace: None,
            fields: b"",
        }
    }

    #[test]
    fn lines_look_as_others_write_them() {
        assert_eq!(
            combined(&line()),
            "192.0.2.1 - - [20/Nov/2026:12:00:00 +0000] \"GET /a?b=c HTTP/1.1\" 200 1234 \
                \"http://example.org/\" \
             \"Browser/1.0 (like \\x22another\\x22)\"\n"
        );
        let bare = AccessEntry { user: b"ann b", referer: b"", agent: b"", ..line() };
        assert_eq!(
            combined(&bare),
            "192.0.2.1 - ann\\x20b [20/Nov/2026:12:00:00 +0000] \"GET /a?b=c HTTP/1.1\" 200 1234 \
                \"-\" \"-\"\n"
        );
    }

    #[test]
    fn a_line_may_begin_with_the_site() {
        let vhost = |site| {
            let mut out = Vec::new();
            let line = AccessEntry { site, ..line() };
            line.vhost(&mut Clock::default(), SystemTime::UNIX_EPOCH, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert!(vhost(b"shop.example").starts_with("shop.example:443 192.0.2.1 - - ["));
        assert!(vhost(b"").starts_with("-:443 192.0.2.1 - - ["));
    }

    #[test]
    fn json_has_the_phases() {
        let mut ledger = Ledger::begin(1_000_000);
        ledger.stamp(Phase::Head, 1_012_345);
        ledger.stamp(Phase::Php, 2_012_345);
        ledger.set_request(RequestId::new(0x1234, 0x56));
        assert_eq!(
            json(&AccessEntry { user: b"", ..line() }, &ledger),
            "{\"time\":\"2026-11-20T12:00:00.123Z\",\"id\":\"000000000000123400000056\",\
             \"client\":\"192.0.2.1\",\"scheme\":\"https\",\"host\":\"example.org\",\
             \"method\":\"GET\",\"target\":\"/a?b=c\",\"route\":\"/a\",\"protocol\":\"HTTP/1.1\",\"referer\":\"http://example.org/\",\
             \"agent\":\"Browser/1.0 (like \
             \\u0022another\\u0022)\",\"status\":200,\"bytes\":1234,\"duration_us\":1012,\
             \"phases_us\":{\"head\":12.345,\"php\":1000.000}}\n"
        );
    }

    #[test]
    fn json_names_the_site() {
        let text = json(&AccessEntry { site: b"my \"shop", ..line() }, &Ledger::begin(0));
        assert!(text.contains(",\"site\":\"my \\u0022shop\",\"scheme\":"), "{text}");
    }

    #[test]
    fn json_has_the_calls_if_they_are_counted() {
        let mut ledger = Ledger::begin(0);
        assert!(json(&line(), &ledger).ends_with(",\"phases_us\":{}}\n"));
        let sums = [CallSum { count: 3, nanos: 1_234_567 }, CallSum::default()];
        ledger.add_calls(&Calls { sums });
        let text = json(&line(), &ledger);
        let tail = "},\"sql_calls\":3,\"sql_us\":1234.567,\"http_calls\":0,\"http_us\":0.000}\n";
        assert!(text.ends_with(tail), "{text}");
    }

    proptest! {
        #[test]
        fn nothing_a_client_sends_can_forge_a_line(
            texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 7),
        ) {
            let [client, user, host, method, target, referer, agent] = &texts[..] else { unreachable!() };
            let line = AccessEntry { client, user, host, method, target, referer, agent, ..line() };

            let text = combined(&line);
            prop_assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n')));
            prop_assert_eq!(text.matches('\n').count(), 1);
            prop_assert_eq!(text.matches('"').count(), 6);

            let text = json(&line, &Ledger::begin(0));
            prop_assert_eq!(text.matches('\n').count(), 1);
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            for (key, sent) in [("client", client), ("target", target), ("agent", agent)] {
                let sent = String::from_utf8_lossy(sent);
                // Several wrong bytes in a row count as one here and as several there.
                let squeeze = |text: &str| text.replace('\u{fffd}', "");
                prop_assert_eq!(squeeze(value[key].as_str().unwrap_or("")), squeeze(&sent));
            }
        }
    }
}
