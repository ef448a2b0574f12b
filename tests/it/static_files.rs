//! Files that are sent as they are, and files that must never be.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::harness::{Kind, Request, Server, Setup, check, get, on_tokamak_and_peer, post, row};

on_tokamak_and_peer! { types, ranges, conditions, directories, methods, large_files }

/// A site of files; what has an unusual name is made here.
fn start(kind: Kind) -> Server {
    let server = Setup::new(kind).site("sites/static").start();
    for (name, content) in [
        ("digits.txt", "0123456789"),
        ("empty.txt", ""),
        ("a b ü.txt", "spaces"),
        ("style.css", "body {}"),
        ("script.js", "let a;"),
        ("data.json", "{}"),
        ("picture.svg", "<svg/>"),
        ("picture.png", "png"),
        ("font.woff2", "font"),
        ("app.wasm", "wasm"),
        ("file.unknown", "unknown"),
        ("no_extension", "none"),
    ] {
        fs::write(server.places.root().join(name), content).unwrap();
    }
    server
}

fn types(kind: Kind) {
    let server = start(kind);
    for (path, expected) in [
        ("/", "text/html"),
        ("/index.html", "text/html"),
        ("/digits.txt", "text/plain"),
        ("/style.css?version=1", "text/css"),
        ("/script.js", "javascript"),
        ("/data.json", "application/json"),
        ("/picture.svg", "image/svg+xml"),
        ("/picture.png", "image/png"),
        ("/font.woff2", "font/woff2"),
        ("/app.wasm", "application/wasm"),
        ("/file.unknown", "application/octet-stream"),
        ("/no_extension", "application/octet-stream"),
        ("/empty.txt", "text/plain"),
        ("/a%20b%20%C3%BC.txt", "text/plain"),
    ] {
        let response = server.get(path).expect(200);
        let has = response.header("Content-Type").unwrap_or_default();
        assert!(has.contains(expected), "{path}: {has}");
        assert_eq!(
            response.header("Content-Length").unwrap(),
            response.body.len().to_string(),
            "{path}"
        );
        let head = server.send(&Request::new("HEAD", path)).expect(200);
        assert_eq!(head.header("Content-Length"), response.header("Content-Length"), "{path}");
        assert_eq!(head.header("Content-Type"), response.header("Content-Type"), "{path}");
    }
}

/// A header field would count more than what a page says of itself.
#[test]
fn pages_name_their_charset_themselves() {
    for (line, html, css) in [
        ("", "text/html", "text/css; charset=utf-8"),
        ("charset = 'off'", "text/html", "text/css"),
        ("charset = 'koi8-r'", "text/html; charset=koi8-r", "text/css; charset=koi8-r"),
    ] {
        let server = Setup::new(Kind::Classic).site("sites/static").site_line(line).start();
        fs::write(server.places.root().join("style.css"), "body {}").unwrap();
        for (path, expected) in [("/index.html", html), ("/style.css", css)] {
            let response = server.get(path).expect(200);
            assert_eq!(response.header("Content-Type"), Some(expected), "{line}: {path}");
        }
    }
}

fn ranges(kind: Kind) {
    let server = start(kind);
    let range = |range: &str| get("/digits.txt").header("Range", range);
    check(
        &server,
        vec![
            row("first", range("bytes=0-3"))
                .status(206)
                .body("0123")
                .header("Content-Range", "bytes 0-3/10"),
            row("one byte", range("bytes=9-9")).status(206).body("9"),
            row("open end", range("bytes=7-"))
                .status(206)
                .body("789")
                .header("Content-Range", "bytes 7-9/10"),
            row("suffix", range("bytes=-2"))
                .status(206)
                .body("89")
                .header("Content-Range", "bytes 8-9/10"),
            row("suffix beyond", range("bytes=-99")).status(206).body("0123456789"),
            row("end beyond", range("bytes=8-99")).status(206).body("89"),
            row("all", range("bytes=0-")).status(206).body("0123456789"),
            row("beyond", range("bytes=10-")).status(416).header("Content-Range", "bytes */10"),
            row("other unit", range("lines=1-2")).body("0123456789"),
            row("says that it can", get("/digits.txt")).header("Accept-Ranges", "bytes"),
            row("stale If-Range", range("bytes=0-3").header("If-Range", "\"other\""))
                .body("0123456789"),
        ],
    );
    let tag = server.get("/digits.txt").header("ETag").expect("a file has a tag").to_string();
    let response = server.send(&range("bytes=0-3").header("If-Range", &tag));
    assert_eq!(response.expect(206).text(), "0123");
    for garbage in ["bytes=x-3", "bytes", "bytes=", "bytes=5-2", "bytes=--1", "bytes=0-3-5"] {
        let response = server.send(&range(garbage));
        assert!(matches!(response.status(), 200 | 416), "{garbage}: {response}");
    }
}

