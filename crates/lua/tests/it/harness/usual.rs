//! What most tests ask, and look at.

use tokamak_lua::{Limits, Outcome, Stage};

use super::site::{Memory, Site};

impl Memory {
    /// The values of a response's field.
    pub fn header(&self, name: &str) -> Vec<String> {
        let mine = self.response.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        mine.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect()
    }

    /// The response's body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// An attribute as text.
    pub fn attribute(&self, name: &str) -> Option<String> {
        self.attributes.get(name).map(|value| String::from_utf8_lossy(value).into_owned())
    }
}

impl Site {
    /// Runs a script for the usual request, before its path is looked up.
    pub fn ask(&self, name: &str) -> (Outcome, Memory) {
        self.ask_at(Stage::RawUrl, name, request())
    }
}

/// The usual request.
pub fn request() -> Memory {
    let mut memory = Memory { keep_alive: 1, request_body: Some(Vec::new()), ..Memory::default() };
    for (name, value) in [
        ("uri.path", "/search"),
        ("uri.path-raw", "/se%61rch"),
        ("uri.scheme", "http"),
        ("uri.authority", "example.org"),
        ("uri.query", "q=lua"),
        ("request.method", "GET"),
        ("request.uri", "/se%61rch?q=lua"),
        ("request.orig-uri", "/se%61rch?q=lua"),
        ("request.remote-addr", "127.0.0.1"),
        ("request.remote-ip", "127.0.0.1"),
    ] {
        memory.attributes.insert(name, value.as_bytes().to_vec());
    }
    memory.request = vec![
        ("host".into(), b"example.org".to_vec()),
        ("accept".into(), b"text/html".to_vec()),
        ("accept".into(), b"text/plain".to_vec()),
        ("cookie".into(), b"id=7".to_vec()),
    ];
    memory
}

/// Runs one script for the usual request.
pub fn run(script: &str) -> (Outcome, Memory) {
    Site::new(Limits::default(), &[("test.lua", script)]).ask("test.lua")
}

/// What a script shows: it ends with `return show(…)`, which sends its arguments as Lua writes
/// them.
pub fn show(script: &str) -> String {
    let prelude = "local function show(...) local t = {} for i = 1, select('#', ...) do local v = \
        select(i, ...) \
                   t[i] = type(v) == 'string' and string.format('%q', v) or tostring(v) end \
                   lighty.r.resp_body.set(table.concat(t, ' ')) return 200 end ";
    let (outcome, memory) = run(&format!("{prelude}{script}"));
    assert_eq!(outcome, Outcome::Answer(200), "{script}\n{}", memory.log.join("\n"));
    memory.text()
}
