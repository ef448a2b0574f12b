//! One line of the access log by a pattern of the configuration.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use tokamak_config::{LogPart, LogPattern, LogVariable};
use tokamak_cost::{Ledger, Phase};

use super::AccessEntry;
use super::line::{escape, escape_or_dash, escape_word, json_text, number};
use crate::clock::Clock;

/// How values that a client chose are written, so that none of them ends a field or a line.
#[derive(Clone, Copy)]
enum Escape {
    Quoted,
    Word,
    Json,
}

impl Escape {
    /// Appends a value; an empty one is a dash, but in JSON.
    fn value(self, text: &[u8], out: &mut Vec<u8>) {
        match self {
            Escape::Quoted => escape_or_dash(text, out),
            Escape::Word => escape_word(text, out),
            Escape::Json => json_text(text, out),
        }
    }

    /// Appends a part of a value.
    fn part(self, text: &[u8], out: &mut Vec<u8>) {
        match self {
            Escape::Json => json_text(text, out),
            // A request's target has no space.
            Escape::Quoted | Escape::Word => escape(text, out),
        }
    }
}

impl AccessEntry<'_> {
    /// Appends the line.
    pub fn pattern(
        &self,
        pattern: &LogPattern,
        ledger: &Ledger,
        clock: &mut Clock,
        now: SystemTime,
        out: &mut Vec<u8>,
    ) {
        for part in &pattern.parts {
            match part {
                LogPart::Text(text) => out.extend_from_slice(text.as_bytes()),
                LogPart::Value { variable, is_quoted } => {
                    let escape = match (pattern.is_json, is_quoted) {
                        (true, _) => Escape::Json,
                        (false, true) => Escape::Quoted,
                        (false, false) => Escape::Word,
                    };
                    self.variable(variable, escape, ledger, clock, now, out);
                }
            }
        }
        out.push(b'\n');
    }

    fn variable(
        &self,
        variable: &LogVariable,
        escape: Escape,
        ledger: &Ledger,
        clock: &mut Clock,
        now: SystemTime,
        out: &mut Vec<u8>,
    ) {
        let query = || self.target.iter().position(|&byte| byte == b'?').map(|at| at + 1);
        let text = match variable {
            LogVariable::Agent => self.agent,
            LogVariable::Client => self.client,
            LogVariable::Field(at) => self.field(*at),
            LogVariable::Host => self.host,
            LogVariable::Method => self.method,
            LogVariable::Protocol => self.protocol.as_bytes(),
            LogVariable::Query => query().map_or(&b""[..], |at| &self.target[at..]),
            LogVariable::Referer => self.referer,
            LogVariable::RequestId => self.request_id,
            LogVariable::Route => self.route,
            LogVariable::Scheme => self.scheme.as_bytes(),
            LogVariable::Site => self.site,
            LogVariable::Target => self.target,
            LogVariable::TimeLocal => clock.combined(now),
            LogVariable::User if !matches!(escape, Escape::Json) => {
                return escape_word(self.user, out);
            }
            LogVariable::User => self.user,
            LogVariable::Bytes => return number(self.bytes, 1, out),
            LogVariable::Port => return number(self.port.into(), 1, out),
            LogVariable::Status => return number(self.status.into(), 1, out),
            LogVariable::Duration => return seconds(ledger.total() / 1_000_000, out),
            LogVariable::Upstream => {
                let phases = [Phase::Connect, Phase::Upstream, Phase::Php, Phase::Relay];
                let spent: u64 = phases.iter().map(|phase| ledger.spent(*phase)).sum();
                return match spent {
                    0 => escape.value(b"", out),
                    spent => seconds(spent / 1_000_000, out),
                };
            }
            LogVariable::Epoch => {
                let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
                return seconds(since.as_millis() as u64, out);
            }
            LogVariable::TimeIso => {
                // Seconds, and the zone as numbers, as nginx has it.
                out.extend_from_slice(&clock.rfc3339(now)[..19]);
                return out.extend_from_slice(b"+00:00");
            }
            LogVariable::Request => {
                escape.part(self.method, out);
                out.push(b' ');
                escape.part(self.target, out);
                out.push(b' ');
                return out.extend_from_slice(self.protocol.as_bytes());
            }
            LogVariable::Span | LogVariable::Trace => {
                // Writing to memory cannot fail.
                let _ = match (self.trace, variable) {
                    (None, _) => return escape.value(b"", out),
                    (Some(trace), LogVariable::Span) => write!(out, "{}", trace.span),
                    (Some(trace), _) => write!(out, "{}", trace.trace),
                };
                return;
            }
        };
        match variable {
            // Its spaces are those of the format, and not of a client.
            LogVariable::TimeLocal => out.extend_from_slice(text),
            _ => escape.value(text, out),
        }
    }

    /// A further field of the head; see `LogEntry`.
    fn field(&self, at: usize) -> &[u8] {
        let mut rest = self.fields;
        for number in 0..=at {
            let Some((length, behind)) = rest.split_first_chunk::<4>() else { break };
            let length = u32::from_ne_bytes(*length) as usize;
            let Some((value, behind)) = behind.split_at_checked(length) else { break };
            if number == at {
                return value;
            }
            rest = behind;
        }
        b""
    }
}

