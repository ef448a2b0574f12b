//! Compressed responses, as curl decodes them.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use crate::harness::{Kind, Request, Response, Server, Setup, get, in_every_mode, numbered};
use crate::metrics;

in_every_mode! { pages, flushes }

const CODINGS: [&str; 3] = ["zstd", "br", "gzip"];

fn accepting(target: &str, codings: &str) -> Request {
    get(target).header("Accept-Encoding", codings)
}

fn encoding(response: &Response) -> &str {
    response.header("content-encoding").unwrap_or("none")
}

/// A curl that asks for this coding and decodes it. Its host is that of other requests, so that it
/// gets the same pages of the cache.
fn curl(server: &Server, target: &str, coding: &str) -> Command {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "-N", "-m", "120", "--compressed", "-H", "Host: localhost", "-H"])
        .arg(format!("Accept-Encoding: {coding}"))
        .arg(format!("http://{}{target}", server.address));
    curl
}

/// The body that curl makes of what comes.
fn decoded(server: &Server, target: &str, coding: &str) -> Vec<u8> {
    let output = curl(server, target, coding).output().expect("curl runs");
    assert!(output.status.success(), "{target}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn pages(kind: Kind) {
    let server = Setup::new(kind).start();
    for (length, is_stream) in [(60_000, false), (5_000_000, true)] {
        let target = format!("/large.php?bytes={length}");
        let plain = server.get(&target).expect(200);
        assert!(plain.body == numbered(length), "{target}");
        assert_eq!((encoding(&plain), plain.header("vary")), ("none", Some("Accept-Encoding")));
        for coding in CODINGS {
            let response = server.send(&accepting(&target, coding)).expect(200);
            assert_eq!(encoding(&response), coding);
            assert_eq!(response.header("vary"), Some("Accept-Encoding"));
            assert!(response.body.len() < length / 2, "{coding}: {}", response.body.len());
            assert_eq!(response.header("content-length").is_none(), is_stream, "{coding}");
            assert!(decoded(&server, &target, coding) == numbered(length), "{target} {coding}");
        }
    }
    for (why, request, expected) in [
        ("a browser", accepting("/large.php?bytes=600", "gzip, deflate, br, zstd"), "zstd"),
        ("a wish", accepting("/large.php?bytes=600", "zstd;q=0.1, br;q=0.3, gzip;q=0.2"), "br"),
        ("refusal", accepting("/large.php?bytes=600", "gzip;q=0"), "none"),
        ("of everything", accepting("/large.php?bytes=600", "identity;q=0, *;q=0"), "none"),
        ("a small one", accepting("/large.php?bytes=511", "gzip"), "none"),
        ("a range", accepting("/large.php?bytes=600", "gzip").header("Range", "bytes=0-9"), "none"),
    ] {
        assert_eq!(encoding(&server.send(&request).expect(200)), expected, "{why}");
    }
    heads_are_those_of_get(&server);
    let request = "GET /large.php?bytes=600 HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n";
    let mut connection = server.connect();
    connection.send(request);
    assert_eq!(encoding(&connection.response()), "none", "HTTP/1.0");
}

/// Also where the length decides, which only the body tells.
fn heads_are_those_of_get(server: &Server) {
    for length in [0, 1, 511, 512, 65_536, 65_537, 1_000_000] {
        for coding in ["gzip", "identity"] {
            let get = accepting(&format!("/large.php?bytes={length}"), coding);
            let mut head = get.clone();
            head.method = "HEAD".into();
            let [get, head] = [get, head].map(|request| server.send(&request).expect(200));
            // Nobody can tell an empty body from one that the application has dropped.
            for name in if length == 0 { &[][..] } else { &["content-encoding", "vary"] } {
                assert_eq!(head.header(name), get.header(name), "{length} {coding} {name}");
            }
            let known = encoding(&get) == "none" && (1..=65_536).contains(&length);
            let expected = get.header("content-length").filter(|_| known);
            assert_eq!(head.header("content-length"), expected, "{length} {coding}");
            assert!(head.body.is_empty());
        }
    }
    // Nobody waits for the body, but the script runs to its end.
    server.send(&Request::new("HEAD", "/long_after_flush.php?name=head")).expect(200);
    assert_eq!(server.state("end-head"), "0");
}

fn flushes(kind: Kind) {
    let server = Setup::new(kind).start();
    for coding in CODINGS {
        let target = format!("/flush_and_hold.php?name={coding}");
        let mut curl = curl(&server, &target, coding).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = curl.stdout.take().unwrap();
        let mut text = [0; 11];
        output.read_exact(&mut text).expect("the first words come while the script runs");
        assert_eq!(&text, b"first words", "{coding}");
        server.holds(coding);
        server.let_go(coding);
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, ", last words", "{coding}");
        assert!(curl.wait().unwrap().success());
    }
}

