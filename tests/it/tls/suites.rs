//! Which versions, suites and groups are spoken: found by handshakes, and compared with the table
//! of the guide.

use std::fs;

use super::{Folder, Secured, secured_in};
use crate::harness::{Kind, Setup};
use crate::http2::client::{Target, runtime};
use crate::layers::root;

/// All suites of TLS 1.2 and older that openssl knows, those that nobody should speak included.
const OLD_SUITES: &str = "ALL:COMPLEMENTOFALL:@SECLEVEL=0";

/// All suites of TLS 1.3 that there are.
const SUITES: [&str; 5] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_CCM_SHA256",
    "TLS_AES_128_CCM_8_SHA256",
];

/// A server with a certificate of each kind: `localhost` with ECDSA, `rsa.example` with RSA.
fn of_both_kinds() -> Secured {
    let folder = Folder::new();
    // Not an authority: our own client takes none for a server.
    let kind = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -addext basicConstraints=CA:FALSE";
    folder.made_with("localhost", &["localhost"], &kind.split(' ').collect::<Vec<_>>());
    folder.made_with("rsa", &["rsa.example"], &["-newkey", "rsa:2048"]);
    let lines = folder.lines("rsa");
    let lines: Vec<String> = lines.lines().map(|line| format!("tls.{line}")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    secured_in(folder, Setup::new(Kind::Classic), &lines, &[])
}

/// The suite of a handshake, if there is one.
fn suite(secured: &Secured, flags: &[&str]) -> Option<String> {
    let printed = secured.s_client(flags, "");
    let (_, rest) = printed.split_once(", Cipher is ").unwrap_or_else(|| panic!("{printed}"));
    let name = rest.lines().next().unwrap_or_default();
    (name != "(NONE)").then(|| name.to_owned())
}

/// Each suite of TLS 1.2 that the server speaks with a name's certificate: the accepted one is left
/// out of the next handshake, until there is none. So all others are refused.
fn suites_of_12(secured: &Secured, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut list = OLD_SUITES.to_owned();
    while let Some(next) = suite(secured, &["-tls1_2", "-servername", name, "-cipher", &list]) {
        list = format!("!{next}:{list}");
        found.push(next);
    }
    found.sort();
    found
}

/// The same for TLS 1.3.
fn suites_of_13(secured: &Secured) -> Vec<String> {
    let mut left = SUITES.to_vec();
    let mut found = Vec::new();
    while let Some(next) = suite(secured, &["-tls1_3", "-ciphersuites", &left.join(":")]) {
        left.retain(|suite| *suite != next);
        found.push(next);
    }
    found.sort();
    found
}

#[test]
fn the_guide_has_what_is_spoken() {
    let secured = of_both_kinds();
    for old in ["-tls1", "-tls1_1"] {
        let printed = secured.s_client(&[old, "-cipher", OLD_SUITES], "");
        assert!(printed.contains("SSL alert number"), "{old}: {printed}");
    }
    let target = Target::secured(secured.address, &secured.folder.path("localhost.pem"));
    let preferred = runtime().block_on(target.group()).expect("a handshake");
    let mut groups = vec![format!("{preferred:?}")];
    for group in ["X25519", "P-256", "P-384", "P-521", "X448", "ffdhe2048", "ffdhe4096"] {
        if suite(&secured, &["-tls1_3", "-groups", group]).is_some() {
            groups.push(group.to_owned());
        }
    }
    let rows = [
        ("suites of TLS 1.3", suites_of_13(&secured)),
        ("suites of TLS 1.2 with an ECDSA key", suites_of_12(&secured, "localhost")),
        ("suites of TLS 1.2 with an RSA key", suites_of_12(&secured, "rsa.example")),
        ("exchange of keys", groups),
    ];
    let guide = fs::read_to_string(root().join("docs/certificates.md")).unwrap();
    for (name, found) in rows {
        let row = format!("| {name} | {} |", found.join(", "));
        assert!(guide.contains(&row), "docs/certificates.md should have this row:\n{row}");
    }
}
