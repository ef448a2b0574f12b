use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use http::HeaderName;
use tempfile::TempDir;

use super::*;

const TIME: u64 = 1_795_176_000;

fn write(dir: &TempDir, name: &str, content: impl AsRef<[u8]>, time: u64) {
    let path = dir.path().join(name);
    fs::write(&path, content).unwrap();
    let file = fs::File::options().append(true).open(&path).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_secs(time)).unwrap();
}

fn found(dir: &TempDir, name: &str) -> OpenFile {
    match open(&dir.path().join(name)) {
        Ok(Opened::Regular(found)) => found,
        other => panic!("{other:?}"),
    }
}

fn ask(dir: &TempDir, name: &str, method: &str, lines: &[&str]) -> Result<FileResponse, Failure> {
    let headers = lines.iter().map(|line| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())
    });
    plan(found(dir, name), &method.parse().unwrap(), &headers.collect(), &FileCharset::UnlessNamed)
}

fn body(plan: &mut FileResponse) -> Vec<u8> {
    match &mut plan.body {
        Body::Empty => Vec::new(),
        Body::Bytes(bytes) => bytes.to_vec(),
        Body::Files(slices) => {
            let mut all = Vec::new();
            while slices.left() > 0 {
                all.extend_from_slice(&slices.read(10_000).unwrap());
            }
            all
        }
    }
}

/// Status, the body and the headers that are asked for, which must be there.
fn shown<const N: usize>(
    plan: &mut FileResponse,
    names: [HeaderName; N],
) -> (u16, Vec<u8>, [String; N]) {
    let headers = names.map(|name| plan.headers[name].to_str().unwrap().to_owned());
    (plan.status.as_u16(), body(plan), headers)
}

#[test]
fn a_file_is_sent_with_all_that_caches_need() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "a.txt", "hello", TIME);
    let names = [CONTENT_TYPE, CONTENT_LENGTH, ETAG, LAST_MODIFIED, ACCEPT_RANGES, VARY];
    let values = [
        "text/plain; charset=utf-8",
        "5",
        "\"6b003640-5\"",
        "Fri, 20 Nov 2026 12:00:00 GMT",
        "bytes",
        "Accept-Encoding",
    ]
    .map(str::to_owned);
    let mut get = ask(&dir, "a.txt", "GET", &[]).unwrap();
    assert_eq!(shown(&mut get, names.clone()), (200, b"hello".to_vec(), values.clone()));
    let mut head = ask(&dir, "a.txt", "HEAD", &["Range: bytes=0-1"]).unwrap();
    assert_eq!(shown(&mut head, names), (200, Vec::new(), values));
}

#[test]
fn other_methods_get_405_with_allow() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "a.txt", "hello", TIME);
    for method in ["POST", "PUT", "DELETE", "PATCH", "PROPFIND"] {
        assert_eq!(
            ask(&dir, "a.txt", method, &[]).unwrap_err(),
            Failure::MethodNotAllowed,
            "{method}"
        );
    }
    let mut options = ask(&dir, "a.txt", "OPTIONS", &[]).unwrap();
    assert_eq!(shown(&mut options, [ALLOW]), (204, Vec::new(), ["GET, HEAD, OPTIONS".to_owned()]));
}

#[test]
fn large_files_are_streamed_and_small_ones_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..200_000_u32).map(|number| number as u8).collect();
    write(&dir, "large.bin", &content, TIME);
    write(&dir, "small.bin", &content[..65_536], TIME);
    write(&dir, "empty.bin", "", TIME);
    let mut large = ask(&dir, "large.bin", "GET", &[]).unwrap();
    assert!(matches!(&large.body, Body::Files(slices) if slices.left() == 200_000));
    assert!(!large.headers.contains_key(VARY), "nobody compresses this");
    assert_eq!(body(&mut large), content);
    let mut small = ask(&dir, "small.bin", "GET", &[]).unwrap();
    assert!(matches!(small.body, Body::Bytes(_)));
    assert_eq!(body(&mut small), content[..65_536]);
    let mut empty = ask(&dir, "empty.bin", "GET", &[]).unwrap();
    assert_eq!(shown(&mut empty, [CONTENT_LENGTH]), (200, Vec::new(), ["0".to_owned()]));
    let mut part = ask(&dir, "large.bin", "GET", &["Range: bytes=1000-199998"]).unwrap();
    assert!(matches!(part.body, Body::Files(_)));
    assert_eq!(body(&mut part), content[1000..199_999]);
}

#[test]
fn conditions_come_before_ranges() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "a.txt", "0123456789", TIME);
    const TAG: &str = "\"6b003640-a\"";
    const RANGE: &str = "Range: bytes=2-3";
    let mut not_modified =
        ask(&dir, "a.txt", "GET", &[&format!("If-None-Match: {TAG}"), RANGE]).unwrap();
    assert_eq!(shown(&mut not_modified, [ETAG]), (304, Vec::new(), [TAG.to_owned()]));
    assert!(
        not_modified.headers.contains_key(VARY)
            && !not_modified.headers.contains_key(CONTENT_LENGTH)
    );
    let failed = ask(&dir, "a.txt", "GET", &["If-Match: \"other\"", RANGE]).unwrap_err();
    assert_eq!(failed, Failure::PreconditionFailed);

    let mut part = ask(&dir, "a.txt", "GET", &[&format!("If-Range: {TAG}"), RANGE]).unwrap();
    let expected = ["bytes 2-3/10".to_owned(), "2".to_owned()];
    assert_eq!(shown(&mut part, [CONTENT_RANGE, CONTENT_LENGTH]), (206, b"23".to_vec(), expected));
    let mut whole = ask(&dir, "a.txt", "GET", &["If-Range: \"other\"", RANGE]).unwrap();
    assert_eq!(
        shown(&mut whole, [CONTENT_LENGTH]),
        (200, b"0123456789".to_vec(), ["10".to_owned()])
    );
}

