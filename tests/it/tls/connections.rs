//! Requests over TLS: what PHP sees of them, and clients that do something else.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use super::{Folder, secured, secured_in};
use crate::harness::{Connection, Kind, Setup, get, in_every_mode};

in_every_mode! { php_sees_https }

fn php_sees_https(kind: Kind) {
    let secured = secured(kind, &[], &[]);
    let vars = secured.server_vars(&[]);
    let port = secured.address.port().to_string();
    for (name, expected) in [
        ("HTTPS", "on"),
        ("REQUEST_SCHEME", "https"),
        ("SERVER_PORT", &*port),
        ("SSL_PROTOCOL", "TLSv1.3"),
        ("SSL_TLS_SNI", "localhost"),
        ("REMOTE_ADDR", "127.0.0.1"),
    ] {
        assert_eq!(vars[name], expected, "{name}: {vars:#}");
    }
    assert!(vars["SSL_CIPHER"].as_str().unwrap().starts_with("TLS_"), "{vars:#}");
    assert!(vars.get("SSL_CLIENT_VERIFY").is_none(), "clients are not asked: {vars:#}");
    let plain = secured.server.get("/server.php").expect(200).json();
    assert_eq!((&plain["REQUEST_SCHEME"], plain.get("HTTPS")), (&"http".into(), None));
}

#[test]
fn applications_over_fastcgi_see_https() {
    let vars = secured(Kind::Fastcgi, &[], &[]).server_vars(&[]);
    assert_eq!((&vars["HTTPS"], &vars["SSL_PROTOCOL"]), (&"on".into(), &"TLSv1.3".into()));
}

#[test]
fn bodies_go_both_ways_whole() {
    let secured = secured(Kind::Worker, &["limits.buffer = \"64KiB\""], &[]);
    let sent = "0123456789abcdef".repeat(256 * 1024);
    std::fs::write(secured.folder.path("body"), &sent).unwrap();
    let body = format!("@{}", secured.folder.path("body").display());
    let got = secured
        .text("/echo.php", &["--http1.1", "--data-binary", &body, "-H", "Content-Type: x/y"]);
    assert!(got.contains(&sent), "{} of {} bytes came back", got.len(), sent.len());
    let slow = secured.text(
        "/echo.php",
        &["--http1.1", "--limit-rate", "8M", "--data-binary", &body, "-H", "Content-Type: x/y"],
    );
    assert!(slow.contains(&sent), "{} of {} bytes came back slowly", slow.len(), sent.len());
}

#[test]
fn a_connection_serves_several_requests_and_early_hints() {
    let secured = secured(Kind::Worker, &["early_hints = \"all\""], &[]);
    let twice = format!("https://localhost:{}/hello.php", secured.address.port());
    let log = secured.text("/hello.php", &["--http1.1", "-v", "--stderr", "-", &twice]);
    assert!(log.contains("Re-using existing connection"), "{log}");
    let hints = secured.text("/early_hints.php", &["--http1.1", "-i"]);
    assert!(hints.starts_with("HTTP/1.1 103 "), "{hints}");
    assert!(hints.contains("\r\nHTTP/1.1 200 "), "{hints}");
}

#[test]
fn a_client_that_goes_is_noticed() {
    let folder = Folder::new();
    folder.certificate("localhost", &["localhost"]);
    let secured = secured_in(folder, Setup::new(Kind::Classic).workers(1), &[], &[]);
    let mut client = std::process::Command::new("curl")
        .args(["-sSk", "-m", "60"])
        .arg(format!("https://{}/hold.php?name=one", secured.address))
        .spawn()
        .unwrap();
    secured.server.holds("one");
    client.kill().unwrap();
    client.wait().unwrap();
    secured.server.let_go("one");
    // The only worker answers the next request.
    assert!(secured.text("/hello.php", &[]).contains("Hello"));
}

