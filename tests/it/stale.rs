//! A site that changes under its server: who serves what, and how soon.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::harness::extensions::scan_directory;
use crate::harness::{End, Kind, Server, Setup, eventually, get};
use crate::operate::{configuration, kill, pid_in, reload, status, status_when, worker_pids};

/// Longest wait for what happens by itself within seconds.
const PATIENCE: Duration = Duration::from_secs(60);

fn setup(kind: Kind) -> Setup {
    Setup::new(kind).site("sites/stale")
}

fn start(kind: Kind) -> Server {
    setup(kind).start()
}

/// For the table. A test has not the two minutes for which PHP remembers paths, and of two workers
/// the second may boot after a change.
fn start_for_table(kind: Kind, when: When) -> Server {
    let setup = match when {
        When::Forgotten => setup(kind).php_admin_value("realpath_cache_ttl", "2"),
        When::Reload => setup(kind).workers(1),
        _ => setup(kind),
    };
    setup.start()
}

fn write(server: &Server, name: &str, text: &str) {
    fs::write(server.places.root().join(name), text).unwrap();
}

fn has(server: &Server, what: &str) -> bool {
    let response = server.send(&get("/index.php"));
    response.status() == 200 && response.text().contains(what)
}

/// How a change becomes the application.
#[derive(Clone, Copy, Debug, PartialEq)]
enum When {
    /// With the next request but for the blink of an eye in which the kernel tells of it.
    AtOnce,
    /// By itself, after this many seconds at most on a machine that is not busy.
    Seconds(u32),
    /// When PHP has forgotten where a path leads, after `realpath_cache_ttl`.
    Forgotten,
    /// By `tokamak reload`.
    Reload,
}

impl When {
    fn text(self) -> String {
        match self {
            When::AtOnce => "at once".into(),
            When::Seconds(seconds) => format!("{seconds} s"),
            When::Forgotten => "2 min".into(),
            When::Reload => "`tokamak reload`".into(),
        }
    }
}

/// What is changed: the text of the row, what is done, and what is then in the page.
type Change = (&'static str, fn(&Server), &'static str, [When; 5]);

const KINDS: [Kind; 5] = [Kind::Classic, Kind::Worker, Kind::Async, Kind::Sealed, Kind::Fpm];

const CHANGES: [Change; 9] = [
    (
        "a PHP file that requests load",
        change_page,
        "page 2",
        [When::Seconds(2), When::AtOnce, When::AtOnce, When::Seconds(2), When::Seconds(2)],
    ),
    (
        "a PHP file that the boot loads",
        |server| write(server, "constant.php", "<?php const CONSTANT = 2;"),
        "constant 2",
        [When::Seconds(2), When::Reload, When::Reload, When::AtOnce, When::Seconds(2)],
    ),
    (
        "another file that the boot reads (`.env`, YAML)",
        |server| write(server, ".env", "two"),
        "setting two",
        [When::AtOnce, When::Reload, When::Reload, When::AtOnce, When::AtOnce],
    ),
    (
        "a file that the boot looked for and did not find (the first `config:cache`)",
        |server| write(server, "cache.php", "<?php return 'two';"),
        "cache two",
        [When::AtOnce, When::Reload, When::Reload, When::AtOnce, When::AtOnce],
    ),
    (
        "a file in a directory that the boot lists",
        |server| write(server, "plugins/two.php", "<?php"),
        "plugins 2",
        [When::AtOnce, When::Reload, When::Reload, When::AtOnce, When::AtOnce],
    ),
    (
        "the size or a time of a file that the boot asks for (`filemtime`)",
        |server| write(server, "asset.css", "b {}\n\n"),
        "asset 6",
        [When::AtOnce, When::Reload, When::Reload, When::AtOnce, When::AtOnce],
    ),
    (
        "a folder of what the boot loads: another one is moved to its place",
        swap_folders,
        "part 2",
        [When::Seconds(2), When::Reload, When::Reload, When::AtOnce, When::Seconds(2)],
    ),
    (
        "a link in the path of a PHP file that the boot loads: it leads elsewhere",
        lead_elsewhere,
        "linked 2",
        [When::Forgotten, When::Reload, When::Reload, When::AtOnce, When::Forgotten],
    ),
    (
        "the release: a link leads elsewhere, and the old folder is removed",
        switch_release,
        "page release",
        [When::Seconds(3); 5],
    ),
];

