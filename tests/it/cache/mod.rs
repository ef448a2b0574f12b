//! The content cache, seen from outside: how often the page ran says whether the cache answered.

/// Lengths that are not true, and fields of the connection.
mod framing;
/// What could make the cache give one visitor what another one has made.
mod hostile;
/// Removing what is kept, and what the server says of the cache.
mod operate;
/// What HTTP says may be kept, for how long and for whom.
mod rules;
/// Lua scripts before, in and behind the cache.
mod scripts;
/// Several requests for one page, and pages that have become stale.
mod sharing;
/// Several nodes that share what one of them has asked for.
mod tier;
/// What scripts say to it.
mod wishes;

use std::fs;

use crate::harness::{Kind, Request, Response, Server, Setup, get};

/// A site whose page says what it is told to, with the cache on.
struct Site(Server);

impl Site {
    /// With these lines of the site's configuration, or of the cache's if they say so.
    fn with(lines: &[&str]) -> Site {
        Site::of(Kind::Classic, lines)
    }

    fn of(kind: Kind, lines: &[&str]) -> Site {
        let setup = Setup::new(kind).site("cache").workers(4).site_line("cache = true");
        let add = |setup: Setup, line: &&str| match line.starts_with("cache.")
            || line.starts_with("loops")
        {
            true => setup.line(line),
            false => setup.site_line(line),
        };
        Site(lines.iter().fold(setup, add).start())
    }

    fn new() -> Site {
        Site::with(&[])
    }

    fn send(&self, request: &Request) -> Response {
        self.0.send(request)
    }

    fn get(&self, target: &str) -> Response {
        self.0.get(target)
    }

    /// How often the page has run.
    fn runs(&self) -> usize {
        fs::read_to_string(self.0.state_file("runs")).map_or(0, |runs| runs.parse().unwrap_or(0))
    }

    /// From now on the page fails, or does no longer.
    fn down(&self, is_down: bool) {
        self.flag("down", is_down);
    }

    /// From now on the page comes to no end, or does again.
    fn hold(&self, is_held: bool) {
        self.flag("held", is_held);
    }

    /// From now on the page comes to no end, but for this many runs at the beginning.
    fn hold_after(&self, runs: usize) {
        fs::write(self.0.state_file("held"), runs.to_string()).unwrap();
    }

    fn flag(&self, name: &str, is_set: bool) {
        let file = self.0.state_file(name);
        if is_set { fs::write(file, "").unwrap() } else { fs::remove_file(file).unwrap() }
    }
}

/// The page with these header fields in its response.
fn page(fields: &[&str]) -> String {
    page_with("", fields)
}

/// The page with more to its query.
fn page_with(query: &str, fields: &[&str]) -> String {
    let fields: String = fields.iter().map(|field| format!("&h[]={}", encoded(field))).collect();
    format!("/page.php?{query}{fields}")
}

fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// How the response came about, as it says itself.
fn status(response: &Response) -> &str {
    response.header("cache-status").unwrap_or("none")
}

fn asking(target: &str, fields: &[(&str, &str)]) -> Request {
    fields.iter().fold(get(target), |request, (name, value)| request.header(name, value))
}
