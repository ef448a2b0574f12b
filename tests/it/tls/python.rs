//! Python's libraries as clients: its own, which know HTTP/1, and those for HTTP/2.

use std::process::Command;

use super::{Secured, secured_in, with_clients};
use crate::harness::{Kind, Setup};
use crate::layers::root;

fn asking(auth: &str) -> Secured {
    let auth = format!("tls.client_auth = \"{auth}\"");
    let lines = [&*auth, "tls.client_ca = '$FOLDERauthority.pem'"];
    let lines = if auth.contains("none") { &lines[..1] } else { &lines[..] };
    secured_in(with_clients(), Setup::new(Kind::Classic), lines, &[])
}

/// What a client of this folder says, line by line.
fn says(secured: &Secured, script: &str, arguments: &[&str]) -> Vec<String> {
    let folder = secured.folder.path("");
    let output = Command::new("timeout")
        .args(["60", "/usr/bin/python3", "-B"])
        .arg(root().join("tests/it/tls").join(script))
        .args([&secured.address.port().to_string(), folder.to_str().unwrap()])
        .args(arguments)
        .output()
        .expect("python3 runs");
    let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
    said.lines().map(str::to_owned).collect()
}

#[test]
fn sessions_are_resumed_where_clients_are_not_asked() {
    let secured = asking("none");
    for (version, named) in [("TLSv1_2", "TLSv1.2"), ("TLSv1_3", "TLSv1.3")] {
        let first = format!("{named} 200 resumed=False - -");
        let later = format!("{named} 200 resumed=True - -");
        assert_eq!(says(&secured, "client.py", &[version, ""]), [&*first, &later, &later]);
    }
}

#[test]
fn certificates_are_shown_in_each_handshake() {
    for auth in ["optional", "required"] {
        let secured = asking(auth);
        for (version, named) in [("TLSv1_2", "TLSv1.2"), ("TLSv1_3", "TLSv1.3")] {
            let ann = format!("{named} 200 resumed=False SUCCESS CN=ann,O=Tests");
            assert_eq!(says(&secured, "client.py", &[version, "ann"]), [&*ann, &ann, &ann]);
            let nobody = says(&secured, "client.py", &[version, ""]);
            let without = format!("{named} 200 resumed=False NONE -");
            match auth {
                "optional" => assert_eq!(nobody, [&*without, &without, &without]),
                _ => assert!(is_refused(&nobody), "{version}: {nobody:?}"),
            }
            // Not taken for one without a certificate either.
            let stranger = says(&secured, "client.py", &[version, "stranger"]);
            assert!(is_refused(&stranger), "{auth} {version}: {stranger:?}");
        }
    }
}

/// An alert says why, and nothing was answered before.
fn is_refused(said: &[String]) -> bool {
    said.len() == 1 && said[0].starts_with("refused ") && said[0].contains("ALERT")
}

/// The connection is not reset under the hands of a client that has not read the alert yet.
#[test]
fn clients_that_go_on_get_an_alert_with_the_reason() {
    let secured = asking("required");
    assert_eq!(says(&secured, "eager.py", &[]), ["TLSV13_ALERT_CERTIFICATE_REQUIRED"; 5]);
}

#[test]
fn http_2_has_many_requests_on_a_connection() {
    let secured = asking("required");
    let said = says(&secured, "client_h2.py", &["ann"]);
    assert_eq!(said, ["HTTP/2 200 HTTP/2.0 CN=ann,O=Tests"]);
}
