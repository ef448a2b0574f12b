//! `X-Forwarded-…` and `Forwarded`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::balancer::{ORIGIN, server_vars, some, with};
use crate::harness::{Connection, Kind, Server, Setup, eventually, get};
use crate::traces::line;

const BOTH: &str = "trusted_headers = [\"x-forwarded-for\", \"x-forwarded-proto\"]";

/// A server that trusts these, with an access log in JSON.
fn trusting(kind: Kind, proxies: &str) -> Setup {
    Setup::new(kind)
        .line(&format!("trusted_proxies = [{proxies}]"))
        .line("log.access = \"state/access.log\"")
        .line("log.access_format = \"json\"")
}

fn says_who_asks(kind: Kind) {
    let server = trusting(kind, "\"127.0.0.0/8\", \"10.0.0.0/8\"").line(BOTH).start();
    let port = server.address.port().to_string();
    let forwarded = [
        ("X-Forwarded-For", "203.0.113.9, 192.0.2.1:4711, 10.0.0.7"),
        ("X-Forwarded-Proto", "https"),
        // Not believed unless they are named.
        ("X-Forwarded-Host", "evil.example"),
        ("X-Forwarded-Port", "1"),
        ("Forwarded", "for=6.6.6.6;host=evil.example"),
        ("Host", "shop.example"),
    ];
    let mut request = with(&forwarded);
    request.target = "/server.php?proxied".into();
    let seen = server_vars(&server, &request);
    assert_eq!(some(&seen, &ORIGIN), "192.0.2.1 https on 443 shop.example localhost");
    assert_eq!(seen["REMOTE_PORT"], "4711");
    assert_eq!(line(&server, "proxied")["client"], "192.0.2.1");
    // The port of the host is the one that the client connected to.
    let host = [("X-Forwarded-Proto", "http"), ("Host", "shop.example:8080")];
    let seen = some(&server_vars(&server, &with(&host)), &ORIGIN);
    assert_eq!(seen, "127.0.0.1 http - 8080 shop.example:8080 localhost");
    // The next request of the connection is of another client, or of the proxy itself.
    let mut connection = server.connect();
    for (address, expected) in [("192.0.2.1", "192.0.2.1"), ("2001:db8::1", "2001:db8::1")] {
        let seen = connection.exchange(&with(&[("X-Forwarded-For", address)])).expect(200).json();
        assert_eq!(some(&seen, &["REMOTE_ADDR", "SERVER_PORT"]), format!("{expected} {port}"));
        // As nginx's realip has it.
        assert_eq!(seen["REMOTE_PORT"], "", "{expected}");
    }
    let seen = connection.exchange(&with(&[])).expect(200).json();
    assert_eq!(some(&seen, &["REMOTE_ADDR", "SERVER_PORT"]), format!("127.0.0.1 {port}"));
}

#[test]
fn a_trusted_proxy_says_who_asks() {
    says_who_asks(Kind::Classic);
}

#[test]
fn a_trusted_proxy_says_who_asks_fastcgi_applications() {
    says_who_asks(Kind::Fastcgi);
}

/// Apache, Squid, Varnish and Traffic Server pass on the scheme that a client makes up.
#[test]
fn a_scheme_is_believed_only_if_the_operator_says_so() {
    let server = trusting(Kind::Classic, "\"127.0.0.1\"").start();
    let forged = [("X-Forwarded-For", "192.0.2.1"), ("X-Forwarded-Proto", "https")];
    let port = server.address.port();
    let expected = format!("192.0.2.1 http - {port} localhost localhost");
    assert_eq!(some(&server_vars(&server, &with(&forged)), &ORIGIN), expected);
    server.log_line(&["trusted_headers is not set", "if your proxy sets X-Forwarded-Proto"]);
}

#[test]
fn nothing_is_believed_of_others() {
    let all = "trusted_headers = [\"x-forwarded-for\", \"x-forwarded-proto\", \
               \"x-forwarded-host\", \"x-forwarded-port\"]";
    let fields = [
        ("X-Forwarded-For", "192.0.2.1"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "evil.example"),
        ("X-Forwarded-Port", "443"),
        ("Forwarded", "for=192.0.2.1;proto=https;host=evil.example"),
    ];
    for (proxies, headers) in
        [("", ""), ("\"10.0.0.0/8\"", all), ("\"::1\"", "trusted_headers = [\"forwarded\"]")]
    {
        let server = trusting(Kind::Classic, proxies).line(headers).start();
        let seen = server_vars(&server, &with(&fields));
        let port = server.address.port();
        let expected = format!("127.0.0.1 http - {port} localhost localhost");
        assert_eq!(some(&seen, &ORIGIN), expected, "{proxies} {headers}");
        // They are passed on, as every header is.
        assert_eq!(seen["HTTP_X_FORWARDED_FOR"], "192.0.2.1");
    }
}

#[test]
fn a_proxy_that_may_names_host_and_port() {
    let server = trusting(Kind::Classic, "\"private\"")
        .line("trusted_headers = [\"x-forwarded-host\", \"x-forwarded-port\"]")
        .also("shop.example", "php")
        .start();
    let asked = [("X-Forwarded-Host", "evil, shop.example"), ("X-Forwarded-Port", "8443")];
    let seen = server_vars(&server, &with(&asked));
    let expected = "127.0.0.1 http - 8443 shop.example shop.example";
    assert_eq!(some(&seen, &ORIGIN), expected, "the site is that of the host");
    // In the request line, too.
    let mut request = with(&asked);
    request.target = "http://localhost/server.php".into();
    assert_eq!(some(&server_vars(&server, &request), &ORIGIN), expected);
    for host in ["", "a b", "u@shop.example", "shop.example/x", &"x".repeat(300)] {
        let seen =
            server_vars(&server, &with(&[("X-Forwarded-Host", host), ("X-Forwarded-Port", "0")]));
        let port = server.address.port();
        let expected = format!("127.0.0.1 http - {port} localhost localhost");
        assert_eq!(some(&seen, &ORIGIN), expected, "{host}");
    }
}

