//! Clients of other makes than curl and openssl: a browser, and Go's library.

use std::fs;
use std::process::Command;

use super::{secured, secured_in, with_clients};
use crate::harness::{Kind, Setup};
use crate::layers::root;
use crate::services::browser;

#[test]
fn a_browser_chooses_http_2() {
    let secured = secured(Kind::Classic, &[], &[]);
    let script = "performance.getEntriesByType('navigation')[0].nextHopProtocol";
    let page = format!("<!doctype html><p id=p></p><script>p.textContent = {script}</script>");
    fs::write(secured.server.places.root().join("protocol.html"), page).unwrap();
    let url = format!("https://{}/protocol.html", secured.address);
    let document = browser::document_of_untrusted(&url);
    assert!(document.contains("<p id=\"p\">h2</p>"), "{document}");
}

/// Three requests, each on a connection of its own, with one cache of sessions.
#[test]
fn go_resumes_sessions_and_shows_certificates() {
    let folder = with_clients();
    let program = folder.path("client");
    let built = Command::new("timeout")
        .args(["300", "go", "build", "-o"])
        .arg(&program)
        .arg(root().join("tests/go/client.go"))
        .output()
        .expect("go runs (Debian's package golang-go)");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    for (auth, expected) in [
        ("none", ["HTTP/2.0 200 resumed=false", "HTTP/2.0 200 resumed=true"]),
        ("required", ["HTTP/2.0 200 resumed=false", "HTTP/2.0 200 resumed=false"]),
    ] {
        let lines =
            [&*format!("tls.client_auth = \"{auth}\""), "tls.client_ca = '$FOLDERauthority.pem'"];
        let lines = if auth == "none" { &lines[..1] } else { &lines[..] };
        let secured = secured_in(with_clients(), Setup::new(Kind::Classic), lines, &[]);
        let path = |name: &str| secured.folder.path(name);
        let output = Command::new("timeout")
            .arg("30")
            .arg(&program)
            .arg(format!("https://{}/hello.php", secured.address))
            .args([path("localhost.pem"), path("ann.pem"), path("ann.key")])
            .output()
            .expect("the client runs");
        let said =
            String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines, [expected[0], expected[1], expected[1]], "{auth}");
    }
}
