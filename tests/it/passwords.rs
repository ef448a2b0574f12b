//! Passwords that rules ask for: who gets what, and what strangers may cost.

use std::fs;
use std::process::Command;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tempfile::TempDir;

use crate::harness::{Kind, Request, Server, Setup, check, eventually, get, program, row};
use crate::metrics;

crate::harness::in_every_mode! { applications_know_the_user }

/// `max` has the password `geheim` (bcrypt), `eva` has `secret` ({SHA}).
const USERS: &str = "max:$2y$05$r2uYtzZYLB9.fPf7vIW1QuY.uUva3eOoNmAc2R/JZSA.t21zpzJ16\n\
                     eva:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n";

const CHALLENGE: &str = "Basic realm=\"The staff\", charset=\"UTF-8\"";

/// A folder with the file of users, and the lines of a rule.
fn staff() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("staff.htpasswd");
    fs::write(&file, USERS).unwrap();
    let rule = format!("auth_users = \"{}\"\nauth_realm = \"The staff\"", file.display());
    (folder, rule)
}

fn basic(request: Request, login: &str) -> Request {
    request.header("Authorization", &format!("Basic {}", STANDARD.encode(login)))
}

fn status(server: &Server, target: &str, login: &str) -> u16 {
    server.send(&basic(get(target), login)).status()
}

fn applications_know_the_user(kind: Kind) {
    let (_folder, rule) = staff();
    let server = Setup::new(kind).site_line(&format!("[[site.rule]]\n{rule}")).start();
    for _ in 0..2 {
        let seen = server.send(&basic(get("/server.php"), "max:geheim")).expect(200).json();
        assert_eq!((&seen["REMOTE_USER"], &seen["AUTH_TYPE"]), (&"max".into(), &"Basic".into()));
        assert_eq!(seen["PHP_AUTH_USER"], "max");
        assert_eq!(seen["PHP_AUTH_PW"], "geheim");
    }
    let posted = Request::new("POST", "/echo.php").body("a body");
    assert_eq!(server.send(&basic(posted, "eva:secret")).expect(200).text(), "a body");
    server.get("/server.php").expect(401);
}

#[test]
fn requests_without_a_password_get_401() {
    let (_folder, rule) = staff();
    let setup = Setup::new(Kind::Classic).site("sites/rules/wiki").front_controller("index.php");
    let server = setup
        .site_line(&format!(
            "error_pages.401 = \"/errors/refused.html\"\n[[site.rule]]\npattern = \"^/old\"\n\
             rewrite = \"/images/a.png\"\n[[site.rule]]\npath = [\"/images\", \"/index.php\", \"/staff\"]\n{rule}"
        ))
        .start();
    let refused = |name, request: Request| {
        let row = row(name, request).status(401).header("www-authenticate", CHALLENGE);
        row.body("<h1>our own: refused</h1>\n").header("cache-control", "no-store")
    };
    let with = |field: &str| get("/images/a.png").header("Authorization", field);
    let plain = |text: &[u8]| with(&format!("Basic {}", STANDARD.encode(text)));
    check(
        &server,
        vec![
            refused("a file", get("/images/a.png")),
            refused("in another spelling", get("//./IMAGES/%61.png")),
            refused("what is not there", get("/images/none.png")),
            refused("a folder", get("/images")),
            refused("an index file", get("/")),
            refused("by a rewrite", get("/old/a")),
            refused("behind a script", get("/other.php/staff/a")),
            refused("behind it in another spelling", get("/other.php//STAFF")),
            row("a path that climbs", get("/staff/..")).status(400),
            row("one that climbs in another spelling", get("/staff/%2e%2e/other.php")).status(400),
            refused("posted", Request::new("POST", "/images/a.png").body("x")),
            row("head", Request::new("HEAD", "/images/a.png")).status(401).body(""),
            refused("an empty field", with("")),
            refused("another scheme", with("Bearer bWF4OmdlaGVpbQ==")),
            refused("no colon", plain(b"maxgeheim")),
            refused("no base 64", with("Basic !!!!")),
            refused("half of it", with("Basic bWF4Om")),
            refused("a zero", plain(b"max:geheim\0")),
            refused("a line", plain(b"max\n:geheim")),
            refused("no UTF-8", plain(b"max\xff:geheim\xff")),
            refused("no password", plain(b"max:")),
            refused("no name", plain(b":geheim")),
            refused("a wrong one", plain(b"max:geheiM")),
            refused("an unknown one", plain(b"mix:geheim")),
            refused("long", plain(format!("max:{}", "x".repeat(8000)).as_bytes())),
            refused("longer than any", plain(format!("max:{}", "x".repeat(2000)).as_bytes())),
            refused("two", plain(b"max:geheim").header("Authorization", "Basic eDp5")),
            row("the right one", plain(b"max:geheim")).body("a picture\n"),
            row("another user", plain(b"eva:secret")).body("a picture\n"),
            row("a part", plain(b"eva:secret").header("Range", "bytes=2-8")).status(206),
            row("elsewhere", get("/skins/a.css")),
        ],
    );
    server.log_line(&["login refused: 127.0.0.1 as mix", "401"]);
    assert!(!server.log().contains("geheiM"), "a password is not for the log");
}

