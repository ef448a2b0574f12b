//! `X-Request-Id`.

use crate::balancer::{server_vars, with};
use crate::harness::{Kind, Setup, get};
use crate::traces::line;

/// A server that names requests, and believes the names that this address gives.
fn naming(kind: Kind, proxy: &str) -> Setup {
    Setup::new(kind)
        .line("request_ids = true")
        .line(&format!("trusted_proxies = [\"{proxy}\"]\ntrusted_headers = [\"x-request-id\"]"))
        .line("log.access = \"state/access.log\"")
        .line("log.access_format = \"json\"")
}

fn is_ours(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn names_requests(kind: Kind) {
    let server = naming(kind, "127.0.0.1").start();
    let name = "Root=1-67891233-abcdef012345678912345678";
    let mut request = with(&[("X-Request-Id", name)]);
    request.target = "/server.php?theirs".into();
    assert_eq!(server_vars(&server, &request)["HTTP_X_REQUEST_ID"], name);
    assert_eq!(line(&server, "theirs")["request_id"], name);
    // None, a bad one, two.
    let mut seen = Vec::new();
    for (number, fields) in
        [&[][..], &[("X-Request-Id", "a b")], &[("X-Request-Id", "a"), ("x-request-id", "a")]]
            .into_iter()
            .enumerate()
    {
        let mut request = with(fields);
        request.target = format!("/server.php?ours-{number}");
        let id = server_vars(&server, &request)["HTTP_X_REQUEST_ID"].as_str().unwrap().to_owned();
        assert!(is_ours(&id), "{id}");
        assert_eq!(line(&server, &format!("ours-{number}"))["request_id"], id);
        assert!(!seen.contains(&id));
        seen.push(id);
    }
    // Of an error, too, in both logs.
    let missing = get("/missing.txt").header("X-Request-Id", "missing-1");
    assert_eq!(server.send(&missing).expect(404).header("x-request-id"), Some("missing-1"));
    let answer = server.send(&with(&[])).expect(200);
    let named = answer.json()["HTTP_X_REQUEST_ID"].as_str().map(str::to_owned);
    assert_eq!(answer.header("x-request-id"), named.as_deref());
    assert_eq!(line(&server, "missing.txt")["request_id"], "missing-1");
    server.log_line(&["missing.txt", "request_id=missing-1"]);
}

#[test]
fn requests_have_names() {
    names_requests(Kind::Classic);
}

#[test]
fn requests_of_fastcgi_applications_have_names() {
    names_requests(Kind::Fastcgi);
}

#[test]
fn names_of_others_are_replaced_or_passed_on() {
    let server = naming(Kind::Classic, "10.0.0.1").start();
    let request = with(&[("X-Request-Id", "mine")]);
    let name = server_vars(&server, &request)["HTTP_X_REQUEST_ID"].as_str().unwrap().to_owned();
    assert!(is_ours(&name), "{name}");
    let server = Setup::new(Kind::Classic).start();
    assert_eq!(server_vars(&server, &request)["HTTP_X_REQUEST_ID"], "mine");
    assert!(server_vars(&server, &with(&[])).get("HTTP_X_REQUEST_ID").is_none());
    assert_eq!(server.send(&request).header("x-request-id"), None);
}