fn conditions(kind: Kind) {
    let server = start(kind);
    let response = server.get("/digits.txt").expect(200);
    let tag = response.header("ETag").expect("a file has a tag").to_string();
    let date = response.header("Last-Modified").expect("a file has a date").to_string();
    let with = |name: &str, value: &str| get("/digits.txt").header(name, value);
    let future = "Tue, 01 Jan 2036 00:00:00 GMT";
    let past = "Sat, 01 Jan 2000 00:00:00 GMT";
    check(
        &server,
        vec![
            row("same tag", with("If-None-Match", &tag)).status(304).body("").header("ETag", &tag),
            row("weak tag", with("If-None-Match", &format!("W/{tag}"))).status(304),
            row("among others", with("If-None-Match", &format!("\"a\", {tag}"))).status(304),
            row("any tag", with("If-None-Match", "*")).status(304),
            row("other tag", with("If-None-Match", "\"other\"")).body("0123456789"),
            row("same date", with("If-Modified-Since", &date)).status(304).body(""),
            row("older date", with("If-Modified-Since", past)).body("0123456789"),
            row("no date", with("If-Modified-Since", "yesterday")).body("0123456789"),
            row(
                "tag before date",
                with("If-None-Match", "\"other\"").header("If-Modified-Since", &date),
            ),
            row("condition to write fails", with("If-Match", "\"other\"")).status(412),
            row("condition to write holds", with("If-Match", &tag)),
            row("unmodified since then", with("If-Unmodified-Since", past)).status(412),
            row("unmodified", with("If-Unmodified-Since", future)),
        ],
    );
    fs::write(server.places.root().join("digits.txt"), "changed").unwrap();
    assert_eq!(server.send(&with("If-None-Match", &tag)).expect(200).text(), "changed");
}

fn directories(kind: Kind) {
    let server = start(kind);
    fs::create_dir(server.places.root().join("without")).unwrap();
    check(&server, vec![row("index", get("/docs/")).contains("<title>Docs</title>")]);
    let moved = server.get("/docs?a=b").expect(301);
    let to = moved.header("Location").unwrap_or_default();
    assert!(to.ends_with("/docs/?a=b") || to.ends_with("/docs/"), "{to}");
    let hostile = server.get("//evil.example/..//docs");
    let to = hostile.header("Location").unwrap_or_default();
    assert!(!to.starts_with("//"), "redirects to another server: {to}");
    let without = server.get("/without/");
    assert!(matches!(without.status(), 403 | 404), "a directory is listed: {without}");
}

fn methods(kind: Kind) {
    let server = start(kind);
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let response = server.send(&Request::new(method, "/digits.txt"));
        assert_eq!(response.status(), 405, "{method}");
    }
    let response = server.send(&post("/digits.txt", "text/plain", "x"));
    assert!(!response.text().contains("0123456789"), "{response}");
}

fn large_files(kind: Kind) {
    let server = start(kind);
    let content = crate::harness::numbered(20 << 20);
    fs::write(server.places.root().join("large.bin"), &content).unwrap();
    let mut connection = server.connect();
    assert!(connection.exchange(&get("/large.bin")).expect(200).body == content);
    let part = connection
        .exchange(&get("/large.bin").header("Range", "bytes=10000000-15999999"))
        .expect(206);
    assert!(part.body == content[10_000_000..16_000_000]);
    let tail = connection.exchange(&get("/large.bin").header("Range", "bytes=-5")).expect(206);
    assert_eq!(tail.body, content[content.len() - 5..]);
}

/// A file with a compressed file beside it is sent compressed to those who can read it.
#[test]
fn precompressed_variants() {
    let server = start(Kind::Classic);
    let root = server.places.root();
    for (name, content) in [
        ("packed.css", "as it is"),
        ("packed.css.gz", "gzip variant"),
        ("packed.css.br", "brotli variant"),
        ("single.js", "as it is"),
        ("single.js.gz", "gzip variant"),
    ] {
        fs::write(root.join(name), content).unwrap();
    }
    let accept = |path: &str, coding: &str| get(path).header("Accept-Encoding", coding);
    check(
        &server,
        vec![
            row("none wanted", get("/packed.css"))
                .body("as it is")
                .headers("Content-Encoding", &[]),
            row("brotli is better", accept("/packed.css", "gzip, deflate, br"))
                .body("brotli variant")
                .header("Content-Encoding", "br"),
            row("gzip", accept("/packed.css", "gzip"))
                .body("gzip variant")
                .header("Content-Encoding", "gzip")
                .header("Vary", "Accept-Encoding"),
            row("the only variant", accept("/single.js", "br, gzip")).body("gzip variant"),
            row("refused", accept("/packed.css", "gzip;q=0, br;q=0")).body("as it is"),
            row("unknown coding", accept("/packed.css", "zstd")).body("as it is"),
            row("no variant", accept("/digits.txt", "gzip, br")).headers("Content-Encoding", &[]),
        ],
    );
    let types = accept("/packed.css", "gzip");
    assert!(
        server.send(&types).header("Content-Type").is_some_and(|kind| kind.starts_with("text/css"))
    );
}

