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
}

/// An authority, the operator's program, and the places of a server with a site for
/// `*.shops.example`.
struct Shops {
    operator: Operator,
    pebble: Pebble,
    plan: Plan,
}

impl Shops {
    /// The operator allows these names. `None`: there is no authority to test with.
    fn allowing(names: &str) -> Option<Shops> {
        let plan = Plan::new();
        let pebble = Pebble::start(&plan, Traits::default())?;
        let operator = Operator::start(&plan);
        let shops = Shops { operator, pebble, plan };
        shops.allow(names);
        Some(shops)
    }

    fn allow(&self, names: &str) {
        fs::write(self.plan.folder.path().join("allowed"), names).unwrap();
    }

    fn setup(&self) -> Setup {
        self.setup_asking(self.operator.address)
    }

    fn setup_asking(&self, operator: SocketAddr) -> Setup {
        let trusted = self.plan.folder.path().join("localhost.pem");
        let setup = self.plan.setup_for("*.shops.example", &self.pebble.directory(), &trusted);
        setup.line(&format!("acme.ask = 'http://{operator}/ask'")).line("timeouts.head = \"30s\"")
    }

    /// How often the operator was asked for a name.
    fn asked(&self, name: &str) -> usize {
        let file = self.plan.folder.path().join("asked");
        let asked = fs::read_to_string(file).unwrap_or_default();
        asked.lines().filter(|line| *line == name).count()
    }

    /// Whether one handshake for this name gets a page.
    fn serves_at_once(&self, name: &str) -> bool {
        self.plan.curl(name, &self.pebble.root()).status.success()
    }

    #[track_caller]
    fn refuses(&self, server: &Server, name: &str) {
        let refused = self.plan.curl(name, &self.pebble.root());
        let wrong = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && wrong.contains("alert"), "{wrong} {}", server.log());
    }
}

/// The first handshake for an allowed name waits for its certificate. Others are refused, and the
/// operator is not asked again at once.
#[test]
fn allowed_names_get_certificates() {
    let Some(shops) = Shops::allowing("one.shops.example\nother.example\n") else { return };
    let server = shops.setup().start();
    assert!(shops.serves_at_once("one.shops.example"), "{}", server.log());
    for _ in 0..2 {
        shops.refuses(&server, "two.shops.example");
    }
    logged(&server, "TLS handshake failed: there is no certificate for two.shops.example client=");
    assert_eq!(shops.asked("one.shops.example"), 1);
    assert_eq!(shops.asked("two.shops.example"), 1);
    // No site has it, whatever the operator says.
    assert!(!shops.serves_at_once("other.example"));
    assert_eq!(shops.asked("other.example"), 0);
    let names = || {
        let report = status(&server);
        let first = report["certificates"][0]["name"].as_str().map(str::to_owned);
        first.filter(|name| name == "one.shops.example")
    };
    assert!(eventually(PATIENCE, names).is_some(), "{}", status(&server));
    drop(server);
    shops.plan.is_free();
    // It is kept.
    let server = shops.setup().start();
    assert!(shops.serves_at_once("one.shops.example"), "{}", server.log());
    assert_eq!((count(&server, ORDERED), shops.asked("one.shops.example")), (0, 1));
}

/// Many handshakes for a new name at once order one certificate, and all of them get it.
#[test]
fn a_crowd_orders_once() {
    let Some(shops) = Shops::allowing("one.shops.example\n") else { return };
    let server = shops.setup().start();
    shops.pebble.root();
    let served = std::thread::scope(|scope| {
        let curl = || shops.serves_at_once("one.shops.example");
        let all: Vec<_> = (0..10).map(|_| scope.spawn(curl)).collect();
        all.into_iter().map(|one| one.join().unwrap()).filter(|good| *good).count()
    });
    assert_eq!(served, 10, "{}", server.log());
    assert_eq!((count(&server, ORDERED), shops.asked("one.shops.example")), (1, 1));
}

/// A certificate for a name that the operator gives up is not renewed, and stays in use meanwhile.
#[test]
fn a_name_that_is_given_up_is_not_renewed() {
    let Some(shops) = Shops::allowing("one.shops.example\n") else { return };
    let server = shops.setup().start();
    assert!(shops.serves_at_once("one.shops.example"), "{}", server.log());
    drop(server);
    shops.plan.is_free();
    shops.allow("");
    let file = shops.plan.state().join("acme/on-demand/one.shops.example.pem");
    shops.pebble.wants_renewal(&fs::read_to_string(file).unwrap());
    let server = shops.setup().start();
    logged(
        &server,
        "one.shops.example: `ask` does not allow it any more; the old one stays in use",
    );
    assert!(shops.serves_at_once("one.shops.example"), "{}", server.log());
    assert_eq!(count(&server, ORDERED), 0);
}

#[test]
fn the_number_of_names_is_bounded() {
    let Some(shops) = Shops::allowing("one.shops.example\ntwo.shops.example\n") else { return };
    let server = shops.setup().line("acme.ask_names = 1").start();
    assert!(shops.serves_at_once("one.shops.example"), "{}", server.log());
    shops.refuses(&server, "two.shops.example");
    logged(&server, "1 names have certificates that clients asked for; further names are refused");
    assert_eq!(shops.asked("two.shops.example"), 0);
}

/// Without an answer of the operator nothing is ordered, and the log says what is wrong.
#[test]
fn an_operator_who_does_not_answer() {
    let Some(shops) = Shops::allowing("") else { return };
    let server = shops.setup_asking(free_address()).start();
    shops.refuses(&server, "one.shops.example");
    logged(&server, "no certificate for one.shops.example: `ask` has failed: http://127.0.0.1");
    assert_eq!(count(&server, ORDERED), 0);
}

/// A name that a site takes over keeps its certificate: nothing is ordered anew, and it is served
/// all the time.
#[test]
fn a_name_that_becomes_a_site() {
    let Some(shops) = Shops::allowing("one.shops.example\n") else { return };
    let server = shops.setup().start();
    assert!(shops.serves_at_once("one.shops.example"), "{}", server.log());
    let file = server.places.top().join("tokamak.toml");
    let text = fs::read_to_string(&file).unwrap();
    let both =
        text.replace("[\"*.shops.example\"]", "[\"*.shops.example\", \"one.shops.example\"]");
    assert_ne!(both, text);
    fs::write(&file, both).unwrap();
    reload(&server).unwrap();
    for _ in 0..3 {
        assert!(shops.serves_at_once("one.shops.example"), "{}", server.log());
        // Other certificates are sent to the fronts.
        shops.allow("one.shops.example\ntwo.shops.example\n");
        assert!(shops.serves_at_once("two.shops.example"), "{}", server.log());
    }
    assert_eq!(count(&server, &format!("{ORDERED}one.shops.example")), 1, "{}", server.log());
}
