//! What goes wrong: the site goes on with what it has, and the log says what to do.

use std::fs;

use super::authority::{Pebble, Refusing, Traits, certificate};
use super::{NAME, PATIENCE, Plan, count, logged};
use crate::harness::{Kind, Setup, eventually, free_address};
use crate::metrics::{self, samples};
use crate::operate::{command, status};

fn trusted(plan: &Plan) -> std::path::PathBuf {
    plan.folder.path().join("localhost.pem")
}

/// An authority that cannot be reached when the server starts. The site is served over HTTP,
/// handshakes are refused, and the certificate comes when the authority does.
#[test]
fn an_authority_that_comes_later() {
    let plan = Plan::new();
    certificate(plan.folder.path());
    let address = free_address();
    let server = plan.setup(&format!("https://{address}/dir"), &trusted(&plan)).start();
    let line = logged(&server, "no new certificate for shop.example: https://127.0.0.1");
    assert!(line.contains("there is none, and the next try is in "), "{line}");
    assert_eq!(server.send(&crate::harness::get("/hello.php")).status(), 308);
    let refused = plan.curl(NAME, &trusted(&plan));
    let wrong = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && wrong.contains("alert"), "{wrong}");
    let Some(pebble) = Pebble::start_at(address, &plan, Traits::default()) else { return };
    plan.is_served(&server, NAME, &pebble);
}

#[test]
fn an_authority_that_refuses_nonces() {
    let plan = Plan::new();
    let traits = Traits { refuses: 25, ..Traits::default() };
    let Some(pebble) = Pebble::start(&plan, traits) else { return };
    let server = plan.setup(&pebble.directory(), &trusted(&plan)).start();
    plan.is_served(&server, NAME, &pebble);
}

/// An authority that wants to be left alone is, and what it says takes one line of bounded length.
#[test]
fn an_authority_that_limits() {
    let plan = Plan::new();
    let authority = Refusing::start(&plan, 429, "3600", "newAccount");
    let server = plan.setup(&authority.directory(), &trusted(&plan)).start();
    let line = logged(&server, "no new certificate");
    assert!(line.contains("too\\nmany") && line.contains("the next try is in 36"), "{line}");
    assert!(line.len() < 1000, "{}", line.len());
    assert_eq!(count(&server, "no new certificate"), 1);
}

/// What an authority has said holds over a restart, and `tokamak status` and metrics show it. Other
/// settings may be the remedy: with them it is asked again.
#[test]
fn an_authority_that_is_not_asked_at_each_start() {
    let plan = Plan::new();
    // Cut to a day: the sum with the clock would be too large.
    let authority = Refusing::start(&plan, 429, "18446744073709551615", "newAccount");
    let asked = || {
        let log = fs::read_to_string(plan.folder.path().join("authority.log")).unwrap();
        log.lines().filter(|line| line.contains("POST")).count()
    };
    let setup = || plan.setup(&authority.directory(), &trusted(&plan));
    let server = setup().start();
    logged(&server, "no new certificate for shop.example");
    assert_eq!(asked(), 1);
    drop(server);
    plan.is_free();
    let server = metrics::start(setup());
    let line = logged(&server, "no new certificate yet for shop.example: https://127.0.0.1");
    assert!(line.contains("the next try is in 8"), "{line}");
    assert_eq!(asked(), 1, "{}", server.log());
    let shown = || {
        let report = status(&server);
        let one = report["certificates"][0].clone();
        one["failure"].as_str().is_some_and(|failure| failure.contains("too\nmany")).then_some(one)
    };
    let one = eventually(PATIENCE, shown).unwrap_or_else(|| panic!("{}", status(&server)));
    assert_eq!(one["name"], NAME);
    let table = String::from_utf8(command(&server, &["status"]).stdout).unwrap();
    assert!(table.contains("NEXT ORDER\nshop.example  in "), "{table}");
    assert!(table.contains("shop.example: https://127.0.0.1"), "{table}");
    let figures = samples(&server);
    assert_eq!(figures["tokamak_certificate_failing{name=\"shop.example\"}"], 1.0);
    let next = figures["tokamak_certificate_order_seconds{name=\"shop.example\"}"];
    assert_eq!(Some(next), one["next"].as_f64());
    drop(server);
    plan.is_free();
    let server = setup().line("acme.email = \"a@shop.example\"").start();
    logged(&server, "no new certificate for shop.example");
    assert_eq!(asked(), 2, "{}", server.log());
}

/// A certificate that cannot be kept is kept later, and not ordered again.
#[test]
fn a_state_directory_that_takes_nothing() {
    let plan = Plan::new();
    let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
    // A folder in the way stands for a full disk: root may write everywhere.
    let way = plan.certificate().join("in the way");
    fs::create_dir_all(&way).unwrap();
    let server = plan.setup(&pebble.directory(), &trusted(&plan)).start();
    let line = logged(&server, "no new certificate");
    assert!(line.contains("cannot be written"), "{line}");
    fs::remove_dir_all(plan.certificate()).unwrap();
    plan.is_served(&server, NAME, &pebble);
    assert_eq!(count(&server, "is ordered"), 1, "{}", server.log());
}

/// What is in the state directory is used only if it is for the name and has not ended.
#[test]
fn a_wrong_certificate_is_not_used() {
    let plan = Plan::new();
    let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
    let folder = plan.folder.path();
    fs::create_dir_all(plan.certificate().parent().unwrap()).unwrap();
    let files = ["localhost.key", "localhost.pem"];
    let both = files.map(|file| fs::read_to_string(folder.join(file)).unwrap()).concat();
    fs::write(plan.certificate(), both).unwrap();
    let server = plan.setup(&pebble.directory(), &trusted(&plan)).start();
    logged(&server, "the certificate is not for shop.example");
    plan.is_served(&server, NAME, &pebble);
}

/// A second server beside the one that gets certificates uses them, and orders none.
#[test]
fn two_servers_with_one_state_directory() {
    let plan = Plan::new();
    let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
    let first = plan.setup(&pebble.directory(), &trusted(&plan)).start();
    // The authority asks the first one, so it has to be that which orders.
    logged(&first, "is ordered");
    let tls = free_address();
    let second = Setup::new(Kind::Classic)
        .workers(1)
        .line(&format!("listen_tls = [\"{tls}\"]"))
        .line(&format!("state_dir = '{}'", plan.state().display()))
        .line("tls.auto = true")
        .line(&format!("acme.directory = [\"{}\"]", pebble.directory()))
        .also(NAME, "php")
        .server_env("SSL_CERT_FILE", trusted(&plan).to_str().unwrap())
        .start();
    plan.is_served(&first, NAME, &pebble);
    let served = || plan.curl_at(tls, NAME, &pebble.root()).status.success().then_some(());
    assert!(eventually(PATIENCE, served).is_some(), "{}", second.log());
    assert_eq!(count(&first, "is ordered") + count(&second, "is ordered"), 1);
}