fn change_page(server: &Server) {
    look_old(&server.places.root().join("page.php"));
    for _ in 0..3 {
        assert!(has(server, "page 1"));
    }
    write(server, "page.php", "<?php return 2;");
}

/// The site was copied a moment ago: in the same second PHP would take the new file for the old.
fn swap_folders(server: &Server) {
    let root = server.places.root();
    fs::create_dir(root.join("part.next")).unwrap();
    write(server, "part.next/part.php", "<?php return 2;");
    look_old(&root.join("part.next/part.php"));
    fs::rename(root.join("part"), root.join("part.old")).unwrap();
    fs::rename(root.join("part.next"), root.join("part")).unwrap();
}

/// Gives a file a time of modification long ago, since opcache keeps no file that is younger than
/// two seconds.
pub fn look_old(file: &Path) {
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    fs::File::options().append(true).open(file).unwrap().set_modified(long_ago).unwrap();
}

/// What it has led to stays. Nothing else loads it: opcache checks a file once in two seconds, by
/// whatever path comes first, and then would not see the link.
fn lead_elsewhere(server: &Server) {
    let root = server.places.root();
    for target in ["1", "2"] {
        fs::create_dir(root.join(target)).unwrap();
        write(server, &format!("{target}/part.php"), &format!("<?php return {target};"));
    }
    symlink("1", root.join("linked")).unwrap();
    if server.kind != Kind::Fpm {
        reload(server).unwrap();
    }
    assert!(has(server, "linked 1"));
    symlink("2", root.join("next")).unwrap();
    fs::rename(root.join("next"), root.join("linked")).unwrap();
}

/// The site is served through a link. Where a web server names the scripts, it names them by the
/// path that it was started with.
fn serve_a_link(server: &Server) -> PathBuf {
    if server.kind == Kind::Fpm {
        let first = server.places.top().join("release-1");
        fs::rename(server.places.root(), &first).unwrap();
        symlink(&first, server.places.root()).unwrap();
        renew_processes(server);
        return server.places.root();
    }
    let link = server.places.top().join("current");
    symlink(server.places.root(), &link).unwrap();
    let text = fs::read_to_string(configuration(server)).unwrap();
    let through = text.replace(server.places.root().to_str().unwrap(), link.to_str().unwrap());
    fs::write(configuration(server), through).unwrap();
    reload(server).unwrap();
    link
}

