//! What PHP has since 8.4 or 8.5 and keeps beyond a request, or has from settings. With an older
//! PHP these tests do nothing; `scripts/test-php 8.5` runs them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use serde_json::Value;

use crate::harness::extensions::scan_directory;
use crate::harness::{Kind, Server, Setup, get, in_every_mode, on_every_server};

on_every_server! {
    a_persistent_share_of_curl, a_fatal_error_has_its_stack, the_last_error_is_no_other_requests,
    most_memory_by_the_pool, most_memory_by_php_ini, open_basedir_is_where_it_was_set,
}
in_every_mode! { a_cache_in_files_that_is_only_read }

/// Whether PHP is of this release or newer, such as 80500.
fn is_since(release: u32) -> bool {
    let php_config = std::env::var("PHP_CONFIG").unwrap_or_else(|_| "php-config".into());
    let output = Command::new(php_config).arg("--vernum").output().expect("php-config runs");
    let number = String::from_utf8(output.stdout).expect("a number");
    number.trim().parse::<u32>().expect("a number") >= release
}

/// Whether requests of this server begin as if no other had been.
fn is_sealed(kind: Kind) -> bool {
    matches!(kind, Kind::Sealed | Kind::FpmSealed)
}

/// Its connections stay with the process, as PHP means it, and end with a request of sealed mode.
fn a_persistent_share_of_curl(kind: Kind) {
    if !is_since(80500) {
        return;
    }
    let asked = Setup::new(Kind::Classic).start();
    let server = Setup::new(kind).workers(1).start();
    let target = format!("/share.php?page=http://{}/server.php", asked.address);
    let seen: Vec<Value> = (0..3).map(|_| server.get(&target).expect(200).json()).collect();
    assert_eq!(seen[0]["error"], "");
    let is_of_first = |one: &Value| one["pid"] == seen[0]["pid"];
    assert!(seen.iter().all(is_of_first), "{seen:?}\n{}", server.log());
    assert_eq!(seen[1]["port"] != seen[0]["port"], is_sealed(kind), "{seen:?}");
    assert_eq!(seen[2]["port"] != seen[1]["port"], is_sealed(kind), "{seen:?}");
    if kind == Kind::Async {
        // One that is in use is for one request.
        let mut first = server.connect();
        let held = format!("/share.php?page=http://{}/hold.php?name=share", asked.address);
        first.send(get(&held).bytes());
        asked.holds("share");
        let other = server.get(&target).expect(200).json();
        assert_ne!(other["port"], seen[0]["port"]);
        asked.let_go("share");
        assert_eq!(first.response().expect(200).json()["error"], "");
    }
}

/// A server whose stacks have the arguments, which Debian's settings leave out or cut short.
fn with_stacks(kind: Kind) -> Setup {
    let setup = Setup::new(kind).workers(1).php_value("display_errors", "0");
    let setup = setup.php_value("zend.exception_ignore_args", "0");
    setup.php_value("zend.exception_string_param_max_len", "99")
}

/// Once, and without what is secret.
fn a_fatal_error_has_its_stack(kind: Kind) {
    if !is_since(80500) {
        return;
    }
    let server = with_stacks(kind).start();
    server.get("/fatal.php").expect(500);
    let stack = "inner(Object(SensitiveParameterValue), 'what is given')";
    server.log_line(&[stack]);
    let log = server.log();
    // Behind nginx, its log is here, too.
    if matches!(kind, Kind::Classic | Kind::Worker | Kind::Async | Kind::Sealed) {
        assert_eq!(log.matches("fatal on purpose").count(), 2, "the error, and a frame: {log}");
        assert_eq!(log.matches("inner").count(), 1, "{log}");
    }
    assert!(!log.contains("hidden"), "{log}");
    // And without it, as before 8.5.
    let server = with_stacks(kind).php_value("fatal_error_backtraces", "0").start();
    server.get("/fatal.php").expect(500);
    server.log_line(&["fatal on purpose"]);
    assert!(!server.log().contains("what is given"), "{}", server.log());
}

/// What `error_get_last()` says has the stack of a fatal error.
fn the_last_error_is_no_other_requests(kind: Kind) {
    if !is_since(80500) {
        return;
    }
    let server = with_stacks(kind).start();
    let mut beside = server.connect();
    if kind == Kind::Async {
        beside.send(get("/last_error.php?warn&name=beside").bytes());
        server.holds("beside");
    }
    let own: Value = server.get("/fatal.php?shown").expect(500).json();
    assert_eq!(own["trace"][1]["function"], "inner", "{own}");
    if kind == Kind::Async {
        server.let_go("beside");
        let seen = beside.response().expect(200).json();
        assert!(seen["message"].as_str().unwrap().contains("/none"), "{seen}");
        assert_eq!(seen["trace"], Value::Null, "another request's: {seen}");
    }
    for _ in 0..2 {
        assert_eq!(server.get("/last_error.php").expect(200).json(), Value::Null);
        let seen = server.get("/last_error.php?warn").expect(200).json();
        assert_eq!(seen["trace"], Value::Null, "{seen}");
    }
}

