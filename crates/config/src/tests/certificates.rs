//! Certificates that the server gets by itself.

use super::{Place, has};
use crate::{is_local, state_directory};

#[test]
fn local_names_of_sites_without_files_get_certificates() {
    let place = Place::with(&["a/index.php", "b/index.php", "pair.pem"]);
    let text = "listen_tls = ':443'\n[tls]\nauto = true\n\
        [[site]]\nhost = ['localhost', '*.A.localhost']\nroot = 'a'\n\
        [[site]]\nhost = ['127.0.0.1', '[::1]']\nroot = 'b'\n\
        [[site]]\nhost = 'shop.example'\nroot = 'b'\ncertificate = 'pair.pem'\n";
    let server = place.load(text).unwrap();
    let names: Vec<&str> = server.local_names().into_iter().collect();
    assert_eq!(names, ["*.a.localhost", "127.0.0.1", "[::1]", "localhost"]);
    let printed = server.to_toml();
    assert_eq!(Place::with(&[]).load(&printed).unwrap(), server, "{printed}");
    let server = place.load(&text.replace("auto = true", "certificate = 'pair.pem'")).unwrap();
    assert!(server.local_names().is_empty());
}

#[test]
fn a_site_without_tls_needs_no_certificate() {
    let place = Place::with(&["index.php"]);
    let text = "listen = ':80'\nlisten_tls = [':443', ':444']\ntls.auto = true\n\
        [[site]]\nroot = '.'\nhost = ['shop.example', 'shop.localhost']\n\
        [[site]]\nroot = '.'\nhost = ['inner.example', 'inner.localhost']\nlisten = ':80'\n\
        [[site]]\nroot = '.'\nhost = ['both.example', 'both.localhost']\nlisten = [':80', ':444']\n";
    let server = place.load(text).unwrap();
    assert_eq!(Vec::from_iter(server.public_names()), ["both.example", "shop.example"]);
    assert_eq!(Vec::from_iter(server.local_names()), ["both.localhost", "shop.localhost"]);
}

#[test]
fn it_is_said_where_there_are_none() {
    let place = Place::with(&["index.php"]);
    let text = |site: &str| format!("listen_tls = ':443'\ntls.auto = true\n[[site]]\n{site}");
    has(
        &place.errors(&text("host = 'intranet'\n")),
        &["tokamak.toml:4: site.host", "no authority gives a certificate for `intranet`"],
    );
    has(&place.errors(&text("")), &["tokamak.toml:2: tls.auto", "set `host`"]);
    has(
        &place.errors("tls.auto = true\n[[site]]\nhost = 'localhost'\n"),
        &["tokamak.toml:1: tls.auto", "is for `listen_tls`"],
    );
}

#[test]
fn local_names_mean_this_machine_everywhere() {
    for (host, expected) in [
        ("localhost", true),
        ("shop.localhost", true),
        ("*.shop.localhost", true),
        ("127.0.0.1", true),
        ("127.1.2.3", true),
        ("[::1]", true),
        ("localhost.example", false),
        ("notlocalhost", false),
        ("192.168.0.1", false),
        ("[::2]", false),
        ("shop.local", false),
    ] {
        assert_eq!(is_local(host), expected, "{host}");
    }
}

#[test]
fn a_service_manager_says_where_the_state_is() {
    let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let of_service = [set("HOME", "/home/ann"), set("STATE_DIRECTORY", "/var/lib/a:/var/lib/b")];
    assert_eq!(state_directory(&of_service).to_str(), Some("/var/lib/a"));
    let expected = match rustix::process::geteuid().is_root() {
        true => "/var/lib/tokamak",
        false => "/home/ann/.local/state/tokamak",
    };
    assert_eq!(state_directory(&of_service[..1]).to_str(), Some(expected));
    assert_eq!(state_directory(&[set("HOME", "")]).to_str(), Some("/var/lib/tokamak"));
    let place = Place::with(&["index.php"]);
    assert_eq!(place.load("state_dir = 'x'\n").unwrap().state_dir, place.path("x"));
}