/// Those of `tokamak fpm` remember where paths led when they first came there.
fn renew_processes(server: &Server) {
    let log = server.log();
    let pid = log.split_once("fpm is running, pid ").and_then(|(_, rest)| rest.lines().next());
    kill("USR2", pid.and_then(|pid| pid.trim().parse().ok()).expect("its process"));
    let is_ready = || server.log().matches("ready to handle connections").count() == 2;
    eventually(PATIENCE, || is_ready().then_some(())).expect("new processes");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        if entry.path().is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()));
        } else {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

fn switch_release(server: &Server) {
    let link = serve_a_link(server);
    let gone = link.canonicalize().unwrap();
    let next = server.places.top().join("release-2");
    copy(&gone, &next);
    fs::write(next.join("page.php"), "<?php return 'release';").unwrap();
    let new_link = server.places.top().join("next");
    symlink(&next, &new_link).unwrap();
    assert!(has(server, "page "));
    fs::rename(&new_link, &link).unwrap();
    fs::remove_dir_all(gone).unwrap();
}

/// The page of the documentation has this very table, and each of its cells holds.
#[test]
fn each_cell_of_the_table_holds() {
    let mut page = String::new();
    for (what, change, becomes, cells) in CHANGES {
        let texts: Vec<_> = cells.iter().map(|when| when.text()).collect();
        page += &format!("| {what} | {} |\n", texts.join(" | "));
        std::thread::scope(|scope| {
            for (kind, when) in KINDS.into_iter().zip(cells) {
                scope.spawn(move || {
                    let server = start_for_table(kind, when);
                    assert!(has(&server, "constant 1") && !has(&server, becomes));
                    let begun = Instant::now();
                    change(&server);
                    if when == When::Reload {
                        // As nothing tells that it never happens, once has to do.
                        assert!(!has(&server, becomes), "{kind:?}: {what}");
                        reload(&server).unwrap();
                        return assert!(has(&server, becomes), "{kind:?}: {what}");
                    }
                    let is_there = || has(&server, becomes).then_some(());
                    eventually(PATIENCE, is_there)
                        .unwrap_or_else(|| panic!("{kind:?}: {what} goes unnoticed"));
                    println!("{kind:?}: {what}: {:.1} s", begun.elapsed().as_secs_f64());
                    if kind == Kind::Fpm && becomes == "page release" {
                        // The new release may come from a process that had not seen the old one.
                        let line = "what PHP remembered of paths is forgotten";
                        let is_said = || {
                            let is_there = has(&server, becomes);
                            (is_there && server.log().contains(line)).then_some(())
                        };
                        eventually(PATIENCE, is_said)
                            .unwrap_or_else(|| panic!("not said: {}", server.log()));
                    }
                });
            }
        });
    }
    let written =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/changes.md")).unwrap();
    assert!(written.contains(&page), "docs/changes.md has another table than this:\n{page}");
}

/// The size and the time of modification can be put back, as `rsync --times` does.
#[test]
fn a_file_that_looks_as_old_as_before_is_read_again() {
    let server = start(Kind::Sealed);
    let is_served = |setting: &str| has(&server, &format!("setting {setting}")).then_some(());
    let set = |setting: &str| {
        let file = server.places.root().join(".env");
        fs::write(&file, setting).unwrap();
        look_old(&file);
    };
    set("one");
    eventually(PATIENCE, || is_served("one")).expect("the first");
    status_when(&server, "an image", |status| {
        status["pools"][0]["renewals"].as_u64().unwrap() >= 1
    });
    set("two");
    eventually(PATIENCE, || is_served("two")).expect("the second");
}

/// While a package is upgraded the settings of its extension are away for a moment. An image of
/// that moment would be without the extension until somebody reloads.
#[test]
fn settings_that_are_away_for_a_moment_are_in_no_image() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.ini");
    let set = |value: &str| fs::write(&file, format!("highlight.string = \"{value}\"\n")).unwrap();
    set("#111111");
    let folders = format!("{}:{}", scan_directory(), folder.path().display());
    let setup = Setup::new(Kind::Sealed).site("sites/stale").worker("settings.php");
    let server = setup.server_env("PHP_INI_SCAN_DIR", &folders).start();
    assert_eq!(server.text("/"), "#111111");

    fs::remove_file(&file).unwrap();
    // As an upgrade takes: nothing tells that the server has seen it and waits.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(server.text("/"), "#111111");
    set("#222222");
    let renewed = eventually(PATIENCE, || match &*server.text("/") {
        "#111111" => None,
        value => Some(value.to_owned()),
    });
    assert_eq!(renewed.as_deref(), Some("#222222"), "{}", server.log());
}

