//! Several listening sockets, some of them with sites of their own.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::{Connection, Kind, Server, Setup, check, eventually, free_address, get, row};
use crate::operate::{command, reload};

/// Says which site it is of, and what nobody can guess.
const PAGE: &str = "<?php header('Cache-Control: max-age=60'); header('Content-Type: text/plain');
echo basename(__DIR__), ' ', $_SERVER['SERVER_NAME'], ' ', bin2hex(random_bytes(8));";

/// Folders of sites, each with a page.
fn sites(names: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for name in names {
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join("index.php"), PAGE).unwrap();
    }
    folder
}

fn site(folder: &TempDir, name: &str, listen: SocketAddr) -> String {
    let root = folder.path().join(name);
    format!(
        "\n[[site]]\nlisten = \"{listen}\"\nroot = '{}'\ncache = true\npool.workers = 1\n",
        root.display()
    )
}

fn to(address: SocketAddr, host: &str) -> String {
    let request = get("/index.php").header("Host", host);
    Connection::open(address).exchange(&request).expect(200).text()
}

/// A site on every address, one on `inner` only, and an address behind a proxy.
struct Started {
    server: Server,
    inner: SocketAddr,
    proxied: SocketAddr,
    _folder: TempDir,
}

fn start() -> Started {
    let folder = sites(&["inner", "public"]);
    let (inner, proxied) = (free_address(), free_address());
    let server = Setup::new(Kind::Classic)
        .line(&format!("listen = ['127.0.0.1:$PORT', '{inner}', '{proxied}']"))
        .line(&format!("proxy_protocol = '{proxied}'\ntrusted_proxies = '127.0.0.1'"))
        .line("trusted_headers = ['x-forwarded-host', 'x-forwarded-port']")
        .site(folder.path().join("public").to_str().unwrap())
        .site_line("cache = true")
        .more(&site(&folder, "inner", inner))
        .start();
    Started { server, inner, proxied, _folder: folder }
}

#[test]
fn a_site_is_served_on_its_address_only() {
    let started = start();
    let Started { server, inner, proxied, .. } = &started;
    let page = |host: &str| get("/index.php").header("Host", host);
    let port = inner.port().to_string();
    let served = |name, request| row(name, request).contains("site ");
    check(
        server,
        vec![
            served("its name", page("localhost")),
            served("another name", page("inner")),
            served("the other address", page(&inner.to_string())),
            served("a name with its port", page(&format!("localhost:{port}"))),
            served("as a proxy says it", page("a").header("X-Forwarded-Host", "inner")),
            served("the port of a proxy", page("a").header("X-Forwarded-Port", &port)),
        ],
    );
    assert!(to(*inner, "a.test").starts_with("inner a.test "));
    assert!(
        to(*inner, "localhost").starts_with("site "),
        "a name of another site on all addresses"
    );
    // What the PROXY header says of the server's address changes nothing.
    let mut connection = Connection::open(*proxied);
    let header = format!("PROXY TCP4 192.0.2.1 127.0.0.1 4711 {}\r\n", inner.port());
    connection.send([header.as_bytes(), &page("inner").bytes()].concat());
    assert!(connection.response().expect(200).text().starts_with("site "));
}

#[test]
fn sites_with_the_same_urls_share_no_stored_response() {
    let started = start();
    let Started { server, inner, .. } = &started;
    let host = "127.0.0.1:99";
    let public = || to(server.address, host);
    let first = to(*inner, host);
    assert_eq!(to(*inner, host), first, "a hit");
    assert!(public().starts_with("site "));
    assert_eq!(to(*inner, host), first);
    assert!(public().starts_with("site "));
    let purged = command(server, &["cache", "purge", "--url", "127.0.0.1:99/index.php"]);
    let said = String::from_utf8_lossy(&purged.stdout).into_owned();
    assert_eq!(said.trim(), "2 responses were removed", "{purged:?}");
    assert_ne!(to(*inner, host), first);
}

#[test]
fn a_reload_adds_and_removes_addresses_with_their_sites() {
    let Started { server, inner, proxied, _folder } = start();
    let folder = sites(&["more"]);
    let more = free_address();
    let file = server.places.top().join("tokamak.toml");
    let before = fs::read_to_string(&file).unwrap();
    let kept = before.split("\n[[site]]\nlisten").next().unwrap();
    let kept = kept.replace(&format!("'{inner}', "), &format!("'{more}', "));
    fs::write(&file, format!("{kept}{}", site(&folder, "more", more))).unwrap();
    reload(&server).unwrap();
    assert!(to(more, "localhost.test").starts_with("more "));
    assert!(to(server.address, "more").starts_with("site "));
    assert!(Connection::open(proxied).try_send("PROXY").is_ok());
    let closed = || std::net::TcpStream::connect(inner).is_err().then_some(());
    eventually(Duration::from_secs(20), closed).expect("the address is closed");

    // An address without any site is refused, and the server goes on as it was.
    fs::write(&file, kept.replace("[[site]]", &format!("[[site]]\nlisten = '{more}'"))).unwrap();
    let wrong = reload(&server).unwrap_err();
    assert!(wrong.contains("none names") && wrong.contains("listen"), "{wrong}");
    assert!(to(more, "localhost.test").starts_with("more "));
}

#[test]
fn redirects_to_https_name_the_port_outside() {
    let folder = crate::tls::Folder::new();
    folder.certificate("localhost", &["localhost"]);
    for (line, expected) in [
        ("https_port = 443", "https://localhost/a?b"),
        ("https_port = 8443", "https://localhost:8443/a?b"),
    ] {
        let server = Setup::new(Kind::Classic)
            .line(&format!("listen_tls = ['{}']", free_address()))
            .site_line(&folder.lines("localhost"))
            .site_line(&format!("https_redirect = true\n{line}"))
            .start();
        let moved = server.send(&get("/a?b").header("Host", "localhost:8080"));
        assert_eq!(moved.expect(308).header("location"), Some(expected));
    }
}

#[test]
fn a_site_of_an_address_with_tls() {
    let certificates = crate::tls::Folder::new();
    certificates.certificate("localhost", &["localhost"]);
    let (folder, secured) = (sites(&["public", "secured"]), free_address());
    let server = Setup::new(Kind::Classic)
        .line(&format!("listen_tls = '{secured}'"))
        .site(folder.path().join("public").to_str().unwrap())
        .site_line(&certificates.lines("localhost"))
        .more(&site(&folder, "secured", secured))
        .start();
    assert!(to(server.address, "localhost").starts_with("site "));
    for version in ["--http1.1", "--http2"] {
        let output = Command::new("curl")
            .args(["-sSk", "-m", "20", version, &format!("https://{secured}/")])
            .output()
            .expect("curl runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.starts_with("secured "), "{version}: {output:?}");
    }
}