#[test]
fn a_proxy_may_speak_as_the_standard_says() {
    let server = trusting(Kind::Classic, "\"127.0.0.1\", \"10.0.0.0/8\"")
        .line("trusted_headers = [\"forwarded\"]")
        .start();
    let names = ["REMOTE_ADDR", "REQUEST_SCHEME", "SERVER_PORT", "HTTP_HOST"];
    for (value, expected) in [
        ("for=192.0.2.1;proto=https;host=shop.example", "192.0.2.1 https 443 shop.example"),
        ("for=\"[2001:db8::1]:80\";proto=HTTP", "2001:db8::1 http 80 localhost"),
        ("for=6.6.6.6, for=192.0.2.1;proto=https, for=10.0.0.1", "192.0.2.1 https 443 localhost"),
        ("for=_hidden;proto=https", "127.0.0.1 https 443 localhost"),
    ] {
        let seen =
            server_vars(&server, &with(&[("Forwarded", value), ("X-Forwarded-For", "6.6.6.6")]));
        assert_eq!(some(&seen, &names), expected, "{value}");
    }
}

#[test]
fn invalid_forwarded_fields_are_not_believed() {
    let server = trusting(Kind::Classic, "\"127.0.0.1\"").start();
    let long = "127.0.0.1, ".repeat(2000) + "127.0.0.1";
    let mut connection = server.connect();
    for value in [
        "",
        ",",
        ",,,,",
        "unknown",
        "_hidden",
        "192.0.2.1,",
        "192.0.2.1, x",
        "192.0.2.256",
        "::g",
        "[::1",
        "\"192.0.2.1\"",
        "192.0.2.1:port",
        "192.0.2.1 192.0.2.2",
        "0x7f.1",
        "\u{e9}",
        &long,
    ] {
        let request = with(&[("X-Forwarded-For", value), ("X-Forwarded-Proto", "ftp")]);
        let seen = connection.exchange(&request).expect(200).json();
        assert_eq!(some(&seen, &["REMOTE_ADDR", "REQUEST_SCHEME"]), "127.0.0.1 http", "{value}");
    }
}

/// Whether a cached page is the same for two requests.
fn share(server: &Server, target: &str, fields: [&[(&str, &str)]; 2]) -> bool {
    let [first, second] = fields.map(|fields| {
        let mut request = with(fields);
        request.target = target.into();
        server.send(&request).expect(200).text()
    });
    first == second
}

#[test]
fn the_content_cache_knows_schemes_and_no_clients() {
    let server = trusting(Kind::Classic, "\"127.0.0.1\"")
        .line("trusted_headers = [\"forwarded\"]")
        .site_line("cache = true")
        .start();
    fs::write(
        server.places.root().join("kept.php"),
        "<?php header('Cache-Control: public, max-age=60'); echo uniqid(), $_SERVER['REMOTE_ADDR'];",
    )
    .unwrap();
    let one: &[_] = &[("Forwarded", "for=192.0.2.1;proto=https")];
    let other: &[_] = &[("Forwarded", "for=192.0.2.2;proto=https")];
    let plain: &[_] = &[("Forwarded", "for=192.0.2.1;proto=http")];
    assert!(share(&server, "/kept.php?a", [one, other]), "two clients");
    assert!(!share(&server, "/kept.php?b", [one, plain]), "two schemes");
}

#[test]
fn scripts_see_the_client_and_may_refuse_it() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("deny.lua");
    let text = "local r = lighty.r.req_attr\n\
                if r[\"request.remote-addr\"] == \"192.0.2.66\" then return 403 end\n\
                if r[\"uri.scheme\"] == \"https\" then return 404 end\n\
                local port = r[\"request.remote-port\"]\n\
                if port == \"\" or port == \"4711\" then return port == \"\" and 410 or 409 end\n";
    fs::write(&script, text).unwrap();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let line = format!("lua_raw_url = \"{}\"", script.display());
    let server = trusting(Kind::Classic, "\"127.0.0.1\"").line(BOTH).site_line(&line).start();
    server.send(&with(&[("X-Forwarded-For", "192.0.2.66")])).expect(403);
    server.send(&with(&[("X-Forwarded-Proto", "https")])).expect(404);
    // Who is last in the chain is the client.
    let ported = "192.0.2.66, 192.0.2.1:4711";
    server.send(&with(&[("X-Forwarded-For", ported)])).expect(409);
    server.send(&with(&[("X-Forwarded-For", "192.0.2.66, 192.0.2.1")])).expect(410);
    server.send(&with(&[])).expect(200);
}

#[test]
fn a_reload_trusts_others() {
    let server = trusting(Kind::Classic, "\"127.0.0.1\"").start();
    let request = with(&[("X-Forwarded-For", "192.0.2.1")]);
    assert_eq!(server_vars(&server, &request)["REMOTE_ADDR"], "192.0.2.1");
    crate::operate::configure(&server, "[\"127.0.0.1\"]", "[\"10.0.0.1\"]");
    crate::operate::reload(&server).expect("a reload");
    let seen = || {
        let mut connection = Connection::open(server.address);
        let seen = connection.exchange(&request).expect(200).json();
        (seen["REMOTE_ADDR"] == "127.0.0.1").then_some(())
    };
    assert!(eventually(std::time::Duration::from_secs(20), seen).is_some());
    server.send(&get("/hello.php")).expect(200);
}