#[test]
fn http_on_the_port_for_tls_gets_a_400_that_says_so() {
    let secured = secured(Kind::Classic, &["timeouts.head = \"1s\""], &[]);
    let response = Connection::open(secured.address).exchange(&get("/hello.php")).expect(400);
    assert!(response.text().contains("plain HTTP request was sent to an HTTPS port"));
    let mut garbage = Connection::open(secured.address);
    garbage.send([0x16, 3, 1, 0xff, 0xff, 1, 2, 3]);
    // An alert may come first.
    while garbage.read_byte().is_ok() {}
    assert!(garbage.closes_within(Duration::from_secs(20)), "rubbish ends the connection");
}

#[test]
fn handshakes_that_stop_half_way_end_and_do_not_disturb_others() {
    let secured = secured(Kind::Classic, &["timeouts.head = \"1s\""], &[]);
    // The beginning of a greeting, byte by byte as far as it goes.
    let greeting = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    let mut open: Vec<Connection> = Vec::new();
    for length in 0..=greeting.len() {
        for _ in 0..8 {
            let mut connection = Connection::open(secured.address);
            connection.send(&greeting[..length]);
            open.push(connection);
        }
    }
    assert!(secured.text("/hello.php", &[]).contains("Hello"), "others are served meanwhile");
    for mut connection in open {
        assert!(connection.closes_within(Duration::from_secs(20)), "the time of a head is over");
    }
}

