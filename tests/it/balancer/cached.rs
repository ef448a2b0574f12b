//! Pages of the content cache behind proxies: what a proxy says of a client's address is in the key
//! of a page, as far as pages may differ by it; what a stranger says is not.

use std::fs;

use crate::harness::{Kind, Server, Setup, get};
use crate::http2::client::Target;
use crate::http2::features::ask;

const ALL: &str = "trusted_headers = [\"x-forwarded-for\", \"x-forwarded-proto\", \
                   \"x-forwarded-host\", \"x-forwarded-port\"]";

/// A server whose page is another one each time that it runs, and may be kept.
fn start(proxies: &str) -> Server {
    let server = Setup::new(Kind::Classic)
        .line(&format!("trusted_proxies = [{proxies}]\n{ALL}"))
        .site_line("cache = true")
        .start();
    let script = "<?php header('Cache-Control: public, max-age=600'); echo uniqid('', true), ' ', \
                  $_SERVER['HTTP_HOST'], ' ', $_SERVER['SERVER_PORT'], ' ', \
                  $_SERVER['REQUEST_SCHEME'];";
    fs::write(server.places.root().join("kept.php"), script).unwrap();
    server
}

/// The page for these fields, over HTTP/1 and then over HTTP/2: the second one is the kept one.
#[track_caller]
fn page(server: &Server, fields: &[(&str, &str)]) -> String {
    let request = get("/kept.php");
    let request = fields.iter().fold(request, |request, (name, value)| request.header(name, value));
    let first = server.send(&request).expect(200).text();
    let target = Target::plain(server.address);
    let second = ask(&target, "http", &request).expect("a response").expect(200);
    assert!(second.header("age").is_some(), "{fields:?} is kept: {second}");
    assert_eq!(first, second.text(), "{fields:?}: one page for both protocols");
    first
}

#[test]
fn pages_differ_by_what_a_trusted_proxy_says() {
    let server = start("\"127.0.0.1\"");
    let port = server.address.port();
    let mut seen: Vec<String> = Vec::new();
    for (fields, expected) in [
        (&[][..], format!("localhost {port} http")),
        (&[("X-Forwarded-Host", "one.example")], format!("one.example {port} http")),
        (&[("X-Forwarded-Host", "two.example")], format!("two.example {port} http")),
        (&[("X-Forwarded-Port", "81")], "localhost 81 http".into()),
        (&[("X-Forwarded-Port", "82")], "localhost 82 http".into()),
        (&[("X-Forwarded-Proto", "https")], "localhost 443 https".into()),
        (
            &[("X-Forwarded-Host", "one.example"), ("X-Forwarded-Port", "81")],
            "one.example 81 http".into(),
        ),
        (
            &[("X-Forwarded-Host", "one.example"), ("X-Forwarded-Proto", "https")],
            "one.example 443 https".into(),
        ),
    ] {
        let page = page(&server, fields);
        let (_, origin) = page.split_once(' ').unwrap();
        assert_eq!(origin, expected, "{fields:?}");
        assert!(!seen.contains(&page), "{fields:?}: somebody else's page");
        seen.push(page);
    }
    // Who asks makes no difference.
    let first = page(&server, &[("X-Forwarded-Host", "one.example")]);
    assert!(seen.contains(&first));
    let of_one = [("X-Forwarded-Host", "one.example"), ("X-Forwarded-For", "192.0.2.1")];
    assert_eq!(page(&server, &of_one), first);
    // What a client has written left of the proxy's words is not believed, and its page is nobody
    // else's: an application may read the field itself.
    let forged = page(&server, &[("X-Forwarded-Host", "evil.example, one.example")]);
    assert!(forged.ends_with(&format!(" one.example {port} http")), "{forged}");
    assert!(!seen.contains(&forged));
    assert_eq!(page(&server, &[("X-Forwarded-Host", "one.example")]), first);
}

/// What strangers say of themselves is believed by nobody, and what is kept of it is for those who
/// say the same.
#[test]
fn what_strangers_say_changes_no_page_of_others() {
    for proxies in ["", "\"10.0.0.0/8\""] {
        let server = start(proxies);
        let expected = format!(" localhost {} http", server.address.port());
        let mut seen: Vec<String> = Vec::new();
        // The first ones are the strangers: what is kept of them, others could get.
        for fields in [
            &[("X-Forwarded-Host", "evil.example")][..],
            &[("X-Forwarded-Host", "other.example")],
            &[("X-Forwarded-Port", "81")],
            &[("X-Forwarded-Proto", "https")],
            &[("Forwarded", "host=evil.example;proto=https")],
            &[],
        ] {
            let page = page(&server, fields);
            assert!(page.ends_with(&expected), "{proxies} {fields:?}: {page}");
            assert!(!seen.contains(&page), "{proxies} {fields:?}: somebody else's page");
            seen.push(page);
        }
        // An address that is not believed shapes no page, and makes no new one.
        let plain = page(&server, &[("X-Forwarded-For", "192.0.2.1")]);
        assert_eq!(seen.last(), Some(&plain), "{proxies}");
    }
}
