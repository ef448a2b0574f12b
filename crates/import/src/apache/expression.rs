//! The expressions of `<If>`: what requests have to be.

use crate::condition::{Cases, Test};
use crate::pattern;

use super::condition;

/// Parentheses within parentheses: real expressions have two.
const DEEPEST: usize = 8;

/// The requests that an expression is true of; nothing if rules cannot say it.
pub(super) fn cases(text: &str) -> Option<Cases> {
    let mut parser = Parser { rest: text.trim(), depth: 0 };
    parser.any().filter(|_| parser.rest.is_empty())
}

/// Whether an expression is true of requests without TLS alone.
pub(super) fn is_plain(text: &str) -> bool {
    let text = text.replace(['"', '\'', ' '], "").to_ascii_lowercase();
    const PLAIN: [&str; 7] = [
        "%{https}!=on",
        "%{https}==off",
        "%{https}=off",
        "%{https}!~/on/",
        "%{request_scheme}==http",
        "%{request_scheme}!=https",
        "%{server_port}==80",
    ];
    PLAIN.contains(&&*text)
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Parser<'a> {
    /// Takes one of some signs.
    fn takes(&mut self, signs: &[&str]) -> bool {
        let rest = signs.iter().find_map(|sign| self.rest.strip_prefix(sign));
        self.rest = rest.map_or(self.rest, str::trim_start);
        rest.is_some()
    }

    /// One of several.
    fn any(&mut self) -> Option<Cases> {
        let mut cases = self.all()?;
        while self.takes(&["||"]) {
            cases = cases.or(self.all()?);
        }
        Some(cases)
    }

    /// All of several.
    fn all(&mut self) -> Option<Cases> {
        let mut cases = self.one()?;
        while self.takes(&["&&"]) {
            cases = cases.and(&self.one()?)?;
        }
        Some(cases)
    }

    fn one(&mut self) -> Option<Cases> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let cases = match () {
            () if self.takes(&["("]) => {
                let cases = self.any()?;
                self.takes(&[")"]).then_some(cases)
            }
            () if self.takes(&["!"]) => self.one()?.not(),
            () if self.takes(&["-f ", "-s "]) => {
                self.file().and_then(|()| condition::no_file().not())
            }
            () if self.takes(&["-e "]) => self.file().map(|()| Cases::of(Test::File(true))),
            () if self.takes(&["-z "]) => self.compared("^$", true),
            () if self.takes(&["-n "]) => self.compared("^$", false),
            () => self.comparison(),
        };
        self.depth -= 1;
        cases
    }

    /// A value that is compared with this expression.
    fn compared(&mut self, expression: &str, is_found: bool) -> Option<Cases> {
        let subject = self.subject()?;
        Some(Cases::of(Test::Found(subject, expression.to_owned(), is_found)))
    }

    fn comparison(&mut self) -> Option<Cases> {
        let subject = self.subject()?;
        let (is_found, is_expression) = match () {
            () if self.takes(&["=~"]) => (true, true),
            () if self.takes(&["!~"]) => (false, true),
            () if self.takes(&["==", "="]) => (true, false),
            () if self.takes(&["!="]) => (false, false),
            () => return None,
        };
        let expression = match is_expression {
            true => self.expression()?,
            false => format!("^{}$", regex_lite::escape(self.quoted()?)),
        };
        Some(Cases::of(Test::Found(subject, expression, is_found)))
    }

    /// The name of the file that is asked for.
    fn file(&mut self) -> Option<()> {
        let name = "%{REQUEST_FILENAME}";
        let names = [name.to_owned(), format!("'{name}'"), format!("\"{name}\"")];
        self.takes(&names.each_ref().map(String::as_str)).then_some(())
    }

    /// `%{NAME}`.
    fn subject(&mut self) -> Option<crate::condition::Subject> {
        let (name, rest) = self.rest.strip_prefix("%{")?.split_once('}')?;
        self.rest = rest.trim_start();
        let name = name.strip_prefix("req:").map_or(name.to_owned(), |it| format!("HTTP:{it}"));
        condition::subject(&name)
    }

    /// What stands up to a sign.
    fn until(&mut self, end: char) -> Option<&'a str> {
        let (text, rest) = self.rest.split_once(end)?;
        self.rest = rest;
        Some(text)
    }

    /// A text without variables.
    fn quoted(&mut self) -> Option<&'a str> {
        let quote = self.rest.chars().next().filter(|it| matches!(it, '\'' | '"'))?;
        self.rest = &self.rest[1..];
        let text = self.until(quote)?;
        self.rest = self.rest.trim_start();
        (!text.contains(['%', '$', '\\'])).then_some(text)
    }

    /// `/expression/`, or with another sign behind an `m`.
    fn expression(&mut self) -> Option<String> {
        let rest = self.rest.strip_prefix('m').unwrap_or(self.rest);
        let sign = rest.chars().next().filter(|it| "/#,|!^:;".contains(*it))?;
        self.rest = &rest[1..];
        let text = self.until(sign)?;
        let ignores_case = self.rest.starts_with('i');
        self.rest = self.rest.trim_start_matches('i');
        let is_over = self.rest.is_empty() || self.rest.starts_with([' ', ')']);
        self.rest = self.rest.trim_start();
        let is_whole = is_over && !text.ends_with('\\');
        is_whole.then(|| pattern::translate(text, ignores_case).ok())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Subject;

    #[test]
    fn what_rules_can_say_is_known() {
        let test = |subject: Subject, text: &str, is_found| {
            Test::Found(subject, text.to_owned(), is_found)
        };
        let agent = |text, is_found| test(Subject::Header("User-Agent".into()), text, is_found);
        for (text, expected) in [
            ("%{REQUEST_METHOD} == 'PUT'", vec![vec![test(Subject::Method, "^PUT$", true)]]),
            ("%{QUERY_STRING} =~ /(a|b)=/", vec![vec![test(Subject::Query, "(a|b)=", true)]]),
            ("%{REQUEST_URI} =~ m#^/a/#i", vec![vec![test(Subject::Path, "(?i)^/a/", true)]]),
            ("-z %{HTTP_USER_AGENT}", vec![vec![agent("^$", true)]]),
            ("-n %{req:User-Agent}", vec![vec![agent("^$", false)]]),
            (
                "!(%{HTTP_USER_AGENT} == 'a' || %{REQUEST_METHOD} != 'GET')",
                vec![vec![agent("^a$", false), test(Subject::Method, "^GET$", true)]],
            ),
            (
                "%{QUERY_STRING} !~ /a/ && (%{HTTP_USER_AGENT} =~ m#b#)",
                vec![vec![test(Subject::Query, "a", false), agent("b", true)]],
            ),
        ] {
            assert_eq!(cases(text).map(|it| it.0), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_rules_cannot_say_is_unknown() {
        for text in [
            "",
            "true",
            "%{REMOTE_ADDR} == '192.0.2.1'",
            "%{REQUEST_METHOD} == 'PUT",
            "%{REQUEST_METHOD} == '%{QUERY_STRING}'",
            "%{REQUEST_METHOD} in {'PUT', 'GET'}",
            "%{QUERY_STRING} =~ /a\\/b/",
            "%{QUERY_STRING} =~ /a/x",
            "-d %{REQUEST_FILENAME}",
            "-f %{DOCUMENT_ROOT}/a",
            "%{QUERY_STRING} =~ /a/ %{QUERY_STRING}",
            "((((((((((%{REQUEST_METHOD} == 'PUT'))))))))))",
        ] {
            assert_eq!(cases(text), None, "{text}");
        }
    }
}
