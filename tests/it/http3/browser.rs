//! Chromium over HTTP/3.

use super::{ADMIN, with_lines};
use crate::harness::{Kind, Setup};
use crate::metrics::samples;
use crate::services::devtools::Page;
use crate::services::home::Home;

#[test]
fn a_browser_loads_a_page() {
    let (secured, target) = with_lines(Setup::new(Kind::Classic), &[ADMIN]);
    let home = Home::new();
    let certificate = secured.folder.path("localhost.pem");
    let authority = format!("localhost:{}", target.address().port());
    let mut page =
        Page::open_over_quic(&home, &certificate, &authority, "/hello.php").expect("a page");
    let protocol = "performance.getEntriesByType('navigation')[0].nextHopProtocol";
    assert_eq!(page.value(protocol), "h3");
    let vars = "fetch('/server.php').then(response => response.json())";
    assert_eq!(page.value(vars)["SERVER_PROTOCOL"], "HTTP/3.0");
    let posted = "fetch('/echo.php', {method: 'POST', body: 'x'.repeat(300000)})
        .then(response => response.text()).then(text => text.length)";
    assert_eq!(page.value(posted), 300_000);
    assert!(samples(&secured.server)["tokamak_http3_requests_total"] >= 3.0);
}
