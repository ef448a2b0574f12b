//! A browser that verifies: it trusts the authority for local names, resumes sessions, and shows a
//! certificate.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::local::{automatic, trust};
use super::{Folder, with_clients};
use crate::harness::{Server, eventually};
use crate::metrics::samples;
use crate::operate::reload;
use crate::services::devtools::Page;
use crate::services::home::Home;

const ADMIN: &str = "admin = \"unix:admin.sock\"";

const WHOLE: &str = "tokamak_tls_handshakes_total{resumed=\"no\",version=\"1.3\"}";
const RESUMED: &str = "tokamak_tls_handshakes_total{resumed=\"yes\",version=\"1.3\"}";

fn count(server: &Server, name: &str) -> f64 {
    samples(server)[name]
}

/// `$_SERVER` of one more request of the page.
fn server_vars(page: &mut Page) -> Value {
    page.value("fetch('/server.php').then(response => response.json())")
}

/// The protocol by which the page came.
fn protocol(page: &mut Page) -> Value {
    page.value("performance.getEntriesByType('navigation')[0].nextHopProtocol")
}

/// The user types the commands for browsers that `tokamak trust` prints, and Chromium trusts the
/// server. After those of `tokamak trust --remove` it does not trust it any more.
#[test]
fn a_browser_trusts_the_authority_as_the_command_says() {
    let folder = Folder::new();
    let image = folder.path("image/usr/local/share/ca-certificates");
    std::fs::create_dir_all(image).unwrap();
    let (_server, address) = automatic(&folder.path("state"), &[]);
    let url = format!("https://localhost:{}/hello.php", address.port());
    let home = Home::new();
    let loads = || Page::open_by(&home, &url).map(|mut page| protocol(&mut page));
    let refused = Err("net::ERR_CERT_AUTHORITY_INVALID".to_owned());
    // The browser has also made its store now.
    assert_eq!(loads(), refused);
    let type_what_is_said = |arguments: &[&str]| {
        let (is_done, all) = trust(&folder, arguments);
        assert!(is_done, "{all}");
        let commands: Vec<&str> = all.lines().filter(|line| line.starts_with("  ")).collect();
        let output = Command::new("sh")
            .args(["-ec", &commands.join("\n")])
            .env("HOME", home.path())
            .current_dir(folder.path(""))
            .output()
            .unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{all}\n{output:?}");
    };
    type_what_is_said(&[]);
    assert_eq!(loads(), Ok("h2".into()));
    type_what_is_said(&["--remove"]);
    assert_eq!(loads(), refused);
}

/// A reload ends the browser's connection, and the next request makes another, with another front
/// that counts from 0.
#[test]
fn a_browser_resumes_its_session() {
    let folder = Folder::new();
    let (server, address) = automatic(&folder.path("state"), &[ADMIN]);
    let home = Home::new();
    home.trusts(&folder.path("state/local/root.pem"));
    let url = format!("https://localhost:{}/hello.php", address.port());
    let mut page = Page::open_by(&home, &url).expect("a page");
    assert_eq!(protocol(&mut page), "h2");
    assert!(count(&server, WHOLE) >= 1.0);
    reload(&server).unwrap();
    let comes_again = || {
        assert_eq!(server_vars(&mut page)["SERVER_PROTOCOL"], "HTTP/2.0");
        (count(&server, RESUMED) > 0.0).then_some(())
    };
    eventually(Duration::from_secs(20), comes_again).expect("a resumed session");
    assert_eq!(count(&server, WHOLE), 0.0, "whole handshakes");
}

/// There are no tickets where clients show certificates, so each connection shows one.
#[test]
fn a_browser_shows_its_certificate_on_each_connection() {
    let folder = with_clients();
    let authority = format!("tls.client_ca = '{}'", folder.path("authority.pem").display());
    let lines = [ADMIN, "tls.client_auth = \"required\"", &authority];
    let (server, address) = automatic(&folder.path("state"), &lines);
    let origin = format!("https://localhost:{}", address.port());
    let home = Home::new();
    home.trusts(&folder.path("state/local/root.pem"));
    // Which error it shows is chance: it may see the end of the connection before the alert.
    assert!(Page::open_by(&home, &origin).is_err());
    server.log_line(&["TLS handshake failed: peer sent no certificates"]);
    assert_eq!(count(&server, WHOLE), 0.0);

    home.shows(&folder.path("ann.pem"), &folder.path("ann.key"), &origin);
    let mut page = Page::open_by(&home, &format!("{origin}/hello.php")).expect("a page");
    assert_eq!(protocol(&mut page), "h2");
    assert!(count(&server, WHOLE) >= 1.0);
    reload(&server).unwrap();
    let comes_again = || {
        let vars = server_vars(&mut page);
        for (name, expected) in [
            ("SERVER_PROTOCOL", "HTTP/2.0"),
            ("SSL_CLIENT_VERIFY", "SUCCESS"),
            ("SSL_CLIENT_S_DN", "CN=ann,O=Tests"),
        ] {
            assert_eq!(vars[name], expected, "{name}: {vars:#}");
        }
        (count(&server, WHOLE) > 0.0).then_some(())
    };
    eventually(Duration::from_secs(20), comes_again).expect("another connection");
    assert_eq!(count(&server, RESUMED), 0.0, "resumed");
}
