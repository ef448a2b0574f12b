//! Certificates that the server gets by itself.

use std::net::SocketAddr;

use super::{Place, has};
use crate::{Request, Server, is_public};

fn names(server: &Server) -> Vec<&str> {
    server.public_names().into_iter().collect()
}

#[test]
fn a_domain_is_all_that_a_site_needs() {
    let place = Place::with(&["index.php"]);
    let flags = vec![("--domain", "Shop.example,www.shop.example".to_owned())];
    let server = Request { flags, ..place.request() }.load().unwrap();
    let every =
        |port| vec![SocketAddr::from(([0, 0, 0, 0], port)), SocketAddr::from(([0_u16; 8], port))];
    assert_eq!((server.listen.clone(), server.listen_tls.clone()), (every(80), every(443)));
    assert!(server.tls.auto && server.sites[0].tls.redirect);
    assert_eq!(server.sites[0].hosts, ["shop.example", "www.shop.example"]);
    assert_eq!(names(&server), ["shop.example", "www.shop.example"]);
    // What is set stays.
    let text = "domain = \"a.example\"\nlisten = \"127.0.0.1:81\"\n[[site]]\n\
                https_redirect = false\n";
    let server = place.load(text).unwrap();
    assert_eq!(server.listen, [SocketAddr::from(([127, 0, 0, 1], 81))]);
    assert!(!server.sites[0].tls.redirect);
    // What is printed means the same.
    let again = place.load(&server.to_toml()).unwrap();
    assert_eq!((names(&again), &again.listen), (vec!["a.example"], &server.listen));
}

#[test]
fn names_that_authorities_know_get_certificates() {
    for (host, expected) in [
        ("a.example", true),
        ("*.a.example", true),
        ("localhost", false),
        ("x.localhost", false),
        ("*.localhost", false),
        ("intranet", false),
        ("127.0.0.1", false),
        ("[::1]", false),
    ] {
        assert_eq!(is_public(host), expected, "{host}");
    }
}

#[test]
fn what_cannot_work_is_refused() {
    let place = Place::with(&["index.php"]);
    let site = |host: &str| format!("[[site]]\nhost = \"{host}\"\n");
    let tls = "listen_tls = \":443\"\ntls.auto = true\n";
    for (text, parts) in [
        ("tls.auto = true\n".to_owned() + &site("a.example"), &["tls.auto", "`listen_tls`"][..]),
        (tls.to_owned(), &["tls.auto", "set `host`"]),
        (tls.to_owned() + &site("*.a.example"), &["site.host", "`dns_hook` in `[acme]`"]),
        (
            format!("{tls}acme.directory = \"http://a.example/\"\n{}", site("a.example")),
            &["acme.directory", "begins with https://"],
        ),
        (
            format!("{tls}acme.challenge = \"dns-01\"\n{}", site("a.example")),
            &["acme.challenge", "needs `dns_hook`"],
        ),
        (
            format!("{tls}acme.dns_hook = \"index.php\"\n{}", site("a.example")),
            &["acme.dns_hook", "is not a program"],
        ),
        (
            format!(
                "{tls}acme.eab = {{ \"https://b.example/\" = \"a:b\" }}\n{}",
                site("a.example")
            ),
            &["acme.eab", "is not in `directory`"],
        ),
    ] {
        has(&place.errors(&text), parts);
    }
}

#[test]
fn names_of_handshakes_that_may_have_certificates() {
    let place = Place::with(&["index.php", "own.pem"]);
    let top = "listen_tls = \":443\"\ntls.auto = true\nacme.ask = \"http://127.0.0.1:1/ask\"\n";
    let sites = "[[site]]\nroot = \".\"\nhost = [\"shop.example\", \"*.shops.example\"]\n\
                 [[site]]\nroot = \".\"\nhost = \"*.own.example\"\ncertificate = \"own.pem\"\n";
    let server = place.load(&format!("{top}{sites}")).unwrap();
    assert_eq!(names(&server), ["shop.example"], "the others are got when they are asked for");
    let long = format!("{}.shops.example", "a".repeat(64));
    for (name, expected) in [
        ("a.shops.example", true),
        ("a.b.shops.example", true),
        ("shops.example", false),
        ("shop.example", false),
        ("a.shop.example", false),
        ("a.own.example", false),
        ("other.example", false),
        ("*.shops.example", false),
        ("-a.shops.example", false),
        ("a..shops.example", false),
        (".shops.example", false),
        ("a/../b.shops.example", false),
        ("A.shops.example", false),
        (&long, false),
    ] {
        assert_eq!(server.gets_on_demand(name), expected, "{name}");
    }
    let server = place.load(top).unwrap();
    for (name, expected) in [
        ("other.example", true),
        ("localhost", false),
        ("intranet", false),
        ("192.0.2.1", false),
        ("1.2.3.4.5", false),
    ] {
        assert_eq!(server.gets_on_demand(name), expected, "{name}");
    }
    let printed = place.load(&server.to_toml()).unwrap();
    assert_eq!(printed.acme, server.acme);
    has(&place.errors(&top.replace("http://", "ftp://")), &["acme.ask", "is not a URL"]);
}