/// PHP resolves what a script sets at once, since 8.4.
fn open_basedir_is_where_it_was_set(kind: Kind) {
    if !is_since(80400) {
        return;
    }
    let server = Setup::new(kind).workers(1).start();
    for _ in 0..3 {
        assert_eq!(server.text("/narrow.php"), "narrow closed");
    }
}

/// As PHP does where a Fiber uses it that another one sets up: half made.
#[test]
fn a_lazy_object_that_another_request_sets_up() {
    if !is_since(80400) {
        return;
    }
    for kind in ["ghost", "proxy"] {
        let server = Setup::new(Kind::Async).workers(1).start();
        let mut first = server.connect();
        first.send(get(&format!("/late.php?kind={kind}&name=late")).bytes());
        server.holds("late");
        let target = format!("/late.php?kind={kind}&name=other");
        let half_made = "must not be accessed before initialization";
        let seen = server.text(&target);
        assert!(seen.contains(half_made), "{kind}: {seen}");
        server.let_go("late");
        assert_eq!(first.response().expect(200).text(), "7", "{kind}");
        assert_eq!(server.text(&target), "7", "{kind}");
    }
}

/// As `php_admin_value` of the pool, or of the site.
fn most_memory_by_the_pool(kind: Kind) {
    if !is_since(80500) {
        return;
    }
    let setup = Setup::new(kind).workers(1).php_value("memory_limit", "32M");
    let server = setup.php_admin_value("max_memory_limit", "64M").start();
    no_request_has_more(&server);
}

/// In PHP's own settings.
fn most_memory_by_php_ini(kind: Kind) {
    if !is_since(80500) {
        return;
    }
    let folder = folder_for_all();
    fs::write(folder.path().join("most.ini"), "max_memory_limit=64M\n").unwrap();
    let scanned = format!("{}:{}", scan_directory(), folder.path().display());
    let setup = Setup::new(kind).workers(1).php_value("memory_limit", "32M");
    let server = setup.server_env("PHP_INI_SCAN_DIR", &scanned).start();
    no_request_has_more(&server);
}

fn no_request_has_more(server: &Server) {
    for _ in 0..3 {
        let seen = server.get("/most_memory.php").expect(200).json();
        let warning = seen["warning"].as_str().unwrap_or_default().to_owned();
        assert!(warning.contains("Setting to max_memory_limit instead"), "{seen}");
        let has = [&seen["before"], &seen["after"], &seen["most"]];
        assert_eq!(has, ["32M", "64M", "64M"], "{seen}");
    }
}

fn folder_for_all() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("its owner");
    folder
}

/// All files below a folder, with the time of their last change.
fn files(folder: &Path) -> BTreeMap<String, SystemTime> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let changed = fs::metadata(&path).and_then(|data| data.modified()).expect("a file");
            found.insert(path.display().to_string(), changed);
        }
    }
    found
}

/// As a container's image may have it: for all to read.
fn open_for_all(path: &Path) {
    let mode = if path.is_dir() { 0o755 } else { 0o644 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its owner");
    if path.is_dir() {
        let entries = fs::read_dir(path).expect("a folder");
        entries.for_each(|entry| open_for_all(&entry.expect("an entry").path()));
    }
}

/// Made before the server starts, as for a container whose files are only read.
fn a_cache_in_files_that_is_only_read(kind: Kind) {
    if !is_since(80500) {
        return;
    }
    let (site, cache) = (folder_for_all(), folder_for_all());
    for name in ["cached.php", "hello.php", "worker.php"] {
        let from = crate::harness::tests().join("php").join(name);
        fs::copy(from, site.path().join(name)).expect("a script");
    }
    let compile = Command::new("php")
        .args(["-d", "opcache.enable_cli=1", "-d", "opcache.file_cache_only=1"])
        .args(["-d", &format!("opcache.file_cache={}", cache.path().display())])
        .args(["-d", "opcache.file_update_protection=0", "-r"])
        .arg(format!("opcache_compile_file('{}/cached.php');", site.path().display()))
        .env("PHP_INI_SCAN_DIR", scan_directory())
        .status();
    assert!(compile.expect("PHP").success());
    open_for_all(cache.path());
    let before = files(cache.path());
    assert_eq!(before.len(), 1, "{before:?}");

    let root = site.path().display();
    let worker =
        if kind.has_loop() { format!("worker = \"{root}/worker.php\"") } else { String::new() };
    let mode = format!("{kind:?}").to_lowercase();
    let server = Setup::new(kind)
        .sites(&format!(
            "[[site]]\nroot = \"{root}\"\nmode = \"{mode}\"\n{worker}\npool.workers = 1\n\
             [site.php_admin_value]\n\
             \"opcache.file_cache\" = \"{}\"\n\"opcache.file_cache_read_only\" = \"1\"\n\
             \"opcache.file_update_protection\" = \"0\"\n",
            cache.path().display(),
        ))
        .start();
    for _ in 0..3 {
        let seen = server.get("/cached.php").expect(200).json();
        assert_eq!(seen["in_files"], true, "{seen}\n{}", server.log());
        assert_eq!(server.text("/hello.php"), "Hello from PHP");
    }
    assert_eq!(files(cache.path()), before, "it was written to");
    assert!(!server.log().contains("ERROR"), "{}", server.log());
}
