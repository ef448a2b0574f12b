//! What happens meanwhile: reloads and crashes within a challenge, authorities that fail, one that
//! revokes.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::authority::{Pebble, Refusing, Traits, certificate};
use super::ways::Way;
use super::{NAME, Plan, count, logged};
use crate::harness::{Server, free_address, in_parallel};
use crate::layers::root;
use crate::operate::{configure, kill, reload, status, status_when};
use crate::supervise::children;

fn trusted(plan: &Plan) -> PathBuf {
    plan.folder.path().join("localhost.pem")
}

/// A server whose authority is looking for it, and waits.
fn in_a_challenge(plan: &mut Plan) -> Option<(Pebble, Way, Server)> {
    let way = Way::held(plan.plain);
    let real = std::mem::replace(&mut plan.plain, way.address);
    let pebble = Pebble::start(plan, Traits::default())?;
    plan.plain = real;
    let setup = plan.setup(&pebble.directory(), &trusted(plan));
    let server = setup.line("acme.challenge = [\"http-01\"]").start();
    way.is_used();
    Some((pebble, way, server))
}

/// That the certificate comes all the same, by the one order.
#[track_caller]
fn comes_all_the_same(plan: &Plan, (pebble, way, server): &(Pebble, Way, Server)) {
    assert!(!plan.certificate().exists(), "the authority still waits");
    way.open();
    plan.is_served(server, NAME, pebble);
    assert_eq!(count(server, "is ordered"), 1, "{}", server.log());
    assert_eq!(count(server, "no new certificate"), 0, "{}", server.log());
}

/// A reload within a challenge brings another front, which knows the challenge.
#[test]
fn a_reload_within_a_challenge() {
    let mut plan = Plan::new();
    let Some(all) = in_a_challenge(&mut plan) else { return };
    let server = &all.2;
    let front = |server: &Server| status(server)["front_pid"].as_u64().unwrap();
    let before = front(server);
    configure(server, "loops = 2", "loops = 1");
    reload(server).unwrap();
    let after = front(server);
    assert_ne!(before, after, "another front");
    // And once more, as by a script that changes many things: the old front is gone then.
    configure(server, "loops = 1", "loops = 2");
    reload(server).unwrap();
    let gone = |status: &serde_json::Value| status["draining"] == 0;
    status_when(server, "no generation that drains", gone);
    comes_all_the_same(&plan, &all);
}

#[test]
fn a_front_that_dies_within_a_challenge() {
    let mut plan = Plan::new();
    let Some(all) = in_a_challenge(&mut plan) else { return };
    let server = &all.2;
    let front = status(server)["front_pid"].as_u64().unwrap();
    kill("KILL", front);
    status_when(server, "another front", |status| {
        status["front_pid"].as_u64().is_some_and(|pid| pid != front && pid != 0)
    });
    comes_all_the_same(&plan, &all);
}

/// The process that has ordered dies: the next one does not order again at once, since nobody knows
/// what has become of the order.
#[test]
fn a_process_that_dies_within_a_challenge() {
    let mut plan = Plan::new();
    let Some((_pebble, way, mut server)) = in_a_challenge(&mut plan) else { return };
    let front = status(&server)["front_pid"].as_u64().unwrap();
    let supervisor = server.main_process().pid().into();
    let others: Vec<u64> =
        children(supervisor, "serve").into_iter().filter(|pid| *pid != front).collect();
    assert_eq!(others.len(), 1, "{others:?}");
    kill("KILL", others[0]);
    logged(&server, "the process that gets certificates has ended");
    let line = logged(&server, "no new certificate yet for shop.example: a try has ended");
    assert!(line.contains("there is none, and the next try is in "), "{line}");
    way.open();
    assert_eq!(count(&server, "is ordered"), 1, "{}", server.log());
    assert!(!plan.certificate().exists());
}

/// A site more within a challenge: the order that is under way is finished before its name has its
/// turn, and is not lost.
#[test]
fn a_site_more_within_a_challenge() {
    let mut plan = Plan::new();
    let Some((pebble, way, server)) = in_a_challenge(&mut plan) else { return };
    let also = "blog.example";
    configure(
        &server,
        &format!("host = [\"{NAME}\"]"),
        &format!("host = [\"{NAME}\", \"{also}\"]"),
    );
    reload(&server).unwrap();
    way.open();
    plan.is_served(&server, NAME, &pebble);
    plan.is_served(&server, also, &pebble);
    assert_eq!(count(&server, "no new certificate"), 0, "{}", server.log());
    assert_eq!(count(&server, &format!("a certificate for {NAME} is ordered")), 1);
}