#[test]
fn an_unsatisfiable_range_gets_416_with_the_length() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "a.txt", "0123456789", TIME);
    let mut plan = ask(&dir, "a.txt", "GET", &["Range: bytes=10-"]).unwrap();
    let (status, page, headers) = shown(&mut plan, [CONTENT_RANGE, CONTENT_TYPE, CONTENT_LENGTH]);
    assert_eq!(status, 416);
    assert_eq!(headers, ["bytes */10", "text/html; charset=utf-8", &page.len().to_string()]);
}

#[test]
fn several_ranges_come_as_parts() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "a.txt", "0123456789", TIME);
    let mut plan = ask(&dir, "a.txt", "GET", &["Range: bytes=0-1,-3"]).unwrap();
    let (status, body, [kind, length]) = shown(&mut plan, [CONTENT_TYPE, CONTENT_LENGTH]);
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let part = |range| {
        format!(
            "--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: \
                {range}\r\n\r\n"
        )
    };
    let expected =
        format!("{}01\r\n{}789\r\n--{boundary}--\r\n", part("bytes 0-1/10"), part("bytes 7-9/10"));
    assert_eq!((status, String::from_utf8(body).unwrap()), (206, expected.clone()));
    assert_eq!(length, expected.len().to_string());
}

#[test]
fn a_compressed_file_is_sent_if_the_client_takes_it() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "a.css", "plain", TIME);
    write(&dir, "a.css.br", "brotli", TIME);
    write(&dir, "a.css.gz", "gzip!", TIME + 5);
    write(&dir, "a.css.zst", "stale", TIME - 1);
    let names = [CONTENT_TYPE, CONTENT_LENGTH, VARY];
    let common =
        |length: &str| ["text/css; charset=utf-8", length, "Accept-Encoding"].map(str::to_owned);
    for (accept, content, coding) in [
        ("br, gzip", "brotli", Some("br")),
        ("gzip", "gzip!", Some("gzip")),
        ("zstd", "plain", None),
        ("identity", "plain", None),
        ("br;q=0", "plain", None),
    ] {
        let mut plan = ask(&dir, "a.css", "GET", &[&format!("Accept-Encoding: {accept}")]).unwrap();
        let length = content.len().to_string();
        assert_eq!(
            shown(&mut plan, names.clone()),
            (200, content.into(), common(&length)),
            "{accept}"
        );
        assert_eq!(
            plan.headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap()),
            coding,
            "{accept}"
        );
    }
    // Each representation has a tag of its own, and conditions and ranges are about the one that is
    // sent.
    let tags: std::collections::HashSet<_> = ["br", "gzip", "identity"]
        .map(|accept| {
            ask(&dir, "a.css", "GET", &[&format!("Accept-Encoding: {accept}")]).unwrap().headers
                [ETAG]
                .clone()
        })
        .into();
    assert_eq!(tags.len(), 3);
    let mut part = ask(&dir, "a.css", "GET", &["Accept-Encoding: br", "Range: bytes=0-2"]).unwrap();
    assert_eq!(
        shown(&mut part, [CONTENT_RANGE]),
        (206, b"bro".to_vec(), ["bytes 0-2/6".to_owned()])
    );
}

#[test]
fn a_compressed_file_beside_an_image_is_no_variant() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "a.png", "plain", TIME);
    write(&dir, "a.png.gz", "gzip", TIME);
    let mut plan = ask(&dir, "a.png", "GET", &["Accept-Encoding: gzip"]).unwrap();
    assert_eq!(body(&mut plan), b"plain");
    let mut direct = ask(&dir, "a.png.gz", "GET", &["Accept-Encoding: gzip"]).unwrap();
    assert_eq!(
        shown(&mut direct, [CONTENT_TYPE]),
        (200, b"gzip".to_vec(), ["application/gzip".to_owned()])
    );
}

#[test]
fn a_response_carries_the_plan() {
    struct Length(usize);
    impl From<Body> for Length {
        fn from(body: Body) -> Length {
            match body {
                Body::Bytes(bytes) => Length(bytes.len()),
                Body::Empty | Body::Files(_) => Length(0),
            }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "a.txt", "hello", TIME);
    assert!(open(Path::new("a.txt")).is_err(), "paths are not relative to anything");
    let request = Request::get("/a.txt").header("Range", "bytes=1-3").body(()).unwrap();
    let response: Response<Length> =
        respond(found(&dir, "a.txt"), &request, &FileCharset::None).unwrap();
    assert_eq!((response.status().as_u16(), response.body().0), (206, 3));
    assert_eq!(response.headers()[CONTENT_LENGTH], "3");
}
