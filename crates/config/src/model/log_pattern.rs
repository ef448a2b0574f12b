//! Patterns of access log lines, in the notation of nginx.

/// What stands in a line in place of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogVariable {
    /// Bytes of the response's body.
    Bytes,
    /// The client's address.
    Client,
    /// A field of the request's head: its place in [`LogPattern::fields`].
    Field(usize),
    /// The host that the request names.
    Host,
    /// The method.
    Method,
    /// The time in seconds since 1970, with milliseconds.
    Epoch,
    /// The protocol.
    Protocol,
    /// The query, without its question mark.
    Query,
    /// `Referer`.
    Referer,
    /// Method, target and protocol.
    Request,
    /// `X-Request-Id`.
    RequestId,
    /// The name of the route.
    Route,
    /// `http` or `https`.
    Scheme,
    /// The port that the client has connected to.
    Port,
    /// The name of the site.
    Site,
    /// The span of the request in its trace.
    Span,
    /// The status.
    Status,
    /// Path and query.
    Target,
    /// The time as in `combined`.
    TimeLocal,
    /// The time as ISO 8601 has it.
    TimeIso,
    /// The trace that the request belongs to.
    Trace,
    /// Seconds from the first byte of the request to the last one of the response.
    Duration,
    /// Seconds that scripts or the application took.
    Upstream,
    /// `User-Agent`.
    Agent,
    /// The name from a password.
    User,
}

/// The variables by their names in a pattern; those of nginx where it has them.
const VARIABLES: &[(&str, LogVariable)] = &[
    ("args", LogVariable::Query),
    ("body_bytes_sent", LogVariable::Bytes),
    ("host", LogVariable::Host),
    ("http_referer", LogVariable::Referer),
    ("http_user_agent", LogVariable::Agent),
    ("msec", LogVariable::Epoch),
    ("query_string", LogVariable::Query),
    ("remote_addr", LogVariable::Client),
    ("remote_user", LogVariable::User),
    ("request", LogVariable::Request),
    ("request_id", LogVariable::RequestId),
    ("request_method", LogVariable::Method),
    ("request_time", LogVariable::Duration),
    ("request_uri", LogVariable::Target),
    ("route", LogVariable::Route),
    ("scheme", LogVariable::Scheme),
    ("server_name", LogVariable::Site),
    ("server_port", LogVariable::Port),
    ("server_protocol", LogVariable::Protocol),
    ("span_id", LogVariable::Span),
    ("status", LogVariable::Status),
    ("time_iso8601", LogVariable::TimeIso),
    ("time_local", LogVariable::TimeLocal),
    ("trace_id", LogVariable::Trace),
    ("upstream_response_time", LogVariable::Upstream),
];

/// What makes a variable of any other field of the request's head.
const FIELD: &str = "http_";

/// How values are escaped, as behind `escape=` of nginx's `log_format`.
const JSON: &str = "escape=json ";

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogPart {
    /// Text as it stands there.
    Text(String),
    /// The value of a variable. Outside of double quotes, a space in it would begin another field.
    Value {
        /// Which one.
        variable: LogVariable,
        /// Whether it stands between double quotes.
        is_quoted: bool,
    },
}

/// A pattern of access log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPattern {
    /// As it is written in the configuration.
    pub(crate) text: String,
    /// Its parts.
    pub parts: Vec<LogPart>,
    /// Fields of the request's head that it names, in lower case.
    pub fields: Vec<String>,
    /// Whether values stand in strings of JSON.
    pub is_json: bool,
}