#[test]
fn versions_and_suites() {
    let folder = Folder::new();
    folder.certificate("localhost", &["localhost"]);
    folder.made_with("rsa", &["localhost"], &["-newkey", "rsa:2048"]);
    let both = folder.lines("rsa");
    let rsa = Setup::new(Kind::Classic).line("loops = 1").site_line("index = [\"hello.php\"]");
    let lines: Vec<String> = both.lines().map(|line| format!("tls.{line}")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let secured = secured_in(folder, rsa, &lines, &[]);
    // The first part: `localhost` with ECDSA, the name `other` with RSA of `[tls]`.
    for (name, flags, expected) in [
        ("localhost", &["-tls1_3"][..], "TLSv1.3, Cipher is TLS_AES_256_GCM_SHA384"),
        (
            "localhost",
            &["-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256"],
            "TLS_AES_128_GCM_SHA256",
        ),
        (
            "localhost",
            &["-tls1_3", "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256"],
            "TLS_CHACHA20_POLY1305_SHA256",
        ),
        ("localhost", &["-tls1_2"], "TLSv1.2, Cipher is ECDHE-ECDSA-AES256-GCM-SHA384"),
        (
            "localhost",
            &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"],
            "ECDHE-ECDSA-AES128-GCM-SHA256",
        ),
        (
            "localhost",
            &["-tls1_2", "-cipher", "ECDHE-ECDSA-CHACHA20-POLY1305"],
            "ECDHE-ECDSA-CHACHA20-POLY1305",
        ),
        ("other", &["-tls1_2"], "TLSv1.2, Cipher is ECDHE-RSA-AES256-GCM-SHA384"),
        (
            "other",
            &["-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"],
            "ECDHE-RSA-AES128-GCM-SHA256",
        ),
        // Without forward secrecy, without authenticated encryption, or too old.
        ("other", &["-tls1_2", "-cipher", "AES128-GCM-SHA256"], "Cipher is (NONE)"),
        ("other", &["-tls1_2", "-cipher", "ECDHE-RSA-AES128-SHA256"], "Cipher is (NONE)"),
        ("other", &["-tls1_2", "-cipher", "DHE-RSA-AES128-GCM-SHA256"], "Cipher is (NONE)"),
        ("localhost", &["-tls1_1", "-cipher", "DEFAULT:@SECLEVEL=0"], "Cipher is (NONE)"),
        ("localhost", &["-tls1", "-cipher", "DEFAULT:@SECLEVEL=0"], "Cipher is (NONE)"),
    ] {
        let printed = secured.s_client(&[&["-servername", name], flags].concat(), "");
        assert!(printed.contains(expected), "{name} {flags:?}: {printed}");
    }
    let secured = super::secured(Kind::Classic, &["tls.minimum = \"1.3\""], &[]);
    for (flag, expected) in [("-tls1_2", "Cipher is (NONE)"), ("-tls1_3", "Cipher is TLS_")] {
        let printed = secured.s_client(&[flag], "");
        assert!(printed.contains(expected), "{flag}: {printed}");
    }
}

#[test]
fn clients_choose_the_protocol() {
    for (line, offered, agreed) in [
        ("http2.enabled = true", "h2,http/1.1", "h2"),
        ("http2.enabled = true", "http/1.1", "http/1.1"),
        ("http2.enabled = true", "http/1.1,h2", "h2"),
        ("http2.enabled = false", "h2,http/1.1", "http/1.1"),
    ] {
        let secured = secured(Kind::Classic, &[line], &[]);
        let printed = secured.s_client(&["-alpn", offered], "");
        assert!(printed.contains(&format!("ALPN protocol: {agreed}\n")), "{offered}: {printed}");
        let both = secured.text("/server.php", &["-w", "\nversion %{http_version}"]);
        let version = if line.ends_with("true") { "2" } else { "1.1" };
        assert!(both.ends_with(&format!("\nversion {version}")), "{both}");
        assert!(both.contains("\"HTTPS\":\"on\""), "{both}");
        let none = secured.s_client(&["-alpn", "spdy/3"], "");
        assert!(none.contains("no application protocol"), "{none}");
    }
}

#[test]
fn browsers_are_sent_to_https() {
    let mounted = "[[site]]\npath = '/mounted'\nroot = '.'";
    let lines = ["https_redirect = true", "hsts = \"24h\"", mounted];
    let secured = secured(Kind::Classic, &[], &lines);
    let port = secured.address.port();
    for target in ["/hello.php?a=b", "/mounted/?a=b"] {
        let moved = secured.server.get(target).expect(308);
        let expected = format!("https://localhost:{port}{target}");
        assert_eq!(moved.header("location"), Some(&*expected));
        assert_eq!(moved.header("strict-transport-security"), None, "only over TLS");
        let head = secured.text(target, &["-i", "--http1.1"]);
        assert!(head.contains("strict-transport-security: max-age=86400\r\n"), "{head}");
    }
}

#[test]
fn browsers_get_hsts_for_the_names_below() {
    let mounted = "[[site]]\npath = '/mounted'\nroot = '.'";
    let lines = [
        "https_redirect = true",
        "canonical_host = \"localhost\"",
        "hsts = \"8760h\"",
        "hsts_subdomains = true",
        "hsts_preload = true",
        mounted,
    ];
    let secured = secured(Kind::Classic, &[], &lines);
    let field = "strict-transport-security: max-age=31536000; includeSubDomains; preload\r\n";
    for target in ["/hello.php", "/style.css", "/mounted/", "/none.php"] {
        let head = secured.text(target, &["-i", "--http1.1"]);
        assert!(head.contains(field), "{target}: {head}");
    }
    // Not at the canonical host, which says nothing about the names below this one.
    let request = get("/hello.php").header("Host", "other.localhost");
    let moved = secured.server.send(&request).expect(308);
    let port = secured.address.port();
    let expected = format!("https://other.localhost:{port}/hello.php");
    assert_eq!(moved.header("location"), Some(&*expected));
}

#[test]
fn cached_pages_of_both_schemes_are_two() {
    let lines = ["cache = true", "cache_lifetime = \"1m\""];
    let secured = secured(Kind::Classic, &[], &lines);
    let scheme = |value: &serde_json::Value| value["REQUEST_SCHEME"].as_str().unwrap().to_owned();
    let host = format!("localhost:{}", secured.address.port());
    for _ in 0..2 {
        let request = get("/server.php").header("Host", &host);
        let plain = secured.server.send(&request).expect(200).json();
        assert_eq!(
            (scheme(&plain), scheme(&secured.server_vars(&[]))),
            ("http".into(), "https".into())
        );
    }
}

#[test]
fn bytes_that_come_after_a_goodbye_do_no_harm() {
    let secured = secured(Kind::Classic, &[], &[]);
    for bytes in [&b"\x15\x03\x03\x00\x02\x01\x00"[..], b"\x16\x03\x01\x00\x00", b"\x80\x2e\x01"] {
        let mut stream = TcpStream::connect(secured.address).unwrap();
        stream.write_all(bytes).unwrap();
    }
    assert!(secured.text("/hello.php", &[]).contains("Hello"));
}
