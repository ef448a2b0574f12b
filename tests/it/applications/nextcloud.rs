//! Nextcloud, which Debian does not package: a tree of files with the names of its own.

use std::fs;

use super::{configuration, keeps_back};
use crate::harness::{Kind, Setup, check, get, row};

/// Says which script it is, and what it is told.
const SCRIPT: &str = "<?php header('X-Powered-By: PHP');
echo $_SERVER['SCRIPT_NAME'], ' [', $_SERVER['PATH_INFO'] ?? '', '] ', $_SERVER['REQUEST_URI'],
    ' ', getenv('front_controller_active');";

const SCRIPTS: [&str; 10] = [
    "index.php",
    "remote.php",
    "public.php",
    "cron.php",
    "status.php",
    "core/ajax/update.php",
    "ocs/v1.php",
    "ocs/v2.php",
    "ocs-provider/index.php",
    "updater/index.php",
];

/// What must not be seen.
const HIDDEN: [&str; 12] = [
    "build/x.php",
    "tests/x.php",
    "config/config.php",
    "lib/base.php",
    "3rdparty/autoload.php",
    "templates/x.php",
    "data/anna/files/letter.txt",
    "autotest.sh",
    "occ",
    "console.php",
    "db_structure.xml",
    "core/register_command.php",
];

#[test]
fn its_notes_for_nginx_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("cloud");
    let files = ["core/js/core.js", "apps/files/css/files.css", ".well-known/acme-challenge/token"];
    for name in SCRIPTS.iter().chain(&HIDDEN).chain(&files) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, SCRIPT).unwrap();
    }
    let tables = configuration("nextcloud.toml", ("cloud", "$ROOT"));
    let (limits, sites) = tables.split_at(tables.find("[[site]]").unwrap());
    let sites = sites.replacen("[[site]]", "[[site]]\npool.workers = 1", 1);
    let setup = Setup::new(Kind::Classic).site(root.to_str().unwrap());
    let server = setup.sites(&format!("{limits}{sites}")).start();
    let script = |name, target: &str, script: &str, info: &str| {
        let body = format!("{script} [{info}] {target} true");
        row(name, get(target))
            .body(body)
            .headers("x-powered-by", &[])
            .header("x-robots-tag", "noindex, nofollow")
    };
    let to =
        |name, target: &str, to: &str| row(name, get(target)).status(301).header("location", to);
    check(
        &server,
        vec![
            script("the first page", "/", "/index.php", ""),
            script("an app", "/apps/files/?dir=/a", "/index.php", ""),
            script("behind the script", "/index.php/apps/files", "/index.php", "/apps/files"),
            script("WebDAV", "/remote.php/dav/a.php", "/remote.php", "/dav/a.php"),
            script("an interface", "/ocs/v2.php/cloud?x", "/ocs/v2.php", "/cloud"),
            script("the updater", "/updater/", "/updater/index.php", ""),
            script("the state", "/status.php", "/status.php", ""),
            script("a missing file", "/apps/files/none.css", "/index.php", ""),
            to("contacts", "/.well-known/carddav", "/remote.php/dav/"),
            to("calendars", "/.well-known/caldav/", "/remote.php/dav/"),
            to("others", "/.well-known/webfinger?a", "/index.php/.well-known/webfinger?a"),
            to("remote", "/remote/webdav?a", "/remote.php/webdav?a"),
            row("a challenge", get("/.well-known/acme-challenge/token")),
            row("a file", get("/core/js/core.js"))
                .header("cache-control", "public, max-age=15778463"),
            row("headers of failures", get("/occ"))
                .status(404)
                .header("x-frame-options", "SAMEORIGIN"),
        ],
    );
    let hidden = HIDDEN.map(|path| format!("/{path}"));
    keeps_back(&server, "", &hidden.each_ref().map(String::as_str));
}
