//! The demo site (`examples/demo`) as somebody sees it who has just typed `make run`: in a browser.

use crate::harness::{Kind, Setup, on_every_server};
use crate::services::browser;

on_every_server!(measures_itself_and_streams);

fn measures_itself_and_streams(kind: Kind) {
    let setup = Setup::new(kind).site("../examples/demo").public("public").worker("../worker.php");
    let server = setup.front_controller("index.php").start();
    let picture = server.get("/static/torus.svg").expect(200);
    let kind = picture.header("content-type").expect("a type");
    assert!(kind.starts_with("image/svg+xml"), "{kind}");

    // Its script fetches fifty answers and writes into the page what it has seen.
    let home = browser::document_after(&format!("http://{}/", server.address), 20_000);
    assert!(home.contains("Your PHP runs."), "{home}");
    let measured = number(&home, "<b id=\"median\">");
    assert!(measured > 0.0, "{home}");
    let workers = number(&home, "<b id=\"workers\">");
    assert!((1.0..=2.0).contains(&workers), "{workers} processes answered");

    // Ten events, each of which must arrive when PHP sends it.
    let stream = browser::document_after(&format!("http://{}/stream", server.address), 20_000);
    assert!(stream.contains(">done</span>"), "{stream}");
    assert_eq!(stream.matches(" ms</td></tr>").count(), 10, "{stream}");
}

/// The number that follows a text.
#[track_caller]
fn number(page: &str, before: &str) -> f64 {
    let rest = page.split_once(before).unwrap_or_else(|| panic!("no {before} in {page}")).1;
    let digits: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    digits.parse().unwrap_or_else(|_| panic!("no number after {before} in {page}"))
}