/// Nothing outside the root and nothing hidden is ever sent, however the path is written.
#[test]
fn paths_that_lead_elsewhere() {
    let server = start(Kind::Classic);
    let root = server.places.root();
    fs::write(server.places.top().join("outside.txt"), "kept secret").unwrap();
    for hidden in [".env", ".htaccess", ".git/config", "docs/.secret"] {
        fs::create_dir_all(root.join(hidden).parent().unwrap()).unwrap();
        fs::write(root.join(hidden), "kept secret").unwrap();
    }
    for path in [
        "/../outside.txt",
        "/docs/../../outside.txt",
        "/%2e%2e/outside.txt",
        "/%2E%2E/outside.txt",
        "/..%2foutside.txt",
        "/..%2Foutside.txt",
        "/docs%2f..%2f..%2foutside.txt",
        "/.%2e/outside.txt",
        "/....//outside.txt",
        "/..;/outside.txt",
        "/..%5coutside.txt",
        "/..\\outside.txt",
        "/%252e%252e/outside.txt",
        "/%c0%ae%c0%ae/outside.txt",
        "/..%00/outside.txt",
        "/outside.txt%00.html",
        "/./../outside.txt",
        "//../outside.txt",
        "/docs/%2e%2e/%2e%2e/outside.txt",
        "http://localhost/../outside.txt",
        "/.env",
        "/%2eenv",
        "/.htaccess",
        "/.git/config",
        "/docs/.secret",
        "/docs/../.env",
        "/.env/",
        "/.env?x",
        "//.env",
    ] {
        let response = server.get(path);
        assert!(matches!(response.status(), 400 | 403 | 404), "{path}: {response}");
        assert!(!response.text().contains("kept secret"), "{path} was sent");
    }
    fs::create_dir_all(root.join(".well-known")).unwrap();
    fs::write(root.join(".well-known/token"), "for the certificate").unwrap();
    assert_eq!(server.text("/.well-known/token"), "for the certificate");
}

/// PHP source is never sent, whatever the file is called and however the path is written.
#[test]
fn source_is_never_sent() {
    let server = start(Kind::Classic);
    for name in [
        "shout.PHP",
        "mixed.Php",
        "old.phtml",
        "archive.phar",
        "saved.php.bak",
        "saved.php~",
        "seven.php7",
    ] {
        fs::write(server.places.root().join(name), "<?php // source").unwrap();
    }
    for path in [
        "/shout.PHP",
        "/mixed.Php",
        "/old.phtml",
        "/archive.phar",
        "/saved.php.bak",
        "/saved.php~",
        "/seven.php7",
        "/script.PHP",
        "/script.php.",
        "/script.php%20",
        "/script.php%00",
        "/script.php%00.txt",
        "/script.php::$DATA",
        "/script.phps",
        "/script.php%2f",
        "/script%2ephp",
        "/./script.php",
        "//script.php",
        "/script.php/",
        "/script.php/style.css",
        "/script.php;.css",
        "/digits.txt/x.php",
        "/digits.txt/.php",
    ] {
        for request in
            [get(path), get(path).header("Range", "bytes=0-100"), Request::new("PUT", path)]
        {
            let response = server.send(&request);
            let text = response.text();
            assert!(
                !text.contains("<?php") && !text.contains("// source"),
                "{path} was sent: {response}"
            );
            assert!(text.starts_with("run ") || response.status() >= 400, "{path}: {response}");
        }
    }
    assert_eq!(server.text("/script.php/style.css"), "run /style.css");
}

/// What is missing is 404, what may not be read 403; both with a plain page, and a line in the log.
#[test]
fn missing_and_unreadable() {
    let server = start(Kind::Classic);
    let root = server.places.root();
    for name in ["locked.php", "locked.txt"] {
        fs::write(root.join(name), "<?php // source").unwrap();
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(0o000)).unwrap();
    }
    for (path, status) in [
        ("/missing.php", 404),
        ("/missing.txt", 404),
        ("/docs/missing", 404),
        ("/locked.php", 403),
        ("/locked.txt", 403),
    ] {
        let response = server.get(path).expect(status);
        assert!(
            response.text().len() < 2000 && !response.text().contains("source"),
            "{path}: {response}"
        );
        assert!(
            !response.text().contains(root.to_str().unwrap()),
            "{path}: the page tells where the site is"
        );
    }
    server.log_line(&["/missing.php"]);
    for name in ["locked.php", "locked.txt"] {
        server.log_line(&["Permission denied", root.join(name).to_str().unwrap()]);
    }
}

#[test]
fn a_folder_is_never_listed() {
    for (lines, status) in
        [("", 404), ("[[site.rule]]\npath = \"/private\"\nserve = \"existing\"", 403)]
    {
        let server = Setup::new(Kind::Classic).site("sites/static").site_line(lines).start();
        let folder = server.places.root().join("private");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("letter-to-anna.txt"), "Dear Anna").unwrap();
        assert_eq!(server.text("/private/letter-to-anna.txt"), "Dear Anna");
        for target in ["/private/", "/private", "/private/.", "//private//"] {
            let answer = server.get(target);
            assert!(!answer.text().contains("anna"), "{target}: {answer}");
            let is_redirected = status == 403 && target == "/private";
            assert_eq!(answer.status(), if is_redirected { 301 } else { status }, "{target}");
        }
    }
}
