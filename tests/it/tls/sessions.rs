//! Sessions that are resumed, and clients with certificates.

use std::process::Command;
use std::time::Duration;

use super::{Secured, secured, secured_in, with_clients};
use crate::harness::{Kind, Setup, eventually};
use crate::operate::{reload, status};

const REQUEST: &str = "GET /hello.php HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Connects with a session from `FILE`, or makes one; whether it was resumed.
pub fn connects(secured: &Secured, version: &str, session: (&str, bool)) -> bool {
    let (file, is_there) = session;
    let flag = if is_there { "-sess_in" } else { "-sess_out" };
    let flags = [version, "-servername", "localhost", "-ign_eof", flag, file];
    let printed = secured.s_client(&flags, REQUEST);
    assert!(printed.contains("HTTP/1.1 200"), "{printed}");
    printed.contains("\nReused, ")
}

#[test]
fn sessions_outlive_a_reload_and_a_crash_of_the_front() {
    let secured = secured(Kind::Classic, &[], &[]);
    for version in ["-tls1_2", "-tls1_3"] {
        let file = format!("session{version}");
        assert!(!connects(&secured, version, (&file, false)));
        assert!(connects(&secured, version, (&file, true)), "{version}");
    }
    reload(&secured.server).unwrap();
    for version in ["-tls1_2", "-tls1_3"] {
        let file = format!("session{version}");
        assert!(connects(&secured, version, (&file, true)), "{version} after a reload");
    }
    let front = status(&secured.server)["front_pid"].as_u64().unwrap();
    let killed = Command::new("kill").args(["-9", &front.to_string()]).status().unwrap();
    assert!(killed.success());
    let is_back = || {
        let answer = secured.curl("/hello.php", &[]);
        (answer.status.success() && status(&secured.server)["front_pid"] != front).then_some(())
    };
    eventually(Duration::from_secs(30), is_back).expect("another front serves");
    for version in ["-tls1_2", "-tls1_3"] {
        let file = format!("session{version}");
        assert!(connects(&secured, version, (&file, true)), "{version} after a crash");
    }
}

fn asking(policy: &str) -> Secured {
    let auth = format!("tls.client_auth = \"{policy}\"");
    let lines = [&*auth, "tls.client_ca = '$FOLDERauthority.pem'"];
    secured_in(with_clients(), Setup::new(Kind::Classic), &lines, &[])
}

fn as_client(secured: &Secured, name: &str) -> [String; 4] {
    let path = |ending: &str| {
        secured.folder.path(&format!("{name}.{ending}")).to_str().unwrap().to_owned()
    };
    ["--cert".into(), path("pem"), "--key".into(), path("key")]
}

#[test]
fn clients_show_certificates() {
    let secured = asking("optional");
    let none = secured.server_vars(&[]);
    assert_eq!(none["SSL_CLIENT_VERIFY"], "NONE");
    let ann = as_client(&secured, "ann");
    let ann: Vec<&str> = ann.iter().map(String::as_str).collect();
    let vars = secured.server_vars(&ann);
    for (name, expected) in [
        ("SSL_CLIENT_VERIFY", "SUCCESS"),
        ("SSL_CLIENT_S_DN", "CN=ann,O=Tests"),
        ("SSL_CLIENT_I_DN", "CN=authority"),
        ("SSL_CLIENT_M_SERIAL", "1A2B"),
    ] {
        assert_eq!(vars[name], expected, "{name}: {vars:#}");
    }
    assert!(vars["SSL_CLIENT_V_END"].as_str().unwrap().ends_with(" GMT"), "{vars:#}");
    let pem = std::fs::read_to_string(secured.folder.path("ann.pem")).unwrap();
    assert_eq!(vars["SSL_CLIENT_CERT"].as_str().unwrap().trim(), pem.trim());
    let stranger = as_client(&secured, "stranger");
    let stranger: Vec<&str> = stranger.iter().map(String::as_str).collect();
    assert!(!secured.curl("/hello.php", &stranger).status.success(), "an unknown authority");
}

#[test]
fn clients_without_certificates_are_refused() {
    let secured = asking("required");
    assert!(!secured.curl("/hello.php", &[]).status.success());
    let ann = as_client(&secured, "ann");
    let ann: Vec<&str> = ann.iter().map(String::as_str).collect();
    assert!(secured.text("/hello.php", &ann).contains("Hello"));
    secured.server.log_line(&["TLS handshake failed", "client=127.0.0.1:"]);
}

#[test]
fn a_ticket_from_before_does_not_stand_for_a_certificate() {
    let secured = secured_in(with_clients(), Setup::new(Kind::Classic), &[], &[]);
    for version in ["-tls1_2", "-tls1_3"] {
        let file = format!("session{version}");
        assert!(!connects(&secured, version, (&file, false)));
        assert!(connects(&secured, version, (&file, true)));
    }
    let file = secured.server.state_file("").parent().unwrap().join("tokamak.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let authority = secured.folder.path("authority.pem");
    let lines = |policy: &str| {
        format!("tls.client_auth = \"{policy}\"\ntls.client_ca = '{}'\n", authority.display())
    };
    for policy in ["optional", "required"] {
        std::fs::write(&file, lines(policy) + &text).unwrap();
        reload(&secured.server).unwrap();
        for version in ["-tls1_2", "-tls1_3"] {
            let file = format!("session{version}");
            let flags = [version, "-servername", "localhost", "-ign_eof", "-sess_in", &file];
            let printed = secured.s_client(&flags, REQUEST);
            let is_served = printed.contains("HTTP/1.1 200");
            assert_eq!(is_served, policy == "optional", "{version}: {printed}");
            assert!(!printed.contains("Reused"), "{version}: {printed}");
        }
    }
}

/// Else a client would be known by a certificate for as long as it comes again, also when that has
/// ended.
#[test]
fn where_clients_show_certificates_they_get_no_tickets() {
    let secured = asking("optional");
    for version in ["-tls1_2", "-tls1_3"] {
        let printed = secured.s_client(&[version, "-servername", "localhost", "-ign_eof"], REQUEST);
        assert!(printed.contains("HTTP/1.1 200"), "{version}: {printed}");
        assert!(!printed.contains("session ticket"), "{version}: {printed}");
    }
}