#[test]
fn an_address_or_a_password() {
    let (_folder, rule) = staff();
    let server = Setup::new(Kind::Classic)
        .line("trusted_proxies = \"127.0.0.1\"")
        .site_line(&format!(
            "[[site.rule]]\npath = \"/hello.php\"\nallow = \"10.0.0.0/8\"\nsatisfy = \"any\"\n{rule}\n\
             [[site.rule]]\npath = \"/time.php\"\nallow = \"10.0.0.0/8\"\n{rule}"
        ))
        .start();
    let from = |target: &str, client: &str, login: Option<&str>| {
        let request = get(target).header("X-Forwarded-For", client);
        server.send(&login.map_or(request.clone(), |login| basic(request, login))).status()
    };
    let (near, far) = ("10.1.2.3", "192.0.2.1");
    assert_eq!(from("/hello.php", near, None), 200);
    assert_eq!(from("/hello.php", far, None), 401);
    assert_eq!(from("/hello.php", far, Some("max:geheim")), 200);
    assert_eq!(from("/time.php", near, None), 401);
    assert_eq!(from("/time.php", near, Some("max:geheim")), 200);
    assert_eq!(from("/time.php", far, Some("max:geheim")), 403);
}

/// What the content cache has, and what Lua scripts make, is behind the password, too.
#[test]
fn the_cache_and_scripts_are_behind_it() {
    let (folder, rule) = staff();
    let script = folder.path().join("content.lua");
    fs::write(
        &script,
        "local r = lighty.r\nif r.req_attr['uri.path'] ~= '/lua' then return 0 end\n\
         r.resp_body.set(r.req_env['REMOTE_USER'])\nreturn 200\n",
    )
    .unwrap();
    let setup = Setup::new(Kind::Classic).site_line("cache = true\ncache_lifetime = \"1h\"");
    let server = setup
        .site_line(&format!("lua_content = \"{}\"\n[[site.rule]]\n{rule}", script.display()))
        .start();
    readable(folder.path());
    assert_eq!(server.send(&basic(get("/lua"), "max:geheim")).expect(200).text(), "max");
    server.get("/lua").expect(401);

    let setup = Setup::new(Kind::Classic).site_line("cache = true\ncache_lifetime = \"1h\"");
    let either = format!("satisfy = \"any\"\nallow = \"10.0.0.0/8\"\n{rule}");
    let server = setup
        .line("trusted_proxies = \"127.0.0.1\"")
        .site_line(&format!("[[site.rule]]\n{either}"))
        .start();
    let near = || server.send(&get("/time.php").header("X-Forwarded-For", "10.0.0.1"));
    let first = near().expect(200).text();
    assert_eq!(near().expect(200).text(), first, "it is kept");
    let far = get("/time.php").header("X-Forwarded-For", "192.0.2.1");
    server.send(&far).expect(401);
    server.send(&basic(far, "eva:secret")).expect(200);
}

