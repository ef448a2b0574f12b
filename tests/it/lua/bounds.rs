//! Scripts that go wrong cost their own request: an answer, a log line with script, line and URL,
//! and nothing else.

use std::fs;
use std::time::{Duration, Instant};

use super::servers::{Hook, Scripted};
use crate::harness::{eventually, get};

const SCRIPTS: [(&str, Hook); 2] = [("deny", Hook::RawUrl), ("contract", Hook::RawUrl)];

/// A server whose script `deny` is this text from now on; the other one is as it was.
fn with_script(text: &str) -> Scripted {
    let server = Scripted::tokamak_with("lua.time = \"200ms\"\nlua.memory = \"16MiB\"", &SCRIPTS);
    replace(&server, text);
    server
}

fn replace(server: &Scripted, text: &str) {
    let path = server.script("deny");
    fs::write(&path, format!("-- changed\n{text}")).unwrap();
    // Seen within 1.2 seconds; until then the old one lets the request pass.
    let marked = format!("if lighty.env['request.uri'] == '/mark' then return 299 end {text}");
    fs::write(&path, marked).unwrap();
    let seen = || (server.send("deny", &get("/mark")).status() == 299).then_some(());
    eventually(Duration::from_secs(20), seen).expect("the change is seen");
}

#[track_caller]
fn others_are_served(server: &Scripted) {
    let response = server.send("contract", &get("/page.html?return=200&body=fine"));
    assert_eq!((response.status(), response.text().as_str()), (200, "fine"));
}

#[test]
fn an_endless_loop_is_answered_503() {
    let server = with_script("\nwhile true do end");
    let began = Instant::now();
    let response = server.send("deny", &get("/page.html?spin"));
    assert_eq!(response.status(), 503);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    others_are_served(&server);
    server.log_line(&["deny.lua:2: ended after 200ms", "url=/page.html?spin"]);
}

#[test]
fn endless_memory_is_answered_503() {
    let server = with_script("local t = {} while true do t[#t + 1] = ('x'):rep(1e5) .. #t end");
    assert_eq!(server.send("deny", &get("/page.html")).status(), 503);
    others_are_served(&server);
}

#[test]
fn an_error_is_answered_500_with_place_and_address_in_the_log() {
    let server = with_script("\n\nerror('broken')");
    assert_eq!(server.send("deny", &get("/page.html?x")).status(), 500);
    others_are_served(&server);
    server.log_line(&["deny.lua:3: broken", "url=/page.html?x"]);
}

#[test]
fn bad_headers_do_not_reach_anybody() {
    let server = with_script(
        "lighty.header['X-Split'] = 'a\\r\\nX-Evil: 1' lighty.header['Bad Name'] = '1' \
            lighty.header['X-Good'] = '1' \
         lighty.header['Transfer-Encoding'] = 'chunked' lighty.header['Content-Length'] = '5' \
         return 200",
    );
    let response = server.send("deny", &get("/"));
    assert_eq!(response.header("x-good"), Some("1"));
    for name in ["x-split", "x-evil", "transfer-encoding"] {
        assert_eq!(response.header(name), None, "{response}");
    }
    assert_eq!(response.header("content-length"), Some("0"));
}

#[test]
fn a_broken_edit_keeps_the_last_good_version() {
    let server = Scripted::tokamak(&SCRIPTS);
    assert_eq!(server.send("deny", &get("/page.html?q=UNION%20x")).status(), 400);
    fs::write(server.script("deny"), "if then\n").unwrap();
    let log = || Some(server.log()).filter(|log| log.contains("last good version stays"));
    let asked = eventually(Duration::from_secs(20), || {
        assert_eq!(server.send("deny", &get("/page.html?q=UNION%20x")).status(), 400);
        log()
    });
    assert!(asked.expect("it is reported").contains("deny.lua:1:"));
}

#[test]
fn restarts_have_an_end() {
    let server = with_script("return lighty.RESTART_REQUEST");
    assert_eq!(server.send("deny", &get("/")).status(), 500);
    server.log_line(&["too many request restarts"]);
    others_are_served(&server);
}

/// As in lighttpd the request begins again with `request.uri`; here the log says so.
#[test]
fn an_assigned_path_does_not_outlive_a_restart() {
    let server = with_script(
        "local env = lighty.r.req_attr if lighty.r.req_header['X-Again'] then return 204 end \
         lighty.r.req_header['X-Again'] = 'yes' env['uri.path'] = '/other' return \
         lighty.RESTART_REQUEST",
    );
    assert_eq!(server.send("deny", &get("/page.html")).status(), 204);
    server.log_line(&["the assigned uri.path has no effect", "url=/page.html"]);
}

/// A path with a hidden name is a path; only nobody is sent what it names.
#[test]
fn scripts_see_the_paths_of_hidden_names() {
    let server = Scripted::tokamak_with("", &[("deny", Hook::Physical)]);
    let text = "local env = lighty.r.req_attr if env['uri.query'] ~= 'show' then return 0 end \
                lighty.r.resp_body.set(env['uri.path'] .. ' ' .. env['physical.rel-path']) return \
                200";
    fs::write(server.script("deny"), text).unwrap();
    let expected = "/a/.well /a/.well";
    let seen = || {
        let shown = server.send("deny", &get("/a/%2Ewell?show"));
        (shown.status() == 200 && shown.text() == expected).then_some(())
    };
    eventually(Duration::from_secs(20), seen).expect("the script sees the path");
    assert_eq!(server.send("deny", &get("/a/.well")).status(), 404);
}

/// A route's scripts take the place of the site's, for its path alone.
#[test]
fn a_route_has_scripts_of_its_own() {
    let route = "[[site.route]]\npath = \"/quiet\"\nlua_raw_url = [\"scripts/redirect.lua\"]";
    let server = Scripted::tokamak_with_tail("", &[("deny", Hook::RawUrl)], route);
    let injected = |path: &str| server.send("deny", &get(&format!("{path}?q=UNION%20x"))).status();
    assert_eq!(injected("/page.html"), 400);
    assert_eq!(injected("/quiet"), 404);
    assert_eq!(injected("/quiet/deep"), 404);
    assert_eq!(injected("/quieter"), 400);
}

/// Scripts that wait hold up nobody.
#[test]
fn a_pause_is_not_a_standstill() {
    let server = with_script("tokamak.sleep(2) return 204");
    // A busy machine may take two seconds for the others.
    let is_no_standstill = || {
        std::thread::scope(|scope| {
            let began = Instant::now();
            let waiting: Vec<_> =
                (0..10).map(|_| scope.spawn(|| server.send("deny", &get("/")).status())).collect();
            std::thread::sleep(Duration::from_millis(300));
            others_are_served(&server);
            let took = began.elapsed();
            waiting.into_iter().for_each(|request| assert_eq!(request.join().unwrap(), 204));
            // One after the other, the ten would take twenty seconds.
            took < Duration::from_secs(2) && began.elapsed() < Duration::from_secs(10)
        })
    };
    assert!((0..5).any(|_| is_no_standstill()));
}
