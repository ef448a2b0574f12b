//! A Symfony application from Debian's packages (`examples/symfony`): its front controller in
//! classic mode, its worker script in worker and sealed mode, and the front controller under
//! php-fpm to compare with.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use crate::harness::{
    Kind, Multipart, Server, Setup, form, get, in_every_mode, in_parallel, on_every_server, program,
};
use crate::layers::root;
use crate::services::visitor::Visitor;

on_every_server!(serves_every_page, serves_many_at_once);

/// nginx in front of `tokamak fpm` in sealed mode.
mod sealed_behind_nginx {
    crate::harness::of_kinds!(super::serves_every_page; pages: FpmSealed);
    crate::harness::of_kinds!(super::serves_many_at_once; many: FpmSealed);
}

in_every_mode!(serves_more_requests_than_one_loop_allows);

/// The running application; the server ends before the compiled container goes.
pub struct Application {
    pub server: Server,
    _cache: TempDir,
}

/// The application as its README says to run it, but with a cache of its own.
fn start(kind: Kind, loop_limit: u32) -> Application {
    let worker = if kind == Kind::Async { "async.php" } else { "worker.php" };
    start_with(worker, |setup| setup.workers(4), kind, loop_limit)
}

/// The same with this worker script and with other settings.
pub fn start_with(
    worker: &str,
    settings: impl FnOnce(Setup) -> Setup,
    kind: Kind,
    loop_limit: u32,
) -> Application {
    let cache = tempfile::Builder::new().prefix("tokamak-symfony-").tempdir().unwrap();
    fs::set_permissions(cache.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let setup = Setup::new(kind)
        .site("../examples/symfony")
        .public("public")
        .worker(&format!("../{worker}"))
        .front_controller("index.php")
        .warm(&["/page", "/empty"])
        .env("APP_CACHE_DIR", cache.path().to_str().unwrap())
        .env("FRANKENPHP_LOOP_MAX", &loop_limit.to_string());
    let server = settings(setup).start();
    // So that requests which come at once do not all compile the container.
    server.get("/empty").expect(200);
    Application { server, _cache: cache }
}

fn serves_every_page(kind: Kind) {
    let application = start(kind, 0);
    let server = &application.server;
    answers_json(server);
    renders_a_page(server);
    reads_forms_and_files(server);
    survives_an_exception(server);
}

fn serves_many_at_once(kind: Kind) {
    let application = start(kind, 0);
    let server = &application.server;
    counts_each_session_apart(server);
    greets_by_name(server);
    mixes_requests(server);
}

/// The configuration that the example ships is one.
#[test]
fn its_configuration_passes_the_check() {
    let file = root().join("examples/symfony/tokamak.toml");
    let output = Command::new(program()).arg("check").arg("--config").arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The worker script ends its loop now and then, as Symfony's own runner does; nobody notices.
fn serves_more_requests_than_one_loop_allows(kind: Kind) {
    let application = start(kind, 7);
    in_parallel(100, |_| {
        application.server.get("/empty").expect(200);
    });
}

fn answers_json(server: &Server) {
    let response = server.get("/empty").expect(200);
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert_eq!(response.text(), r#"{"errno":0,"errmsg":"success","data":"e"}"#);
}

fn renders_a_page(server: &Server) {
    let response = server.get("/section7/reactor?x=1").expect(200);
    assert_eq!(response.header("content-type"), Some("text/html; charset=UTF-8"));
    let page = response.text();
    assert!(page.contains("Items of /section7/reactor"), "{page}");
    assert!(page.contains("&lt;b&gt;number &amp; 59&lt;/b&gt;"), "{page}");
    // The routes of the application say 404 and 405, not the server.
    server.get("/nowhere").expect(404);
    assert_eq!(server.get("/form").expect(405).header("allow"), Some("POST"));
}

fn reads_forms_and_files(server: &Server) {
    let body = "name=K%C3%BChlung&list%5B%5D=1&list%5B%5D=2";
    let fields = server.send(&form("/form?from=here", body)).expect(200);
    assert_eq!(
        fields.json(),
        json!({
            "query": { "from": "here" },
            "fields": { "name": "Kühlung", "list": ["1", "2"] },
            "files": [],
            "length": body.len(),
        })
    );
    let upload = Multipart::default()
        .field("title", "rod")
        .file("rod", "rod.txt", "text/plain", b"abc")
        .post("/form");
    let stored = server.send(&upload).expect(200).json();
    let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(stored["fields"], json!({ "title": "rod" }));
    assert_eq!(stored["files"], json!({ "rod": { "name": "rod.txt", "size": 3, "sha256": hash } }));
    // Nothing of it is left for the next request.
    assert_eq!(server.send(&form("/form", "")).expect(200).json()["files"], json!([]));
}

fn counts_each_session_apart(server: &Server) {
    in_parallel(8, |_| {
        let mut visitor = Visitor::of(server.address);
        let mut session = None;
        for visits in 1..=10 {
            let answer = visitor.get("/session").expect(200).json();
            assert_eq!(answer["visits"], visits, "{answer}");
            assert_eq!(session.get_or_insert(answer["id"].clone()), &answer["id"]);
        }
    });
    // Somebody without a cookie has never been here, whoever's request the worker served before.
    let stranger = server.get("/session").expect(200);
    assert_eq!(stranger.json()["visits"], 1);
    assert!(stranger.header("set-cookie").is_some(), "{stranger}");
    assert!(server.get("/empty").expect(200).header("set-cookie").is_none());
}

fn survives_an_exception(server: &Server) {
    for _ in 0..8 {
        let failed = server.get("/error").expect(500);
        assert!(failed.text().contains("Internal Server Error"), "{failed}");
        server.get("/empty").expect(200);
    }
    server.log_line(&["This page always fails."]);
}

/// Visitors who log in and visitors who do not, at once: each is greeted as what it is.
fn greets_by_name(server: &Server) {
    in_parallel(8, |number| {
        let mut visitor = Visitor::of(server.address);
        let mut greeting = "Hello, stranger!".to_owned();
        if number % 2 == 0 {
            visitor.send(form("/login", &format!("name=visitor-{number}"))).expect(204);
            greeting = format!("Hello, visitor-{number}!");
        }
        for _ in 0..10 {
            let page = visitor.get("/hello").expect(200).text();
            assert!(page.contains(&greeting), "{page}");
        }
    });
}

fn mixes_requests(server: &Server) {
    in_parallel(200, |number| {
        let mut visitor = Visitor::of(server.address);
        match number % 5 {
            0 => {
                let text = visitor.get("/empty").expect(200).text();
                assert_eq!(text, r#"{"errno":0,"errmsg":"success","data":"e"}"#);
            }
            1 => {
                let path = format!("/section{number}/item-{number}");
                let page = visitor.get(&path).expect(200).text();
                assert!(page.contains(&format!("Items of {path}")), "{page}");
            }
            2 => {
                let echoed =
                    visitor.send(form(&format!("/form?q={number}"), &format!("n={number}")));
                let echoed = echoed.expect(200).json();
                assert_eq!(echoed["query"], json!({ "q": number.to_string() }));
                assert_eq!(echoed["fields"], json!({ "n": number.to_string() }));
            }
            3 => assert_eq!(visitor.get("/session").expect(200).json()["visits"], 1),
            _ => {
                visitor.send(get("/error")).expect(500);
            }
        }
    });
}
