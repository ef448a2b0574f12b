//! DokuWiki with its files in the root, as upstream has it, so that the rules have something to
//! keep back.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{configuration, keeps_back, open_to_all};
use crate::harness::{Kind, Server, Setup, check, get, row};

/// Where Debian's package has the application, its configuration and its data.
const PACKAGE: [&str; 3] =
    ["/usr/share/dokuwiki", "/etc/dokuwiki", "/usr/share/dokuwiki/inc/preload.php"];

/// What the wiki's operator sets.
const SETTINGS: &str = "<?php
$conf['title'] = 'Wiki';
$conf['savedir'] = './data';
$conf['userewrite'] = 1;
$conf['useslash'] = 1;
$conf['useacl'] = 0;
";

fn start() -> Server {
    let tables = configuration("dokuwiki.toml", ("doku", "$ROOT"));
    let tables = tables.replacen("[[site]]", "[[site]]\npool.workers = 2", 1);
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("doku");
    let copy = |from: &str, to: &Path| {
        let mut command = Command::new("cp");
        command.args(["-rL", from]).arg(to);
        let copied = command.output().expect("cp runs");
        assert!(copied.status.success(), "{copied:?}");
    };
    copy(PACKAGE[0], &root);
    copy(PACKAGE[1], &root.join("conf"));
    // It would lead the application to Debian's places.
    fs::remove_file(root.join("inc/preload.php")).unwrap();
    fs::write(root.join("conf/local.php"), SETTINGS).unwrap();
    for name in [
        "attic",
        "cache",
        "index",
        "locks",
        "log",
        "media",
        "media_attic",
        "media_meta",
        "meta",
        "pages",
        "tmp",
    ] {
        fs::create_dir_all(root.join("data").join(name)).unwrap();
    }
    let page = "====== Start ======\nThe core glows.\n";
    fs::write(root.join("data/pages/start.txt"), page).unwrap();
    fs::create_dir(root.join("data/pages/lab")).unwrap();
    fs::write(root.join("data/pages/lab/plan.txt"), "A plan.\n").unwrap();
    fs::create_dir(root.join("data/media/wiki")).unwrap();
    fs::copy(root.join("lib/images/bullet.png"), root.join("data/media/wiki/logo.png")).unwrap();
    let server = Setup::new(Kind::Classic).site(root.to_str().unwrap()).sites(&tables).start();
    open_to_all(&server.places.root().join("data"));
    server
}

#[test]
fn pages_media_and_exports_have_their_own_addresses() {
    let server = start();
    check(
        &server,
        vec![
            row("the first page", get("/")).contains("The core glows."),
            row("by its name", get("/start")).contains("The core glows."),
            row("in a folder", get("/lab/plan")).contains("A plan."),
            row("the query is kept", get("/start?do=edit")).contains("<textarea"),
            row("a page of this name", get("/start.php")).contains("<title>start.php [Wiki]"),
            row("hidden", get("/.hidden")).contains("<title>hidden [Wiki]"),
            row("a picture", get("/_media/wiki/logo.png")).header("content-type", "image/png"),
            row("smaller", get("/_media/wiki/logo.png?w=2&tok=none")).status(412),
            row("its page", get("/_detail/wiki/logo.png")).contains("logo.png"),
            row("exported", get("/_export/raw/start")).contains("====== Start ======"),
            row("in a folder", get("/_export/raw/lab/plan")).body("A plan.\n"),
            row("a file", get("/lib/images/bullet.png")).header("content-type", "image/png"),
            row("a script", get("/lib/exe/css.php")),
        ],
    );
    keeps_back(
        &server,
        "",
        &[
            "/bin/dwpage.php",
            "/conf/local.php",
            "/conf/users.auth.php",
            "/conf/acronyms.conf",
            "/data/pages/start.txt",
            "/data/media/wiki/logo.png",
            "/inc/init.php",
            "/inc/lang/en/lang.php",
            "/vendor/autoload.php",
        ],
    );
    for path in ["/.htaccess", "/lib/.htaccess", "/.git/config", "/VERSION", "/README"] {
        let text = server.get(path).text();
        assert!(!text.contains("Deny from") && !text.contains("Release "), "{path}: {text}");
    }
}