/// The server may run as another user than the tests.
fn readable(directory: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Without a reload. A broken file leaves the old users.
#[test]
fn a_changed_file_is_read_again() {
    let (folder, rule) = staff();
    let server = Setup::new(Kind::Classic).site_line(&format!("[[site.rule]]\n{rule}")).start();
    let file = folder.path().join("staff.htpasswd");
    assert_eq!(status(&server, "/hello.php", "max:geheim"), 200);
    fs::write(&file, "max:geheim\n").unwrap();
    server
        .log_line(&["users not taken", "staff.htpasswd: line 1: the password of `max` is neither"]);
    assert_eq!(status(&server, "/hello.php", "max:geheim"), 200);
    fs::write(&file, "eva:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n").unwrap();
    server.log_line(&["new users are known"]);
    let is_out = || (status(&server, "/hello.php", "max:geheim") == 401).then_some(());
    eventually(Duration::from_secs(20), is_out).expect("max is forgotten");
    assert_eq!(status(&server, "/hello.php", "eva:secret"), 200);
    assert!(!server.log().contains("geheim\n"));
}

/// Many wrong passwords of one address are answered 429. Who is known goes on, until so many have
/// failed that the address could be trying passwords of a user who is known.
#[test]
fn guesses_are_limited() {
    let (_folder, rule) = staff();
    let server = metrics::start(
        Setup::new(Kind::Classic)
            .line("trusted_proxies = \"127.0.0.1\"")
            .site_line(&format!("[[site.rule]]\n{rule}")),
    );
    let guess = |login: &str| {
        let request = get("/hello.php").header("X-Forwarded-For", "192.0.2.1");
        server.send(&basic(request, login))
    };
    guess("max:geheim").expect(200);
    let refused = (0..1000).map(|nth| guess(&format!("eva:{nth}")));
    let refused = refused.take_while(|refused| refused.status() == 401).count();
    assert!((20..900).contains(&refused), "{refused}");
    guess("max:geheim").expect(200);
    let other = guess("nobody:x");
    if other.status() == 429 {
        assert_eq!(other.head.all("retry-after").collect::<Vec<_>>(), ["1"]);
    }
    let mut answers = (0..5000).map(|nth| {
        guess(&format!("max:{nth}"));
        guess("max:geheim").status()
    });
    let goes_on = answers.by_ref().take_while(|status| *status == 200).count();
    assert!((50..4000).contains(&goes_on), "{goes_on}");
    assert_eq!(status(&server, "/hello.php", "max:geheim"), 200, "another address is known");
    assert_eq!(status(&server, "/hello.php", "eva:x"), 401, "another address may guess");
    let is_back = || (guess("max:geheim").status() == 200).then_some(());
    eventually(Duration::from_secs(20), is_back).expect("it is served again");
    // Only some lines of a second are written.
    let is_logged = || {
        guess("nobody:x");
        let has_line =
            server.log().contains("limit exceeded: 192.0.2.1 sends too many wrong passwords");
        has_line.then_some(())
    };
    eventually(Duration::from_secs(20), is_logged).expect("a line in the log");
    let samples = metrics::samples(&server);
    let name =
        "tokamak_limited_requests_total{action=\"refused\",limit=\"passwords\",site=\"localhost\"}";
    assert!(samples[name] >= 1.0);
}

/// Also where the site's page for the status is a script.
#[test]
fn what_limits_refuse_runs_no_script() {
    let (_folder, rule) = staff();
    let setup = Setup::new(Kind::Classic).site_line("error_pages.4xx = \"/hello.php\"");
    let server = setup.site_line(&format!("[[site.rule]]\n{rule}")).start();
    let guess = || server.send(&basic(get("/server.php"), "eva:x"));
    let page = guess().expect(401).text();
    let limited = (0..1000).map(|_| guess()).find(|answer| answer.status() == 429);
    assert_ne!(limited.expect("a limit").text(), page);
}

#[test]
fn a_wrong_file_is_reported_before_the_start() {
    let (folder, rule) = staff();
    let top = folder.path();
    fs::write(top.join("index.php"), "<?php").unwrap();
    fs::write(top.join("tokamak.toml"), format!("[[site]]\n[[site.rule]]\n{rule}\n")).unwrap();
    let check = || {
        let output = Command::new(program()).arg("check").current_dir(top).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert!(check().0);
    fs::write(top.join("staff.htpasswd"), format!("{USERS}tom:geheim\n")).unwrap();
    let (is_good, text) = check();
    assert!(!is_good && text.contains("staff.htpasswd: line 3: the password of `tom`"), "{text}");
    assert!(!text.contains("geheim"), "{text}");
    fs::remove_file(top.join("staff.htpasswd")).unwrap();
    assert!(check().1.contains("staff.htpasswd cannot be read: No such file"), "{:?}", check());
}
