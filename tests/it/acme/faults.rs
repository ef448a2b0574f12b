//! What goes wrong: the site goes on with what it has, and the log says what to do.

use std::fs;

use super::authority::{Pebble, Refusing, Traits, certificate};
use super::{NAME, PATIENCE, Plan, count, logged};
use crate::harness::{Kind, Setup, eventually, free_address};

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
    let authority = Refusing::start(&plan, 429, "3600");
    let server = plan.setup(&authority.directory(), &trusted(&plan)).start();
    let line = logged(&server, "no new certificate");
    assert!(line.contains("too\\nmany") && line.contains("the next try is in 36"), "{line}");
    assert!(line.len() < 1000, "{}", line.len());
    assert_eq!(count(&server, "no new certificate"), 1);
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
