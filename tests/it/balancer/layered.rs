//! What proxies say, beneath TLS and HTTP/2: PROXY headers before a handshake and before the
//! preface of HTTP/2; and the redirect to https behind a proxy that speaks it for the server.

use std::net::SocketAddr;
use std::time::Duration;

use crate::balancer::{ORIGIN, some, with};
use crate::harness::{Connection, Kind, Request, Setup, free_address, get};
use crate::http2::client::Target;
use crate::http2::features::ask;
use crate::http2::secured::folder;
use crate::tls::{Secured, wire};

const SOON: Duration = Duration::from_secs(20);

const LINE: &[u8] = b"PROXY TCP4 192.0.2.1 198.51.100.7 4711 443\r\n";

/// 192.0.2.1:4711 to 198.51.100.7:443, as version 2 says it.
const BLOCK: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc6\x33\x64\x07\x12\x67\x01\xbb";

/// A server with TLS, on an address of its own and on one where connections of these proxies begin
/// with a PROXY header.
fn proxied(proxies: &str, lines: &str) -> (Secured, SocketAddr) {
    let (address, own) = (free_address(), free_address());
    let folder = folder();
    let setup = Setup::new(Kind::Classic)
        .line(&format!("listen_tls = [\"{own}\", \"{address}\"]"))
        .line(&format!("proxy_protocol = [\"{address}\"]\ntrusted_proxies = [{proxies}]"));
    let setup = lines.lines().fold(setup, Setup::line);
    let server = setup.site_line(&folder.lines("localhost")).start();
    (Secured { server, address: own, folder }, address)
}

fn closing(request: Request) -> Vec<u8> {
    request.header("Connection", "close").bytes()
}

const SECURED_CLIENT: &str = "192.0.2.1 https on 443 localhost localhost";

#[test]
fn a_header_before_the_handshake_says_who_connects() {
    let (secured, address) = proxied("\"127.0.0.1\"", "");
    let certificate = secured.folder.path("localhost.pem");
    for header in [LINE, BLOCK] {
        let answer = wire::ask(address, header, &certificate, &closing(with(&[])));
        let answer = answer.unwrap_or_else(|error| panic!("{error}: {}", secured.server.log()));
        let (head, body) = answer.split_once("\r\n\r\n").expect("a response");
        assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
        let seen: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(some(&seen, &ORIGIN), SECURED_CLIENT);
        assert_eq!(some(&seen, &["REMOTE_PORT", "SSL_PROTOCOL"]), "4711 TLSv1.3");
        // The same for those who choose HTTP/2.
        let target = Target::secured(address, &certificate).after(header);
        let seen = ask(&target, "https", &get("/server.php")).expect("a response").expect(200);
        assert_eq!(some(&seen.json(), &ORIGIN), SECURED_CLIENT);
        assert_eq!(some(&seen.json(), &["SERVER_PROTOCOL", "REMOTE_PORT"]), "HTTP/2.0 4711");
    }
    // The server trusts the proxy, and not the header fields of the proxy's client.
    let forged = with(&[("X-Forwarded-For", "6.6.6.6"), ("X-Forwarded-Proto", "http")]);
    let answer = wire::ask(address, LINE, &certificate, &closing(forged)).expect("a response");
    let body = answer.split_once("\r\n\r\n").expect("a response").1;
    let seen = serde_json::from_str(body).expect("JSON");
    assert_eq!(some(&seen, &ORIGIN), SECURED_CLIENT);
    // On the server's own address there is none.
    let seen = secured.server_vars(&[]);
    assert_eq!(some(&seen, &["REMOTE_ADDR", "HTTPS"]), "127.0.0.1 on");
    assert!(wire::ask(secured.address, LINE, &certificate, &closing(get("/"))).is_err());
}

