//! `$_SERVER`: what PHP is told of a request.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Map, Value};

use super::front::{Front, Way};

/// A request, by its arguments for curl, and what PHP should be told of it alone.
struct Asked {
    target: &'static str,
    arguments: &'static [&'static str],
    told: &'static [(&'static str, &'static str)],
}

const REQUESTS: [Asked; 4] = [
    Asked {
        target: "/server.php",
        arguments: &["-H", "X-Two: 1", "-H", "X-Two: 2"],
        told: &[
            ("REQUEST_METHOD", "GET"),
            ("REQUEST_URI", "/server.php"),
            ("QUERY_STRING", ""),
            ("PHP_SELF", "/server.php"),
            ("HTTP_X_TWO", "1, 2"),
        ],
    },
    Asked {
        target: "/server.php?a=b&c=%20d",
        arguments: &["-u", "ann:secret", "-b", "cookie=1"],
        told: &[
            ("REQUEST_URI", "/server.php?a=b&c=%20d"),
            ("QUERY_STRING", "a=b&c=%20d"),
            ("PHP_AUTH_USER", "ann"),
            ("HTTP_COOKIE", "cookie=1"),
        ],
    },
    Asked {
        target: "/server.php/path/in%20fo?x",
        arguments: &[],
        told: &[
            ("REQUEST_URI", "/server.php/path/in%20fo?x"),
            ("QUERY_STRING", "x"),
            ("PATH_INFO", "/path/in fo"),
            ("PHP_SELF", "/server.php/path/in fo"),
        ],
    },
    Asked {
        target: "/server.php?forged",
        arguments: &[
            "-d",
            "a=b",
            "-H",
            "X-Forwarded-For: 6.6.6.6",
            "-H",
            "X-Forwarded-Proto: gopher",
            "-H",
            "X-Forwarded-Host: evil.example",
            "-H",
            "Forwarded: for=6.6.6.6;proto=gopher",
        ],
        told: &[
            ("REQUEST_METHOD", "POST"),
            ("CONTENT_LENGTH", "3"),
            ("CONTENT_TYPE", "application/x-www-form-urlencoded"),
        ],
    },
];

/// What PHP should be told of each request.
const ALWAYS: [(&str, &str); 8] = [
    ("REMOTE_ADDR", "127.0.0.2"),
    ("SERVER_ADDR", "127.0.0.1"),
    ("SERVER_PORT", "PORT"),
    ("SERVER_PROTOCOL", "HTTP/1.1"),
    ("HTTP_HOST", "shop.example:PORT"),
    ("SCRIPT_NAME", "/server.php"),
    ("SCRIPT_FILENAME", "ROOT/server.php"),
    ("DOCUMENT_ROOT", "ROOT"),
];

/// Variables that may be missing where they would be empty.
const MAY_BE_MISSING: [&str; 2] = ["PATH_INFO", "HTTPS"];

/// Variables that are others at each request, or for each server.
const OF_THE_MOMENT: [&str; 4] = ["REMOTE_PORT", "REQUEST_TIME", "REQUEST_TIME_FLOAT", "STATE"];

/// What PHP is told of a request that comes by this scheme, with words for ports and paths.
fn vars(front: &Front, scheme: &str, asked: &Asked) -> Map<String, Value> {
    let at = if scheme == "https" { front.site.secured } else { front.site.at };
    let port = at.port().to_string();
    // The front server's own address is trusted, so its clients need another one.
    let output = Command::new("curl")
        .args(["-sSk", "--http1.1", "-m", "20", "--noproxy", "*", "--interface", "127.0.0.2"])
        .args(["--resolve", &format!("shop.example:{port}:127.0.0.1")])
        .args(asked.arguments)
        .arg(format!("{scheme}://shop.example:{port}{}", asked.target))
        .output()
        .expect("curl runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let text = text.replace(&front.site.root.display().to_string(), "ROOT").replace(&port, "PORT");
    let vars: Map<String, Value> = serde_json::from_str(&text).unwrap_or_else(|_| {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        panic!("{} is answered {:?} {why}", asked.target, text.lines().next().unwrap_or_default())
    });
    vars.into_iter().filter(|(name, _)| !OF_THE_MOMENT.contains(&name.as_str())).collect()
}

/// The variables that are not as they should be.
fn surprises(vars: &Map<String, Value>, way: Way, scheme: &str, asked: &Asked) -> BTreeSet<String> {
    let https = if scheme == "https" { "on" } else { "" };
    // `tokamak serve` has a name of its own for its site.
    let name = if way == Way::FastCgi { "shop.example" } else { "localhost" };
    let more = [("REQUEST_SCHEME", scheme), ("HTTPS", https), ("SERVER_NAME", name)];
    let told = ALWAYS.iter().chain(asked.told).chain(&more);
    let differs = |(name, expected): &(&str, &str)| match vars.get(*name).and_then(Value::as_str) {
        Some(value) => (value != *expected)
            .then(|| format!("{name} is {}", if value.is_empty() { "empty" } else { value })),
        None if expected.is_empty() && MAY_BE_MISSING.contains(name) => None,
        None => Some(format!("no {name}")),
    };
    told.filter_map(differs).collect()
}

/// A variable that Tokamak and php-fpm do not tell alike, in words.
fn difference(ours: &Map<String, Value>, theirs: &Map<String, Value>) -> Option<String> {
    let names = ours.keys().chain(theirs.keys());
    let mut others = names.filter(|name| ours.get(*name) != theirs.get(*name));
    let show = |value: Option<&Value>| value.map_or("missing".to_owned(), Value::to_string);
    others.next().map(|name| {
        let (ours, theirs) = (show(ours.get(name)), show(theirs.get(name)));
        format!("{name} is {ours}, and {theirs} with php-fpm")
    })
}

/// What PHP is told: over FastCGI, the same as php-fpm; over HTTP, what it should be.
pub fn variables(front: &mut Front) -> String {
    let mut notes = BTreeSet::new();
    for scheme in front.schemes {
        for asked in &REQUESTS {
            let ours = vars(front, scheme, asked);
            if let Some(beside) = &front.beside {
                let difference = difference(&ours, &vars(beside, scheme, asked));
                assert!(difference.is_none(), "{}", difference.unwrap());
            }
            notes.extend(surprises(&ours, front.way, scheme, asked));
        }
    }
    // Before `tokamak serve`, the protocol is the front server's own affair, and nothing else.
    let is_fact = |note: &&String| front.way == Way::FastCgi || note.starts_with("SERVER_PROTOCOL");
    let (facts, wrong): (Vec<_>, Vec<_>) = notes.iter().partition(is_fact);
    let joined = |notes: Vec<&String>| notes.into_iter().cloned().collect::<Vec<_>>().join(", ");
    assert!(wrong.is_empty(), "{}", joined(wrong));
    joined(facts)
}
