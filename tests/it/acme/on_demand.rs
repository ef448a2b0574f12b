//! Names that are first seen in a handshake: ordered if the operator's program allows it.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use super::authority::{Pebble, Traits};
use super::{ORDERED, PATIENCE, Plan, count, logged};
use crate::harness::{Process, Server, Setup, eventually, free_address};
use crate::layers::root;
use crate::operate::{reload, status};

/// The operator's program.
struct Operator {
    address: SocketAddr,
    _process: Process,
}

impl Operator {
    fn start(plan: &Plan) -> Operator {
        let folder = plan.folder.path();
        let address = free_address();
        let file = |name: &str| folder.join(name).display().to_string();
        let script = root().join("tests/it/acme/ask.py").display().to_string();
        let arguments = [script, address.port().to_string(), file("allowed"), file("asked")];
        let process =
            Process::start(Path::new("python3"), &arguments, &[], &folder.join("operator.log"));
        let accepts = || TcpStream::connect(address).is_ok().then_some(());
        assert!(eventually(PATIENCE, accepts).is_some());
        Operator { address, _process: process }
    }

    fn setup(&self, plan: &Plan, pebble: &Pebble) -> Setup {
        let trusted = plan.folder.path().join("localhost.pem");
        plan.setup_for("*.shops.example", &pebble.directory(), &trusted)
            .line(&format!("acme.ask = 'http://{}/ask'", self.address))
            .line("timeouts.head = \"30s\"")
    }
}

fn allow(plan: &Plan, names: &str) {
    fs::write(plan.folder.path().join("allowed"), names).unwrap();
}

/// How often the operator was asked for a name.
fn asked(plan: &Plan, name: &str) -> usize {
    let asked = fs::read_to_string(plan.folder.path().join("asked")).unwrap_or_default();
    asked.lines().filter(|line| *line == name).count()
}

/// One handshake for this name, and a page.
fn is_served_at_once(plan: &Plan, name: &str, pebble: &Pebble) -> bool {
    plan.curl(name, &pebble.root()).status.success()
}

#[track_caller]
fn is_refused(plan: &Plan, server: &Server, name: &str, pebble: &Pebble) {
    let refused = plan.curl(name, &pebble.root());
    let wrong = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && wrong.contains("alert"), "{wrong} {}", server.log());
}

/// The first handshake for an allowed name waits for its certificate. Others are refused, and the
/// operator is not asked again at once.
#[test]
fn allowed_names_get_certificates() {
    let plan = Plan::new();
    let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
    let operator = Operator::start(&plan);
    allow(&plan, "one.shops.example\nother.example\n");
    let server = operator.setup(&plan, &pebble).start();
    assert!(is_served_at_once(&plan, "one.shops.example", &pebble), "{}", server.log());
    for _ in 0..2 {
        is_refused(&plan, &server, "two.shops.example", &pebble);
    }
    logged(&server, "TLS handshake failed: there is no certificate for two.shops.example client=");
    assert_eq!(asked(&plan, "one.shops.example"), 1);
    assert_eq!(asked(&plan, "two.shops.example"), 1);
    // No site has it, whatever the operator says.
    assert!(!is_served_at_once(&plan, "other.example", &pebble));
    assert_eq!(asked(&plan, "other.example"), 0);
    let names = || {
        let report = status(&server);
        let first = report["certificates"][0]["name"].as_str().map(str::to_owned);
        first.filter(|name| name == "one.shops.example")
    };
    assert!(eventually(PATIENCE, names).is_some(), "{}", status(&server));
    drop(server);
    plan.is_free();
    // It is kept.
    let server = operator.setup(&plan, &pebble).start();
    assert!(is_served_at_once(&plan, "one.shops.example", &pebble), "{}", server.log());
    assert_eq!((count(&server, ORDERED), asked(&plan, "one.shops.example")), (0, 1));
}

