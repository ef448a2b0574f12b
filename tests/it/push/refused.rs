//! What the hub refuses, and of whom.

use serde_json::json;

use super::client::*;
use super::setup;
use crate::harness::{Request, Response, Server, form, post};

fn with_cookie(request: Request, token: &str) -> Request {
    request.header("Cookie", &format!("a=b; mercureAuthorization={token}"))
}

/// The response to a request that is refused, which says why.
#[track_caller]
fn refused(server: &Server, request: &Request, status: u16, reason: &str) -> Response {
    let response = server.send(request).expect(status);
    assert!(response.text().contains(reason), "{reason}: {response}");
    response
}

#[test]
fn who_may_not_publish_is_refused() {
    let server = setup("topics = 2\nupdate_size = \"1KiB\"").start();
    let bare = || form(HUB, "topic=/a&data=x");
    let by = |token: &str| bare().header("Authorization", &format!("Bearer {token}"));
    let claims = |publish: serde_json::Value| json!({"mercure": {"publish": publish}});
    let all = claims(json!(["*"]));
    let own = signed(PUBLISHER, &all);
    let expired = json!({"mercure": {"publish": ["*"]}, "exp": 1_000_000_000});
    // {"alg":"none"}
    let payload = own.split('.').nth(1).unwrap();
    let unsigned = format!("eyJhbGciOiJub25lIn0.{payload}.");
    let fields = |fields: &str| publication(fields);
    let large = fields(&format!("topic=/a&data={}", "x".repeat(1024)));
    let huge = fields(&format!("topic=/a&data={}", "x".repeat(100_000)));
    for (request, status, reason) in [
        (bare(), 401, "a token is needed to publish"),
        (by("nonsense"), 401, "the token is malformed"),
        (by(&unsigned), 401, "the token is malformed"),
        (by(&signed(SUBSCRIBER, &all)), 401, "not signed with the configured key"),
        (by(&signed(PUBLISHER, &expired)), 401, "the token has expired"),
        (by(&signed(PUBLISHER, &json!({}))), 403, "for all of these topics"),
        (by(&signed(PUBLISHER, &claims(json!([])))), 403, "for all of these topics"),
        (by(&signed(PUBLISHER, &claims(json!(["/b"])))), 403, "for all of these topics"),
        (with_cookie(bare(), &own), 403, "counts only for pages of the site"),
        (
            with_cookie(bare(), &own).header("Origin", "https://evil.example"),
            403,
            "counts only for pages of the site",
        ),
        (
            with_cookie(bare(), &own).header("Referer", "http://localhost.evil.example/"),
            403,
            "counts only for pages of the site",
        ),
        (fields("data=x"), 400, "has no `topic`"),
        (fields("topic=/a&id=%0Ax"), 400, "`id` has control characters"),
        (fields("topic=%FF"), 400, "not UTF-8"),
        (fields("topic=/a&topic=/b&topic=/c"), 413, "more than 2 topics"),
        (large, 413, "more than 1024 bytes"),
        (huge, 413, "more than 1024 bytes"),
        (
            post(HUB, "text/plain", "topic=/a").header("Authorization", &publisher(&["*"])),
            400,
            "an update is a form",
        ),
        (Request::new("DELETE", HUB), 405, "does not know the method"),
    ] {
        refused(&server, &request, status, reason);
    }
    let mut subscriber = Subscriber::new(&server, &subscription("topic=*&lastEventID=earliest"));
    publish(&server, "topic=/a&data=the+first");
    subscriber.gets("the first");
    let host = server.address;
    for page in [("Origin", format!("http://{host}")), ("Referer", format!("http://{host}/a?b"))] {
        let request = bare().header("Host", &host.to_string()).header(page.0, &page.1);
        server.send(&with_cookie(request, &own)).expect(200);
    }
    assert!(!server.log().contains(PUBLISHER) && !server.log().contains(&own));
}

#[test]
fn who_may_not_subscribe_is_refused() {
    let server = setup("anonymous = false\ntopics = 2\nsubscribers = 1").start();
    let by = |query: &str, token: &str| {
        subscription(query).header("Authorization", &format!("Bearer {token}"))
    };
    let own = subscriber(&["*"]);
    let foreign = with_cookie(subscription("topic=/a"), &own);
    for (request, status, reason) in [
        (subscription("topic=/a"), 401, "a token is needed to subscribe"),
        (by("topic=/a", "x.y.z"), 401, "malformed"),
        (by("topic=/a", &signed(PUBLISHER, &json!({}))), 401, "not signed with the configured"),
        (by("", &own), 400, "1 to 2 parameters `topic` are needed"),
        (by("topic=/a&topic=/b&topic=/c", &own), 400, "1 to 2 parameters"),
        (by("topic=", &own), 400, "`topic` is empty"),
        (by("topic=a%0Ab", &own), 400, "`topic` has control characters"),
        (by("topic=%FF", &own), 400, "not UTF-8"),
        (by(&format!("topic={}", "%7Ba%7D".repeat(17)), &own), 400, "more than 16 variables"),
        (by("match=/a", &own), 400, "name topics by `topic`"),
        (
            foreign.header("Origin", "https://evil.example"),
            403,
            "counts only for pages of the site",
        ),
    ] {
        refused(&server, &request, status, reason);
    }
    let one = Subscriber::new(&server, &with_cookie(subscription("topic=/a"), &own));
    let response = refused(&server, &by("topic=/a", &own), 503, "as many subscribers as there may");
    assert!(response.header("retry-after").is_some());
    drop(one);
    // Its place is free when the server has noticed that it has gone.
    let patience = std::time::Duration::from_secs(20);
    let again = || {
        let mut connection = server.connect();
        connection.send(by("topic=/a", &own).bytes());
        (connection.head().expect("a head").status == 200).then_some(())
    };
    crate::harness::eventually(patience, again).expect("its place is free again");
}

#[test]
fn rules_hold_for_the_hub_too() {
    let rule = "[[site.rule]]\npath = \"/.well-known/mercure\"\ndeny = [\"all\"]\n";
    let server = setup("").site_line(rule).start();
    server.send(&subscription("topic=/a")).expect(403);
}

#[test]
fn without_a_key_nobody_publishes_over_http() {
    let keyless = "[site.mercure]\nenabled = true\nanonymous = true\n";
    let server = crate::harness::Setup::new(crate::harness::Kind::Classic)
        .workers(1)
        .site_line(keyless)
        .start();
    refused(&server, &publication("topic=/a"), 403, "the hub has no key for such tokens");
}
