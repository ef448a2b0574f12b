//! A real browser, headless: what a page looks like after its scripts have run and its images have
//! loaded.

use std::process::{Command, Stdio};

use super::home::Home;

/// Loads `url` in Chromium and gives the document as it stands after the `load` event.
pub fn document(url: &str) -> String {
    load(url, &[])
}

/// The same from a server whose certificate the browser does not know.
pub fn document_of_untrusted(url: &str) -> String {
    load(url, &["--ignore-certificate-errors"])
}

/// The same, after scripts have had this many milliseconds more. The browser's own clock counts
/// them: it stands still while a request is under way, and jumps when there is nothing to wait for.
pub fn document_after(url: &str, milliseconds: u32) -> String {
    load(url, &[&format!("--virtual-time-budget={milliseconds}")])
}

fn load(url: &str, options: &[&str]) -> String {
    let home = Home::new();
    let run = Command::new("timeout")
        .args(["--kill-after=5", "60", "chromium"])
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", home.profile().display()))
        .env("HOME", home.path())
        .env("TMPDIR", home.path())
        .args(options)
        .args(["--dump-dom", url])
        .stdin(Stdio::null())
        .output()
        .expect("timeout runs (package coreutils)");
    let document = String::from_utf8_lossy(&run.stdout).into_owned();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(
        !document.trim().is_empty(),
        "Chromium (package chromium) could not load {url}: {said}"
    );
    document
}