/// What a page needs of the boot script is there, too, while its site has no image.
#[test]
fn without_an_image_requests_run_the_boot_script_first() {
    let with = |boot| Setup::new(Kind::Sealed).site("sites/stale").boot(boot).workers(1).start();
    let server = with("booted.php");
    let page = || server.get("/uses.php").expect(200).text().to_owned();
    assert_eq!(page(), "the boot says 1");
    write(&server, "constant.php", "<?php const CONSTANT = 2;");
    // The first ones without an image, the last ones with the new one.
    let is_renewed = || {
        let page = page();
        assert!(["the boot says 1", "the boot says 2"].contains(&&*page), "{page}");
        server.log().contains("new processes serve").then_some(page)
    };
    assert_eq!(eventually(PATIENCE, is_renewed).as_deref(), Some("the boot says 2"));

    let locked = with("locking.php");
    assert_eq!(locked.get("/uses.php").expect(200).text(), "the boot says 1");
    locked.log_line(&["no image can be taken", "runs in classic mode"]);
    assert_eq!(locked.get("/uses.php").expect(200).text(), "the boot says 1");

    // It does not lock any more.
    write(&locked, "constant.php", "<?php const CONSTANT = 5;");
    write(&locked, "locking.php", "<?php require __DIR__ . '/booted.php';");
    locked.log_line(&["INFO", "taking an image is tried again: ", " has changed"]);
    locked.log_line(&["new processes serve"]);
    assert_eq!(locked.get("/uses.php").expect(200).text(), "the boot says 5");
    assert_eq!(locked.log().matches("no image can be taken").count(), 1, "{}", locked.log());
}

/// A file that changes after the boot has read it and before the image is taken.
#[test]
fn what_changes_during_a_boot_is_in_no_image() {
    let server = start(Kind::Sealed);
    write(&server, "slow", "1500000");
    eventually(PATIENCE, || server.log().contains("a new one is made").then_some(()))
        .expect("a boot begins");
    // The boot has read the constant in its first milliseconds, and sleeps.
    std::thread::sleep(Duration::from_millis(700));
    write(&server, "constant.php", "<?php const CONSTANT = 3;");
    write(&server, "slow", "0");
    eventually(PATIENCE, || has(&server, "constant 3").then_some(())).expect("the new constant");
    status_when(&server, "a new image", |status| {
        status["pools"][0]["renewals"].as_u64().unwrap() >= 1
    });
    for _ in 0..20 {
        assert!(has(&server, "constant 3"), "it is back again");
    }
}

/// A constant, and then a template that uses it: no request may find one without the other.
#[test]
fn a_deployment_of_two_files_is_never_half_served() {
    let server = start(Kind::Sealed);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = End(&stop);
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    server.get("/index.php").expect(200);
                }
            });
        }
        for version in 2..8 {
            let constants = format!("<?php const CONSTANT = {version}; const NEW_{version} = 1;");
            let renamed = server.places.root().join("constant.new");
            fs::write(&renamed, constants).unwrap();
            fs::rename(renamed, server.places.root().join("constant.php")).unwrap();
            eventually(PATIENCE, || has(&server, &format!("constant {version}")).then_some(()))
                .expect("the constant");
            let page = format!("<?php return NEW_{version};");
            fs::write(server.places.root().join("page.new"), page).unwrap();
            fs::rename(
                server.places.root().join("page.new"),
                server.places.root().join("page.php"),
            )
            .unwrap();
        }
    });
    assert_eq!(status(&server)["generation"], 1);
}

/// The message says what is gone, and where the site was looked for.
#[test]
fn a_folder_that_is_gone_is_named() {
    let server = start(Kind::Worker);
    let link = serve_a_link(&server);
    let away = server.places.top().join("away");
    fs::rename(server.places.root(), &away).unwrap();
    let path = server.places.root().display().to_string();
    server.log_line(&["ERROR", "[localhost]", &path, "is gone: requests fail until"]);
    fs::remove_file(&link).unwrap();
    symlink(&away, &link).unwrap();
    server.log_line(&["WARN", "[localhost]", &path, "lead elsewhere now: everything is reloaded"]);
    eventually(PATIENCE, || has(&server, "page 1").then_some(())).expect("it is found again");
}