#[test]
fn files() {
    let server = Setup::new(Kind::Classic).site("sites/static").start();
    let root = server.places.root();
    fs::write(root.join("small.css"), numbered(5000)).unwrap();
    fs::write(root.join("large.css"), numbered(3_000_000)).unwrap();
    fs::write(root.join("picture.png"), numbered(5000)).unwrap();
    for (target, length) in [("/small.css", 5000), ("/large.css", 3_000_000)] {
        let plain = server.get(target).expect(200);
        let tag = plain.header("etag").expect("a file has a tag").to_owned();
        for coding in CODINGS {
            let response = server.send(&accepting(target, coding)).expect(200);
            assert_eq!(encoding(&response), coding, "{target}");
            assert_eq!(response.header("etag"), Some(format!("W/{tag}").as_str()));
            assert_eq!(response.header("accept-ranges"), None, "of the compressed body");
            assert_eq!(response.head.all("vary").collect::<Vec<_>>(), ["Accept-Encoding"]);
            assert!(decoded(&server, target, coding) == numbered(length), "{target} {coding}");
            let known = accepting(target, coding).header("If-None-Match", &format!("W/{tag}"));
            let known = server.send(&known).expect(304);
            assert_eq!(known.header("etag"), response.header("etag"));
        }
        let part = accepting(target, "gzip").header("Range", "bytes=16-31");
        let part = server.send(&part).expect(206);
        assert_eq!((part.text().as_str(), encoding(&part)), ("000000000000001\n", "none"));
        assert_eq!(part.header("etag"), Some(tag.as_str()));
    }
    let mut head = accepting("/small.css", "gzip");
    head.method = "HEAD".into();
    let head = server.send(&head).expect(200);
    assert_eq!((encoding(&head), head.header("content-length")), ("gzip", None));
    let get = server.send(&accepting("/small.css", "gzip")).expect(200);
    assert_eq!(head.header("etag"), get.header("etag"));
    assert_eq!(head.header("vary"), Some("Accept-Encoding"));
    assert_eq!(encoding(&server.send(&accepting("/picture.png", "gzip"))), "none");
    // A file that is compressed already costs nothing, and is sent as it is.
    fs::write(root.join("small.css.gz"), "compressed before").unwrap();
    let response = server.send(&accepting("/small.css", "gzip")).expect(200);
    assert_eq!((response.text().as_str(), encoding(&response)), ("compressed before", "gzip"));
    assert_eq!(response.header("accept-ranges"), Some("bytes"));
}

#[test]
fn a_site_and_its_routes_say_what_is_compressed() {
    let server = Setup::new(Kind::Classic)
        .site_line("compression = ['gzip', 'zstd']")
        .site_line("compression_smallest = 2000")
        .site_line("compression_cross_site = true")
        .site_line("[[site.route]]\npath = '/sub'\ncompression = false")
        .site_line("[[site.route]]\npath = '/types'\ncompression_types = 'image/*'")
        .start();
    let root = server.places.root();
    for directory in ["sub", "types"] {
        fs::create_dir(root.join(directory)).unwrap();
        fs::write(root.join(directory).join("a.txt"), numbered(5000)).unwrap();
    }
    fs::write(root.join("a.txt"), numbered(5000)).unwrap();
    fs::write(root.join("types/a.png"), numbered(5000)).unwrap();
    for (target, expected) in [
        ("/a.txt", "gzip"),
        ("/large.php?bytes=5000", "gzip"),
        ("/large.php?bytes=1999", "none"),
        ("/sub/a.txt", "none"),
        ("/types/a.txt", "none"),
        ("/types/a.png", "gzip"),
    ] {
        let request = accepting(target, "zstd, br, gzip")
            .header("Sec-Fetch-Site", "cross-site")
            .header("Cookie", "a=b");
        assert_eq!(encoding(&server.send(&request).expect(200)), expected, "{target}");
    }
}

#[test]
fn a_page_in_the_cache_is_compressed_once() {
    let setup = Setup::new(Kind::Classic).site("cache").site_line("cache = true");
    let server = metrics::start(setup);
    let compressed = || {
        let (_, text) = metrics::scrape(&server, "text/plain");
        let name = "tokamak_compression_input_bytes_total{encoding=\"zstd\"} ";
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{text}")).parse::<f64>().expect("a number")
    };
    for (length, sizes) in [(9000, "pieces=1&size=9000"), (900_000, "pieces=9&size=100000")] {
        let target = format!("/page.php?{sizes}&h%5B%5D=Cache-Control:max-age=60");
        let plain = server.get(&target).expect(200);
        assert!(plain.body.len() > length);
        let first = server.send(&accepting(&target, "zstd")).expect(200);
        assert_eq!(encoding(&first), "zstd");
        let once = compressed();
        for _ in 0..3 {
            let again = server.send(&accepting(&target, "zstd")).expect(200);
            assert!(again.body == first.body && encoding(&again) == "zstd");
            assert!(again.header("cache-status").unwrap_or_default().contains("; hit"));
        }
        assert_eq!(compressed(), once, "the page was compressed again");
        for coding in CODINGS {
            assert!(decoded(&server, &target, coding) == plain.body, "{coding}");
        }
        assert!(server.get(&target).body == plain.body);
    }
    let runs = fs::read_to_string(server.state_file("runs")).unwrap();
    assert_eq!(runs, "2", "a page ran again for a coding");
}

#[test]
fn a_client_that_leaves_does_no_harm() {
    let server = Setup::new(Kind::Classic).start();
    fs::write(server.places.root().join("large.txt"), numbered(30_000_000)).unwrap();
    for _ in 0..20 {
        let mut connection = server.connect();
        connection.send(accepting("/large.txt", "br").bytes());
        connection.read_byte().expect("the response begins");
    }
    assert!(decoded(&server, "/large.txt", "zstd") == numbered(30_000_000));
}

#[test]
fn mistakes_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let text = "[[site]]\ncompression = ['gzip', 'deflate']\ncompression_types = 'html'\n\
        compression_smallest = 0\n";
    fs::write(directory.path().join("tokamak.toml"), text).unwrap();
    fs::write(directory.path().join("index.php"), "").unwrap();
    let check = Command::new(crate::harness::program())
        .arg("check")
        .current_dir(directory.path())
        .output()
        .expect("tokamak runs");
    let said = String::from_utf8_lossy(&check.stderr).into_owned();
    assert!(!check.status.success());
    for part in [
        "tokamak.toml:2: site.compression: `deflate` is unknown; use zstd, br or gzip",
        "tokamak.toml:4: site.compression_smallest: 0 is out of bounds",
    ] {
        assert!(said.contains(part), "{said}");
    }
}
