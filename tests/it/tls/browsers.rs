//! A browser that verifies: it trusts the authority for local names.

use std::process::Command;

use serde_json::Value;

use super::Folder;
use super::local::{automatic, trust};
use crate::services::devtools::Page;
use crate::services::home::Home;

/// The protocol by which the page came.
fn protocol(page: &mut Page) -> Value {
    page.value("performance.getEntriesByType('navigation')[0].nextHopProtocol")
}

/// Whoever types what `tokamak trust` prints has a browser that trusts the server, and one that
/// does not after `tokamak trust --remove`.
#[test]
fn a_browser_trusts_the_authority_as_the_command_says() {
    let folder = Folder::new();
    let image = folder.path("image/usr/local/share/ca-certificates");
    std::fs::create_dir_all(image).unwrap();
    let (_server, address) = automatic(&folder.path("state"));
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
