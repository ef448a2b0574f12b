use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const LARGEST_HEAD: usize = 1000;

/// What becomes of a response that comes in these pieces on a connection that then ends.
#[derive(Debug, PartialEq)]
struct Seen {
    interim: Vec<u16>,
    head: Head,
    body: Vec<u8>,
    keeps: bool,
    /// Bytes behind its end.
    left: usize,
}

fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Seen, String> {
    decode_with(Decoder::new(false, LARGEST_HEAD), pieces)
}

fn decode_with<'a>(
    mut decoder: Decoder,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Seen, String> {
    let (mut interim, mut head, mut body) = (Vec::new(), Head::default(), Vec::new());
    let mut input = Vec::new();
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            let (framing, part) = decoder.next(&input).map_err(|fault| fault.to_string())?;
            input.drain(..framing);
            match part {
                Part::Partial | Part::End => break,
                Part::Interim(head) => interim.push(head.status),
                Part::Head(found) => head = found,
                Part::Body(count) => body.extend(input.drain(..count)),
            }
        }
    }
    decoder.close().map_err(|fault| fault.to_string())?;
    Ok(Seen { interim, head, body, keeps: decoder.keeps(), left: input.len() })
}

fn body(text: &str) -> Result<(String, bool, usize), String> {
    let seen = decode([text.as_bytes()])?;
    Ok((String::from_utf8(seen.body).unwrap(), seen.keeps, seen.left))
}

#[track_caller]
fn gives(text: &str, expected: &str, keeps: bool) {
    assert_eq!(body(text), Ok((expected.to_owned(), keeps, 0)), "{text:?}");
}

#[track_caller]
fn fails(text: &str, reason: &str) {
    let problem = body(text).expect_err(text);
    assert!(problem.contains(reason), "{text:?}: {problem}");
}

#[test]
fn a_head_is_status_and_fields() {
    let text = b"HTTP/1.1 404 Not Found\r\nX-One: a b\t\r\nContent-Length: 0\r\nx-one:\xff\r\n\r\n";
    let seen = decode([&text[..]]).unwrap();
    assert_eq!((seen.head.status, &seen.head.reason[..]), (404, "Not Found"));
    assert_eq!(seen.head.pairs().nth(1), Some((&b"content-length"[..], &b"0"[..])));
    assert_eq!(seen.head.pairs().count(), 3);
    assert_eq!(seen.head.fields, b"x-one\na b\ncontent-length\n0\nx-one\n\xff\n");
}