/// Appends milliseconds as seconds.
fn seconds(millis: u64, out: &mut Vec<u8>) {
    number(millis / 1000, 1, out);
    out.push(b'.');
    number(millis % 1000, 3, out);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    /// The line of a pattern, with the fields of the head that it names.
    fn written(pattern: &str, line: &AccessEntry, fields: &[&[u8]]) -> String {
        let mut all = Vec::new();
        for field in fields {
            all.extend_from_slice(&(field.len() as u32).to_ne_bytes());
            all.extend_from_slice(field);
        }
        let mut ledger = Ledger::begin(1_000_000);
        ledger.stamp(Phase::Head, 3_000_000);
        ledger.stamp(Phase::Php, 1_503_000_000);
        let pattern = LogPattern::read(pattern).unwrap();
        let now = UNIX_EPOCH + Duration::from_millis(1_795_176_000_123);
        let mut out = Vec::new();
        let line = AccessEntry { fields: &all, ..*line };
        line.pattern(&pattern, &ledger, &mut Clock::default(), now, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn line() -> AccessEntry<'static> {
        AccessEntry {
            client: b"192.0.2.1",
            host: b"example.org",
            site: b"shop",
            method: b"GET",
            target: b"/a?b=c",
            protocol: "HTTP/1.1",
            scheme: "https",
            port: 443,
            status: 200,
            bytes: 1234,
            agent: b"Browser \"x\"",
            ..AccessEntry::default()
        }
    }

    #[test]
    fn variables_are_those_of_nginx() {
        for (pattern, expected) in [
            (
                "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent",
                "192.0.2.1 - - [20/Nov/2026:12:00:00 +0000] \"GET /a?b=c HTTP/1.1\" 200 1234",
            ),
            ("$request_time $upstream_response_time $msec", "1.502 1.500 1795176000.123"),
            (
                "$time_iso8601 $scheme://$host:$server_port",
                "2026-11-20T12:00:00+00:00 https://example.org:443",
            ),
            (
                "$server_name $request_method $request_uri $args $server_protocol",
                "shop GET /a?b=c b=c HTTP/1.1",
            ),
            (
                "\"$http_user_agent\" $http_user_agent $http_referer $$ $request_id $trace_id",
                "\"Browser \\x22x\\x22\" Browser\\x20\\x22x\\x22 - $ - -",
            ),
            ("\"$http_x_a\" $http_x_b $http_x_a", "\"one two\" - one\\x20two"),
            (
                "escape=json {\"a\":\"$http_x_a\",\"b\":\"$http_user_agent\",\"r\":\"$http_referer\"}",
                "{\"a\":\"one two\",\"b\":\"Browser \\u0022x\\u0022\",\"r\":\"\"}",
            ),
        ] {
            assert_eq!(written(pattern, &line(), &[b"one two", b""]), format!("{expected}\n"));
        }
    }

    proptest! {
        #[test]
        fn nothing_a_client_sends_can_forge_a_line(
            texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 7),
        ) {
            let [client, user, host, method, target, agent, field] = &texts[..] else { unreachable!() };
            let line = AccessEntry { client, user, host, method, target, agent, ..line() };
            let all = "$remote_addr $remote_user $host $http_user_agent $http_x_a \"$request\" \
                \"$http_x_a\" \"$args\"";
            let text = written(all, &line, &[field]);
            prop_assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n')));
            prop_assert_eq!(text.matches('\n').count(), 1);
            prop_assert_eq!(text.matches('"').count(), 6);
            prop_assert_eq!(text.split('"').next().unwrap().matches(' ').count(), 5);

            let text = written(&format!("escape=json [\"{}\"]", all.replace('"', "")), &line, &[field]);
            prop_assert_eq!(text.matches('\n').count(), 1);
            prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
        }
    }
}