/// Many handshakes for a new name at once order one certificate, and all of them get it.
#[test]
fn a_crowd_orders_once() {
    let plan = Plan::new();
    let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
    let operator = Operator::start(&plan);
    allow(&plan, "one.shops.example\n");
    let server = operator.setup(&plan, &pebble).start();
    pebble.root();
    let served = std::thread::scope(|scope| {
        let curl = || is_served_at_once(&plan, "one.shops.example", &pebble);
        let all: Vec<_> = (0..10).map(|_| scope.spawn(curl)).collect();
        all.into_iter().map(|one| one.join().unwrap()).filter(|good| *good).count()
    });
    assert_eq!(served, 10, "{}", server.log());
    assert_eq!((count(&server, ORDERED), asked(&plan, "one.shops.example")), (1, 1));
}

/// A certificate for a name that the operator gives up is not renewed, and stays in use meanwhile.
#[test]
fn a_name_that_is_given_up_is_not_renewed() {
    let plan = Plan::new();
    let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
    let operator = Operator::start(&plan);
    allow(&plan, "one.shops.example\n");
    let server = operator.setup(&plan, &pebble).start();
    assert!(is_served_at_once(&plan, "one.shops.example", &pebble), "{}", server.log());
    drop(server);
    plan.is_free();
    allow(&plan, "");
    let file = plan.state().join("acme/on-demand/one.shops.example.pem");
    pebble.wants_renewal(&fs::read_to_string(file).unwrap());
    let server = operator.setup(&plan, &pebble).start();
    logged(
        &server,
        "one.shops.example: `ask` does not allow it any more; the old one stays in use",
    );
    assert!(is_served_at_once(&plan, "one.shops.example", &pebble), "{}", server.log());
    assert_eq!(count(&server, ORDERED), 0);
}

#[test]
fn the_number_of_names_is_bounded() {
    let plan = Plan::new();
    let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
    let operator = Operator::start(&plan);
    allow(&plan, "one.shops.example\ntwo.shops.example\n");
    let server = operator.setup(&plan, &pebble).line("acme.ask_names = 1").start();
    assert!(is_served_at_once(&plan, "one.shops.example", &pebble), "{}", server.log());
    is_refused(&plan, &server, "two.shops.example", &pebble);
    logged(&server, "1 names have certificates that clients asked for; further names are refused");
    assert_eq!(asked(&plan, "two.shops.example"), 0);
}

/// Without an answer of the operator nothing is ordered, and the log says what is wrong.
#[test]
fn an_operator_who_does_not_answer() {
    let plan = Plan::new();
    let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
    let trusted = plan.folder.path().join("localhost.pem");
    let nobody = free_address();
    let server = plan
        .setup_for("*.shops.example", &pebble.directory(), &trusted)
        .line(&format!("acme.ask = 'http://{nobody}/ask'"))
        .start();
    is_refused(&plan, &server, "one.shops.example", &pebble);
    logged(&server, "no certificate for one.shops.example: `ask` has failed: http://127.0.0.1");
    assert_eq!(count(&server, ORDERED), 0);
}

/// A name that a site takes over keeps its certificate: nothing is ordered anew, and it is served
/// all the time.
#[test]
fn a_name_that_becomes_a_site() {
    let plan = Plan::new();
    let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
    let operator = Operator::start(&plan);
    allow(&plan, "one.shops.example\n");
    let server = operator.setup(&plan, &pebble).start();
    assert!(is_served_at_once(&plan, "one.shops.example", &pebble), "{}", server.log());
    let file = server.places.top().join("tokamak.toml");
    let text = fs::read_to_string(&file).unwrap();
    let both =
        text.replace("[\"*.shops.example\"]", "[\"*.shops.example\", \"one.shops.example\"]");
    assert_ne!(both, text);
    fs::write(&file, both).unwrap();
    reload(&server).unwrap();
    for _ in 0..3 {
        assert!(is_served_at_once(&plan, "one.shops.example", &pebble), "{}", server.log());
        // Other certificates are sent to the fronts.
        allow(&plan, "one.shops.example\ntwo.shops.example\n");
        assert!(is_served_at_once(&plan, "two.shops.example", &pebble), "{}", server.log());
    }
    assert_eq!(count(&server, &format!("{ORDERED}one.shops.example")), 1, "{}", server.log());
}