#[test]
fn bodies_end_where_their_framing_says() {
    gives("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", "ab", true);
    gives("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2, 2\r\n\r\nab", "ab", true);
    gives("HTTP/1.1 200 OK\r\n\r\nab", "ab", false);
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n";
    gives(&format!("{chunked}1\r\na\r\n0A;x=y\r\n0123456789\r\n0\r\n\r\n"), "a0123456789", true);
    gives(&format!("{chunked}0\r\nX: y\r\nZ: \r\n\r\n"), "", true);
    gives("HTTP/1.1 204 None\r\nContent-Length: 5\r\n\r\n", "", true);
    gives("HTTP/1.1 304 Same\r\nTransfer-Encoding: chunked\r\n\r\n", "", true);
    let for_head = decode_with(
        Decoder::new(true, 100),
        [&b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"[..]],
    );
    assert_eq!(for_head.map(|seen| (seen.body, seen.keeps)), Ok((vec![], true)));
}

#[test]
fn connections_are_kept_as_the_peer_says() {
    let empty = |head: &str| format!("HTTP/{head}\r\nContent-Length: 0\r\n\r\n");
    gives(&empty("1.1 200 OK\r\nConnection: x, Close"), "", false);
    gives(&empty("1.1 200 OK\r\nConnection: close, keep-alive"), "", false);
    gives(&empty("1.1 200 OK\r\nConnection: keep-alive"), "", true);
    gives(&empty("1.0 200 OK"), "", false);
    gives(&empty("1.0 200 OK\r\nConnection: Keep-Alive"), "", true);
    // Some would see the length, and the rest as another response.
    gives(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
        "",
        false,
    );
}

#[test]
fn interim_responses_come_before() {
    let hints = "HTTP/1.1 103 Hints\r\nLink: x\r\nContent-Length: 9\r\n\r\n";
    let fine = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab";
    gives(&format!("{hints}HTTP/1.1 100 Go\r\n\r\n{fine}"), "ab", true);
    assert_eq!(
        decode([&b"HTTP/1.1 103 A\r\n\r\nHTTP/1.1 102 B\r\n\r\nHTTP/1.1 204 C\r\n\r\n"[..]])
            .unwrap()
            .interim,
        [103, 102]
    );
    fails("HTTP/1.1 101 Switch\r\n\r\n", "changes the protocol");
    fails("HTTP/1.1 099 Odd\r\n\r\n", "malformed");
}

#[test]
fn what_is_behind_the_end_is_left() {
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabHTTP/1.1 200 OK\r\n\r\n";
    assert_eq!(body(text), Ok(("ab".to_owned(), true, 19)));
}

#[test]
fn framing_that_could_be_read_differently_is_refused() {
    for lengths in [
        "2\r\nContent-Length: 3",
        "2, 3",
        "+2",
        "-1",
        "0x2",
        "",
        "2 2",
        "99999999999999999999",
        "2,",
    ] {
        fails(
            &format!("HTTP/1.1 200 OK\r\nContent-Length: {lengths}\r\n\r\nab"),
            "length is unclear",
        );
    }
    for encoding in [
        "gzip",
        "gzip, chunked",
        "chunked, chunked",
        "chunked\r\nTransfer-Encoding: chunked",
        "identity",
        "",
    ] {
        fails(
            &format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {encoding}\r\n\r\n0\r\n\r\n"),
            "encoding is unknown",
        );
    }
    fails("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "encoding is unknown");
    for chunks in [
        "\r\n",
        "x\r\n",
        "-1\r\n",
        " 1\r\na\r\n",
        "1\na\r\n",
        "1;\nx\r\na\r\n0\r\n\r\n",
        "1\r\nab\r\n",
        "1\r\na\n0\r\n\r\n",
        "11111111111111111\r\n",
        "0\r\n\n",
        "0\r\nX: y\n\r\n",
    ] {
        fails(
            &format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"),
            "chunks are malformed",
        );
    }
}

#[test]
fn what_breaks_off_or_is_no_http_is_refused() {
    for text in [
        "",
        "HTTP/1.1 20",
        "HTTP/1.1 200 OK\r\nX: y\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na",
    ] {
        fails(text, "breaks off");
    }
    for chunks in ["", "1", "1\r\na", "1\r\na\r\n", "0\r\n", "0\r\nX: y\r\n"] {
        fails(
            &format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"),
            "breaks off",
        );
    }
    for text in [
        "\r\nHTTP/1.1 200 OK\r\n\r\n",
        "SSH-2.0-x\r\n",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX : y\r\n\r\n",
    ] {
        fails(text, "malformed");
    }
}

#[test]
fn nothing_grows_without_bounds() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let large = "x".repeat(1000);
    fails(&format!("{chunked}1;{large}{large}"), "chunks are malformed");
    fails(&format!("{chunked}0\r\n{}", "x: y\r\n".repeat(3000)), "chunks are malformed");
    fails(&format!("{chunked}0\r\n{}", "x".repeat(17_000)), "chunks are malformed");
    fails(&format!("HTTP/1.1 200 OK\r\n{}", "x: y\r\n".repeat(101)), "malformed");
    fails(&format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(LARGEST_HEAD)), "malformed");
    fails(&format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(LARGEST_HEAD)), "malformed");
}

/// Pieces of bytes by where they are cut.
fn pieces<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

proptest! {
    #[test]
    fn chunks_give_what_was_sent(
        parts in vec(vec(any::<u8>(), 1..40), 0..8),
        extension in "(;[a-z=]{0,9})?",
        cuts in vec(any::<usize>(), 0..30),
    ) {
        let mut text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for part in &parts {
            text.extend_from_slice(format!("{:x}{extension}\r\n", part.len()).as_bytes());
            text.extend_from_slice(part);
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(b"0\r\nA: b\r\n\r\n");
        let seen = decode(pieces(&text, &cuts)).unwrap();
        prop_assert_eq!(seen.body, parts.concat());
        prop_assert!(seen.keeps && seen.left == 0);
    }

    #[test]
    fn cuts_change_nothing(
        lines in vec("(content-length: [0-9]{1,3}|transfer-encoding: chunked|connection: close|[ \
            -~]{0,20})", 0..4),
        rest in "([0-9a-f]{1,2}(;x)?\r?\n?|[a-z]{0,9}|\r\n|HTTP/1.1 200 OK\r\n\r\n){0,6}",
        cuts in vec(any::<usize>(), 0..30),
    ) {
        let fields: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        let text = format!("HTTP/1.1 200 OK\r\n{fields}\r\n{rest}");
        let whole = decode([text.as_bytes()]);
        let cut = decode(pieces(text.as_bytes(), &cuts));
        prop_assert_eq!(cut, whole);
    }

    #[test]
    fn any_bytes_are_judged(bytes in vec(any::<u8>(), 0..300), is_head in any::<bool>()) {
        let _ = decode_with(Decoder::new(is_head, LARGEST_HEAD), [&b"HTTP/1.1 200 "[..], &bytes]);
    }
}