/// No worker lives and none boots: nobody waits for one.
#[test]
fn requests_do_not_wait_for_workers_that_do_not_boot() {
    let server = start(Kind::Worker);
    let old =
        worker_pids(&status_when(&server, "workers", |status| status["pools"][0]["idle"] == 2));
    write(&server, "constant.php", "<?php throw new Exception('half a deployment');");
    old.iter().for_each(|pid| kill("KILL", *pid));
    let refused = || {
        let response = server.get("/index.php");
        let text = response.text();
        (response.status() == 503 && text.contains("application is not running")).then_some(())
    };
    eventually(PATIENCE, refused).expect("an answer without a wait");
    server.log_line(&["ERROR", "workers do not boot", "worker.php"]);
    server.log_line(&["half a deployment"]);
    let pool = &status(&server)["pools"][0];
    assert!(pool["failure"].as_str().is_some_and(|why| why.contains("do not boot")), "{pool:#}");
    write(&server, "constant.php", "<?php const CONSTANT = 4;");
    eventually(PATIENCE, || has(&server, "constant 4").then_some(())).expect("it boots again");
}

/// The library finds the connection of the boot closed in the middle of a request, and closes it,
/// too: nothing is left to see at the worker, which would fail for ever.
#[test]
fn a_worker_that_loses_its_connection_in_a_request_is_replaced() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = listener.local_addr().unwrap().to_string();
    let (hangs_up, stops) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let answers = (hangs_up.clone(), stops.clone());
    let serving = std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let (hangs_up, stops) = (answers.0.clone(), answers.1.clone());
            if stops.load(Ordering::SeqCst) {
                return;
            }
            std::thread::spawn(move || {
                let mut line = String::new();
                let mut reader = BufReader::new(&connection);
                while reader.read_line(&mut line).is_ok_and(|read| read > 0)
                    && !hangs_up.swap(false, Ordering::SeqCst)
                {
                    (&connection).write_all(b"well\n").unwrap();
                }
            });
        }
    });
    let setup = Setup::new(Kind::Worker).site("sites/stale").worker("connected.php");
    let server = setup.env("PEER", &peer).workers(1).start();
    let answers = |status: u16| {
        let response = server.get("/index.php");
        assert_eq!(response.status(), status, "{response}");
        response.text()
    };
    let pid = answers(200);
    assert_eq!(answers(200), pid);
    hangs_up.store(true, Ordering::SeqCst);
    answers(500);
    let other = answers(200);
    assert_ne!(other, pid, "the same worker");
    server.log_line(&["a connection of the application was closed by its peer; worker replaced"]);
    stops.store(true, Ordering::SeqCst);
    TcpStream::connect(&peer).unwrap();
    serving.join().unwrap();
}

/// It fails at every other page and its neighbour does not: what it answers well in between is no
/// proof of its health.
#[test]
fn a_worker_that_fails_alone_is_replaced() {
    let server = start(Kind::Worker);
    let page = "<?php $pid = getmypid(); \
                (int) @file_get_contents(__DIR__ . '/broken') === $pid \
                    && !isset($_GET['well']) && http_response_code(500); \
                return \" $pid\";";
    write(&server, "page.php", page);
    let page_is_there = || has(&server, "page  ").then(|| pid_in(&server.text("/index.php")));
    let pid = eventually(PATIENCE, page_is_there).expect("the page");
    write(&server, "broken", &pid.to_string());
    let replaced = || {
        assert_eq!(server.get("/index.php?well").status(), 200);
        server.get("/index.php");
        server.log().contains("of its last").then_some(())
    };
    eventually(PATIENCE, replaced).expect("the broken worker is replaced");
    eventually(PATIENCE, || (server.get("/index.php").status() == 200).then_some(()))
        .expect("all is well again");
}
