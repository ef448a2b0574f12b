//! Invented rules of a site, and an invented request for it. The fuzz target runs it too.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use http::header::{HOST, HeaderMap, HeaderValue};
use http::{StatusCode, Uri};
use tempfile::TempDir;
use tokamak_config::Request;
use tokamak_front::{RuleBook, Ruling};

/// What is refused to everybody before any invented rule.
const SECRET: &str = "secret";

/// A folder with a site, which is there for as long as the process.
fn place() -> &'static Path {
    static PLACE: OnceLock<TempDir> = OnceLock::new();
    let place = PLACE.get_or_init(|| {
        let place = tempfile::tempdir().expect("a folder");
        for file in ["index.php", "a.css", "images/a.png", "secret/key.txt", "secret/run.php"] {
            let file = place.path().join("public").join(file);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, "").expect("a file");
        }
        place
    });
    place.path()
}

/// A text of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => {
                quoted.push_str(&format!("\\u{:04X}", u32::from(letter)));
            }
            letter => quoted.push(letter),
        }
    }
    quoted + "\""
}

/// One rule: when it holds, and what it does.
fn rule(kind: u8, condition: &str, effect: &str) -> String {
    let (condition, effect) = (quoted(condition), quoted(effect));
    let condition = match kind & 3 {
        0 => format!("path = {condition}"),
        1 => format!("pattern = {condition}"),
        2 => format!("extension = {condition}"),
        _ => String::new(),
    };
    let effect = match (kind >> 2) % 11 {
        0 | 1 => format!("redirect = {effect}"),
        2 | 3 => format!("rewrite = {effect}"),
        4 => format!("set_headers = {{ X-Set = {effect} }}"),
        5 => format!("add_headers = {{ {effect} = \"a\" }}\nalways = true"),
        6 => format!("remove_headers = [{effect}]"),
        7 => format!("cache_control = {effect}"),
        8 => format!("scripts = [{effect}]"),
        9 => "index_listing = true\nserve = \"files\"".to_owned(),
        _ => "deny = \"all\"".to_owned(),
    };
    format!("[[site.rule]]\n{condition}\n{effect}\n")
}

/// Reads the rules, and asks for a target. Returns whether both are good.
pub fn run(rules: &[(u8, &str, &str)], target: &str, host: &str) -> bool {
    let Ok(uri) = target.parse::<Uri>() else { return false };
    let refused = format!("[[site.rule]]\npath = \"/{SECRET}\"\ndeny = \"all\"\n");
    let rules: Vec<_> =
        rules.iter().take(8).map(|(kind, when, what)| rule(*kind, when, what)).collect();
    let text = format!("[[site]]\nroot = \"public\"\n{refused}{}", rules.concat());
    // Several threads may be here at once.
    let folder = tempfile::tempdir_in(place()).expect("a folder");
    let file = folder.path().join("tokamak.toml");
    let text = text.replace("\"public\"", &quoted(&place().join("public").display().to_string()));
    fs::write(&file, text).expect("a file");
    let request = Request {
        path: None,
        config: Some(file),
        flags: Vec::new(),
        environment: Vec::new(),
        directory: folder.path().to_owned(),
    };
    let Ok(server) = request.load_for(1) else { return false };
    let book = RuleBook::new(&server.sites[0]);
    let mut headers = HeaderMap::new();
    if let Ok(host) = HeaderValue::from_str(host) {
        headers.insert(HOST, host);
    }
    let client = IpAddr::from(Ipv4Addr::LOCALHOST);
    let secret: PathBuf = place().join("public").join(SECRET);
    match book.decide(client, &uri, &headers) {
        Ruling::Redirect(to, status) => {
            assert!(status.is_redirection(), "{status}");
            assert!(HeaderValue::from_str(&to).is_ok(), "{to:?} ends its field");
            assert!(to.bytes().all(|byte| byte > b' ' && byte != 0x7f), "{to:?} is no URL");
            // Browsers read both as the beginning of a host.
            assert!(!to.starts_with("//") && !to.starts_with("/\\"), "{to:?} is another host");
        }
        Ruling::File(file) => {
            assert!(!file.starts_with(&secret), "{target:?} gets {}", file.display());
            assert!(file.extension().is_none_or(|kind| kind != "php"), "{target:?} gets source");
        }
        Ruling::Script(script, _) => {
            assert!(!script.starts_with(&secret), "{target:?} runs {}", script.display());
        }
        Ruling::Listing(folder) => {
            assert!(!folder.starts_with(&secret), "{target:?} lists {}", folder.display());
        }
        Ruling::Hub => {}
        Ruling::Refused(status) => assert!(status.is_client_error(), "{status}"),
    }
    for status in [StatusCode::OK, StatusCode::NOT_FOUND] {
        let own = HeaderValue::from_static("text/plain");
        let before = HeaderMap::from_iter([(http::header::CONTENT_TYPE, own)]);
        let head = book.head(&uri, status, before.clone());
        // A second time it is the same, but for what is added and for the time of day.
        let again = book.head(&uri, status, before);
        assert_eq!(head.len(), again.len());
    }
    true
}