/// The first of two authorities is away, or refuses, or wants to be left alone: the second one
/// gives the certificate, at once.
#[test]
fn two_authorities() {
    let refusals = [None, Some(403), Some(429), Some(500)];
    in_parallel(refusals.len(), |nth| {
        let refusal = refusals[nth];
        let plan = Plan::new();
        certificate(plan.folder.path());
        let refusing = refusal.map(|status| Refusing::start(&plan, status, "3600", "newAccount"));
        let first = match &refusing {
            Some(refusing) => refusing.directory(),
            None => format!("https://{}/dir", free_address()),
        };
        let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
        let both = format!("{first}\", \"{}", pebble.directory());
        let server = plan.setup(&both, &trusted(&plan)).start();
        plan.is_served(&server, NAME, &pebble);
        assert_eq!(count(&server, "is ordered"), 1, "{}", server.log());
        assert_eq!(count(&server, "no new certificate"), 0, "{}", server.log());
    });
}

/// A certificate that was revoked, as by somebody who has found its key, is replaced when the
/// authority is asked the next time.
#[test]
fn a_certificate_that_was_revoked() {
    let plan = Plan::new();
    let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
    let setup = || plan.setup(&pebble.directory(), &trusted(&plan));
    let server = setup().start();
    plan.is_served(&server, NAME, &pebble);
    let old = fs::read(plan.certificate()).unwrap();
    drop(server);
    plan.is_free();
    // One that is well stays.
    let server = setup().start();
    plan.is_served(&server, NAME, &pebble);
    let knows = |status: &serde_json::Value| status["certificates"][0]["next"].is_u64();
    status_when(&server, "when it is renewed", knows);
    assert_eq!(count(&server, "is ordered"), 0, "{}", server.log());
    drop(server);
    plan.is_free();
    let revoked = Command::new("/usr/bin/python3")
        .arg(root().join("tests/it/acme/revoke.py"))
        .arg(pebble.directory())
        .arg(plan.certificate())
        .output()
        .expect("python3 runs");
    assert!(revoked.status.success(), "{}", String::from_utf8_lossy(&revoked.stderr));
    let server = setup().start();
    logged(&server, "new certificate in use");
    assert_ne!(fs::read(plan.certificate()).unwrap(), old);
    plan.is_served(&server, NAME, &pebble);
    assert_eq!(count(&server, "is ordered"), 1, "{}", server.log());
}

/// An authority that limits orders, and knows the account: the name waits for as long as it says,
/// also after a restart, and other names are asked for. The account is made once.
#[test]
fn an_authority_that_limits_orders() {
    let plan = Plan::new();
    let authority = Refusing::start(&plan, 429, "3600", "newOrder");
    let asked = |what: &str| {
        let log = fs::read_to_string(plan.folder.path().join("authority.log")).unwrap();
        log.lines().filter(|line| line.contains(&format!("\"POST /{what} "))).count()
    };
    let setup = || plan.setup(&authority.directory(), &trusted(&plan)).also("blog.example", "php");
    let server = setup().start();
    for name in [NAME, "blog.example"] {
        let line = logged(&server, &format!("no new certificate for {name}"));
        for part in ["too\\nmany", "there is none, and the next try is in 36"] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
    }
    assert_eq!((asked("newAccount"), asked("newOrder")), (1, 2), "{}", server.log());
    drop(server);
    plan.is_free();
    let server = setup().start();
    for name in [NAME, "blog.example"] {
        logged(&server, &format!("no new certificate yet for {name}"));
    }
    drop(server);
    plan.is_free();
    assert_eq!((asked("newAccount"), asked("newOrder")), (1, 2));
    // Other settings are a reason to ask again, and none to make another account.
    let server = setup().line("acme.challenge = [\"http-01\"]").start();
    logged(&server, "no new certificate for shop.example");
    assert_eq!(asked("newAccount"), 1);
}
