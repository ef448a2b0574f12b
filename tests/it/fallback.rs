//! What a boot script may arrange: requests for the workers of another site, files in the place of
//! others, files to watch.

use std::fs;
use std::time::Duration;

use crate::harness::{Kind, Server, Setup, check, eventually, get, post, row};

/// Longest wait for a new image.
const PATIENCE: Duration = Duration::from_secs(60);

fn setup() -> Setup {
    Setup::new(Kind::Sealed).site("sites/fallback").front_controller("index.php").boot("boot.php")
}

fn start(fallback: bool) -> Server {
    if fallback { setup().fallback("classic.test").start() } else { setup().start() }
}

#[test]
fn what_is_not_for_these_workers_goes_to_others() {
    let server = start(true);
    check(
        &server,
        vec![
            row("from the image", get("/")).body("image one GET localhost  new"),
            row("declined", get("/?decline")).body("classic GET localhost  old"),
            row("again", get("/")).body("image one GET localhost  new"),
            row("not to be asked twice", post("/?decline", "text/plain", "body"))
                .body("classic POST localhost body old"),
            row("something was sent", get("/?late")).contains("too late: bool(false)"),
            row("the others by name", get("/").header("Host", "classic.test"))
                .body("classic GET classic.test  old"),
        ],
    );
}

#[test]
fn without_others_a_declined_request_fails() {
    let server = start(false);
    check(
        &server,
        vec![
            row("declined", get("/?decline")).status(502),
            row("the worker lives on", get("/")).body("image one GET localhost  new"),
            row("all methods", post("/", "text/plain", "body"))
                .body("image one POST localhost body new"),
        ],
    );
    server.log_line(&["ERROR", "declined the request and the site has no fallback"]);
}

#[test]
fn a_warm_up_request_says_where_it_was_sent_to_and_whether_it_was_declined() {
    let server = setup().warm(&["/?note", "https://blog.test:81/a?note=b", "/?decline"]).start();
    server.log_line(&["asked for /?note of localhost:80 by none"]);
    server.log_line(&["asked for /a?note=b of blog.test:81 by https"]);
    server.log_line(&[
        "WARN",
        "warm-up request /?decline was declined, so nothing of it is in the image",
    ]);
    server.get("/").expect(200);
    assert_eq!(server.log().matches("warm-up request").count(), 1, "{}", server.log());
}

#[test]
fn a_watched_file_makes_a_new_image() {
    let server = start(false);
    fs::write(server.places.root().join("data.txt"), "two").unwrap();
    let renewed = || server.get("/").text().starts_with("image two").then_some(());
    eventually(PATIENCE, renewed).expect("the boot finds the new data");
    let images = || server.log().matches("a new one is made: ").count();
    let serves = || server.log().contains("new processes serve").then_some(());
    eventually(PATIENCE, serves).expect("they are in an image");
    assert_eq!(images(), 1);
    fs::write(server.places.root().join("not-yet.txt"), "").unwrap();
    eventually(PATIENCE, || (images() == 2).then_some(()))
        .expect("the file that has come is noticed");
    server.log_line(&["not-yet.txt is there now"]);
}