#[test]
fn a_handshake_without_the_header_is_closed() {
    let (secured, address) = proxied("\"127.0.0.1\"", "timeouts.head = \"2s\"");
    let certificate = secured.folder.path("localhost.pem");
    let refused = |first: &[u8]| {
        let answer = wire::ask(address, first, &certificate, &closing(get("/hello.php")));
        assert!(answer.is_err(), "{first:?}: {answer:?}");
    };
    refused(b"");
    secured.server.log_line(&["connection closed: it does not begin with a PROXY header"]);
    refused(b"PROXY TCP4 1.2.3.4 1.2.3.4 1 x\r\n");
    secured.server.log_line(&["connection closed: its PROXY header is malformed"]);
    // Behind the header comes a handshake, and not a request.
    let mut connection = Connection::open(address);
    connection.send([LINE, &get("/hello.php").bytes()].concat());
    connection.response().expect(400);
    // And it comes in time.
    let mut connection = Connection::open(address);
    connection.send(LINE);
    assert!(connection.closes_within(SOON));
    let (secured, address) = proxied("\"10.0.0.1\"", "");
    let certificate = secured.folder.path("localhost.pem");
    assert!(wire::ask(address, LINE, &certificate, &closing(get("/hello.php"))).is_err());
    secured.server.log_line(&["connection closed: its address is not in `trusted_proxies`"]);
}

/// HTTP/2 without TLS, as balancers speak it to servers behind them.
#[test]
fn a_header_before_http_2_with_prior_knowledge() {
    let address = free_address();
    let server = Setup::new(Kind::Classic)
        .line(&format!("listen = [\"127.0.0.1:$PORT\", \"{address}\"]"))
        .line(&format!("proxy_protocol = [\"{address}\"]\ntrusted_proxies = [\"127.0.0.1\"]"))
        .start();
    for header in [LINE, BLOCK] {
        let target = Target::plain(address).after(header);
        let seen = ask(&target, "http", &get("/server.php")).expect("a response").expect(200);
        let expected = "192.0.2.1 http - 443 localhost localhost";
        assert_eq!(some(&seen.json(), &ORIGIN), expected);
        assert_eq!(seen.json()["SERVER_PROTOCOL"], "HTTP/2.0");
    }
    assert!(ask(&Target::plain(address), "http", &get("/server.php")).is_err(), "without");
    let plain = Target::plain(server.address);
    let seen = ask(&plain, "http", &get("/server.php")).expect("a response").expect(200).json();
    assert_eq!(seen["REMOTE_ADDR"], "127.0.0.1");
    assert!(ask(&plain.after(LINE), "http", &get("/server.php")).is_err(), "where none belongs");
}

/// A proxy that speaks https for the server must not be sent to https for ever.
#[test]
fn the_redirect_to_https_ends_at_a_proxy_that_speaks_it() {
    let server = Setup::new(Kind::Classic)
        .line("trusted_proxies = [\"127.0.0.1\"]")
        .line("trusted_headers = [\"x-forwarded-for\", \"x-forwarded-proto\"]")
        .site_line("https_redirect = true")
        .start();
    let asked = |fields: &[(&str, &str)]| {
        let mut fields = fields.to_vec();
        fields.push(("Host", "shop.example"));
        let mut request = with(&fields);
        request.target = "/server.php?a=b".into();
        request
    };
    let over_two = |request: &Request| {
        ask(&Target::plain(server.address), "http", request).expect("a response")
    };
    let secured = asked(&[("X-Forwarded-For", "192.0.2.1"), ("X-Forwarded-Proto", "https")]);
    for response in [server.send(&secured), over_two(&secured)] {
        assert_eq!(response.expect(200).json()["HTTPS"], "on");
    }
    for fields in [
        &[][..],
        &[("X-Forwarded-Proto", "http")],
        // The last one is the proxy's.
        &[("X-Forwarded-Proto", "https, http")],
        &[("X-Forwarded-Proto", "gopher")],
        // Not what this proxy says.
        &[("Forwarded", "proto=https")],
    ] {
        for response in [server.send(&asked(fields)), over_two(&asked(fields))] {
            let response = response.expect(308);
            let to = response.header("location");
            assert_eq!(to, Some("https://shop.example/server.php?a=b"), "{fields:?}");
        }
    }
}

#[test]
fn the_redirect_to_https_believes_no_stranger() {
    for proxies in ["", "trusted_proxies = [\"10.0.0.0/8\"]"] {
        let server =
            Setup::new(Kind::Classic).line(proxies).site_line("https_redirect = true").start();
        let request = with(&[("X-Forwarded-Proto", "https"), ("Host", "shop.example")]);
        let moved = server.send(&request).expect(308);
        assert_eq!(moved.header("location"), Some("https://shop.example/server.php"));
    }
}