impl LogPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// Fails with a message if it names an unknown variable, or would not be one line.
    pub fn read(text: &str) -> Result<LogPattern, String> {
        if text.contains(char::is_control) {
            return Err("a pattern is one line of visible characters".into());
        }
        let (is_json, mut rest) = match text.strip_prefix(JSON) {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let mut pattern =
            LogPattern { text: text.to_owned(), parts: Vec::new(), fields: Vec::new(), is_json };
        let mut quotes = 0;
        let mut plain = String::new();
        while let Some((before, after)) = rest.split_once('$') {
            plain.push_str(before);
            quotes += before.matches('"').count();
            if let Some(after) = after.strip_prefix('$') {
                plain.push('$');
                rest = after;
                continue;
            }
            let (name, after) = name(after)?;
            let variable = pattern.variable(name)?;
            if !plain.is_empty() {
                pattern.parts.push(LogPart::Text(std::mem::take(&mut plain)));
            }
            pattern.parts.push(LogPart::Value { variable, is_quoted: quotes % 2 == 1 });
            rest = after;
        }
        if pattern.parts.is_empty() {
            return Err("a pattern has a variable, such as `$remote_addr`".into());
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pattern.parts.push(LogPart::Text(plain));
        }
        Ok(pattern)
    }

    /// Whether its lines name the site.
    pub fn names_sites(&self) -> bool {
        let is_site =
            |part: &LogPart| matches!(part, LogPart::Value { variable: LogVariable::Site, .. });
        self.parts.iter().any(is_site)
    }

    fn variable(&mut self, name: &str) -> Result<LogVariable, String> {
        if let Some((_, variable)) = VARIABLES.iter().find(|(own, _)| *own == name) {
            return Ok(variable.clone());
        }
        // Credentials belong in no log.
        let secret = ["http_authorization", "http_proxy_authorization", "http_cookie"];
        let field = name.strip_prefix(FIELD).filter(|field| !field.is_empty());
        let Some(field) = field.filter(|_| !secret.contains(&name)) else {
            let known: Vec<String> = VARIABLES.iter().map(|(own, _)| format!("${own}")).collect();
            return Err(format!(
                "`${name}` is no variable of a log line; the known ones are {} and $http_NAME for \
                 a header field of the request that holds no secret",
                known.join(", ")
            ));
        };
        let field = field.replace('_', "-");
        let at = self.fields.iter().position(|own| *own == field).unwrap_or_else(|| {
            self.fields.push(field);
            self.fields.len() - 1
        });
        Ok(LogVariable::Field(at))
    }
}

/// The name of a variable behind its dollar sign, and what follows it.
fn name(text: &str) -> Result<(&str, &str), String> {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if let Some(inner) = text.strip_prefix('{') {
        let found = inner.split_once('}').filter(|(name, _)| name.chars().all(is_letter));
        return found.ok_or_else(|| format!("`${text}` has no end; write `${{NAME}}`"));
    }
    let end = text.find(|c| !is_letter(c)).unwrap_or(text.len());
    match text.split_at(end) {
        ("", _) => Err("a `$` begins the name of a variable; `$$` is one dollar sign".into()),
        found => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_text_and_variables() {
        let pattern =
            LogPattern::read("$remote_addr \"$request\" ${status}s $$1 $http_x_a").unwrap();
        let text = |text: &str| LogPart::Text(text.to_owned());
        let value = |variable, is_quoted| LogPart::Value { variable, is_quoted };
        let expected = [
            value(LogVariable::Client, false),
            text(" \""),
            value(LogVariable::Request, true),
            text("\" "),
            value(LogVariable::Status, false),
            text("s $1 "),
            value(LogVariable::Field(0), false),
        ];
        assert_eq!(pattern.parts, expected);
        assert_eq!(pattern.fields, ["x-a"]);
        assert!(!pattern.is_json && !pattern.names_sites());
        assert!(LogPattern::read("escape=json $server_name").is_ok_and(|it| it.is_json));
    }

    #[test]
    fn the_error_for_an_invalid_pattern_says_what_is_valid() {
        for (text, expected) in [
            ("$none", "`$none` is no variable"),
            ("$none", "$args, $body_bytes_sent, "),
            ("$http_cookie", "no secret"),
            ("$http_", "no variable"),
            ("plain", "such as `$remote_addr`"),
            ("$status\n", "one line"),
            ("100$", "`$$` is one dollar sign"),
            ("${status", "has no end"),
        ] {
            let error = LogPattern::read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
