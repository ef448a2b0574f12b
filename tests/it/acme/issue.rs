//! Certificates as they should come.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::authority::{EAB, Pebble, Traits};
use super::{NAME, Plan, count, logged};
use crate::harness::get;

fn trusted(plan: &Plan) -> std::path::PathBuf {
    plan.folder.path().join("localhost.pem")
}

/// A certificate that comes by HTTP-01, past the redirect to https and the limits of clients. It is
/// kept with the account over a restart.
#[test]
fn http_01_and_a_restart() {
    let plan = Plan::new();
    let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
    let setup = || {
        plan.setup(&pebble.directory(), &trusted(&plan))
            .line("acme.challenge = [\"http-01\"]")
            .site_line("[[site.rule]]\npath = \"/.well-known\"\nrate = \"1/h\"")
    };
    let server = setup().start();
    plan.is_served(&server, NAME, &pebble);
    logged(&server, "new account at https://127.0.0.1");
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&plan.state()), 0o700);
    assert_eq!(mode(&plan.certificate()), 0o600);
    let redirected = server.send(&get("/.well-known/acme-challenge/other").header("Host", NAME));
    assert_eq!(redirected.status(), 308, "no challenge is left behind");
    let kept = fs::read(plan.certificate()).unwrap();
    drop(server);
    plan.is_free();
    let server = setup().start();
    plan.is_served(&server, NAME, &pebble);
    assert_eq!(fs::read(plan.certificate()).unwrap(), kept);
    assert_eq!(count(&server, "is ordered") + count(&server, "new account"), 0);
}

#[test]
fn tls_alpn_01() {
    let plan = Plan::new();
    let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
    let setup = plan.setup(&pebble.directory(), &trusted(&plan));
    let server = setup.line("acme.challenge = [\"tls-alpn-01\"]").start();
    plan.is_served(&server, NAME, &pebble);
    assert_eq!(count(&server, "no new certificate"), 0, "{}", server.log());
}

/// A wildcard, by a program that changes the zone; nothing is left in it.
#[test]
fn dns_01_by_a_hook() {
    let plan = Plan::new();
    let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
    let hook = plan.folder.path().join("hook");
    let names = pebble.names;
    let script = format!(
        "#!/bin/sh\n\
         [ \"$1\" = add ] && order=set-txt || order=clear-txt\n\
         exec curl -sS --fail -m 10 -d \"{{\\\"host\\\":\\\"$2.\\\",\\\"value\\\":\\\"$3\\\"}}\" \
         http://{names}/$order\n"
    );
    fs::write(&hook, script).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let setup = plan.setup_for("*.shop.example", &pebble.directory(), &trusted(&plan));
    let server = setup.line(&format!("acme.dns_hook = '{}'", hook.display())).start();
    plan.is_served(&server, "any.shop.example", &pebble);
    assert!(plan.state().join("acme/certificates/@.shop.example.pem").exists());
    assert_eq!(count(&server, "may be left"), 0, "{}", server.log());
}

#[test]
fn an_account_with_a_key_of_the_authority() {
    let plan = Plan::new();
    let traits = Traits { wants_eab: true, ..Traits::default() };
    let Some(pebble) = Pebble::start(&plan, traits) else { return };
    let directory = pebble.directory();
    let setup = plan.setup(&directory, &trusted(&plan));
    let eab = format!("acme.eab = {{ \"{directory}\" = \"{}:{}\" }}", EAB.0, EAB.1);
    let server = setup.line(&eab).start();
    plan.is_served(&server, NAME, &pebble);
    assert!(!server.log().contains(EAB.1));
}

/// An authority that is about to revoke a certificate says so (ARI): it is renewed at once, and the
/// old one is named as the one that is replaced.
#[test]
fn renewed_when_the_authority_wants_it() {
    let plan = Plan::new();
    let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
    let setup = || plan.setup(&pebble.directory(), &trusted(&plan));
    let server = setup().start();
    plan.is_served(&server, NAME, &pebble);
    drop(server);
    plan.is_free();
    let old = fs::read_to_string(plan.certificate()).unwrap();
    pebble.wants_renewal(&old);
    let server = setup().start();
    logged(&server, "new certificate in use");
    assert_ne!(fs::read_to_string(plan.certificate()).unwrap(), old);
    plan.is_served(&server, NAME, &pebble);
}
