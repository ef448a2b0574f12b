//! What passes, what does not, and that neither depends on how the bytes are split.

mod library;
mod shapes;

use proptest::prelude::*;

use super::{Limits, Progress, Screen, Violation};

const LIMITS: Limits = Limits { head: 2048, fields: 20, body: 1000 };

fn feed_all<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> (Result<(), Violation>, Screen) {
    let mut screen = Screen::new(LIMITS);
    let mut verdict = Ok(());
    for part in parts {
        verdict = screen.feed(part);
        if verdict.is_err() {
            break;
        }
    }
    (verdict, screen)
}

fn judge(bytes: &[u8]) -> Result<(), Violation> {
    feed_all([bytes]).0
}

/// The verdict, asserted to be the same for the whole, for single bytes and for every cut in two.
fn judge_split(bytes: &[u8]) -> Result<(), Violation> {
    let (whole, screen) = feed_all([bytes]);
    let (single, slow) = feed_all(bytes.chunks(1));
    assert_eq!(whole, single, "{}", bytes.escape_ascii());
    if whole.is_ok() {
        assert_eq!(
            (screen.part(), screen.body()),
            (slow.part(), slow.body()),
            "{}",
            bytes.escape_ascii()
        );
    }
    for cut in 0..bytes.len() {
        let (left, right) = bytes.split_at(cut);
        assert_eq!(
            whole,
            feed_all([left, right]).0,
            "{} | {}",
            left.escape_ascii(),
            right.escape_ascii()
        );
    }
    whole
}

#[test]
fn the_phase_follows_the_message() {
    let mut screen = Screen::new(LIMITS);
    let mut say = |bytes: &[u8]| {
        screen.feed(bytes).unwrap();
        (screen.part(), screen.body())
    };
    assert_eq!(say(b""), (Progress::Idle, 0));
    assert_eq!(say(b"\r\n"), (Progress::Idle, 0));
    assert_eq!(say(b"P"), (Progress::Head, 0));
    assert_eq!(say(b"OST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"), (Progress::Head, 0));
    assert_eq!(say(b"\r\n"), (Progress::Body, 0));
    assert_eq!(say(b"hel"), (Progress::Body, 3));
    assert_eq!(say(b"lo"), (Progress::Idle, 5));
    assert_eq!(
        say(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n"),
        (Progress::Body, 0)
    );
    assert_eq!(say(b"3;a=\"b\"\r\nabc\r\n0A\r\n0123456789\r\n"), (Progress::Body, 13));
    assert_eq!(say(b"0\r\nX-Sum: 1\r\n"), (Progress::Body, 13));
    assert_eq!(say(b"\r\n"), (Progress::Idle, 13));
    assert_eq!(say(b"GET / HTTP/1.0\r\n\r\n"), (Progress::Idle, 0));
}

#[test]
fn complete_requests_before_a_violation_are_counted() {
    let good = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: \
        2\r\n\r\nab";
    let mut screen = Screen::new(LIMITS);
    let mut both = good.to_vec();
    both.extend_from_slice(b"GET / HTTP/1.1\nHost: a\r\n\r\n");
    assert_eq!(screen.feed(&both), Err(Violation::BareLf));
    assert_eq!(screen.clean(), good.len());
    assert_eq!(
        screen.feed(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        Err(Violation::BareLf),
        "no way back"
    );
}

#[test]
fn limits_are_met_exactly() {
    let head = |pad: usize| {
        let mut head = b"GET / HTTP/1.1\r\nHost: a\r\nX: ".to_vec();
        head.resize(pad - 4, b'x');
        head.extend_from_slice(b"\r\n\r\n");
        assert_eq!(head.len(), pad);
        head
    };
    assert_eq!(judge_split(&head(LIMITS.head)), Ok(()));
    assert_eq!(judge_split(&head(LIMITS.head + 1)), Err(Violation::HeadTooLarge));
    let two = [head(LIMITS.head), head(LIMITS.head)].concat();
    assert_eq!(judge(&two), Ok(()), "the limit is for each head");

    let fields = |count: usize| {
        let more = "X: y\r\n".repeat(count - 1);
        format!("GET / HTTP/1.1\r\nHost: a\r\n{more}\r\n").into_bytes()
    };
    assert_eq!(judge_split(&fields(LIMITS.fields)), Ok(()));
    assert_eq!(judge_split(&fields(LIMITS.fields + 1)), Err(Violation::TooManyFields));

    let line = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(LIMITS.head));
    assert_eq!(judge_split(line.as_bytes()), Err(Violation::TargetTooLong));

    let mut wide = Screen::new(Limits { head: 1 << 20, ..LIMITS });
    let line = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(65_533));
    assert_eq!(wide.feed(line.as_bytes()), Ok(()));
    let line = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(65_534));
    assert_eq!(wide.feed(line.as_bytes()), Err(Violation::TargetTooLong));
}

#[test]
fn what_the_library_refuses_is_encoded_wherever_the_read_ends() {
    let sent = b"GET /\"`?\"`<> HTTP/1.1\r\nHost: a\r\nX: \"`<\r\n\r\nGET /`>?a=\" HTTP/1.2\r\n";
    let passed = "GET /\"%60?%22`%3C%3E HTTP/1.1\r\nHost: a\r\nX: \"`<\r\n\r\n\
                  GET /%60%3E?a=%22 HTTP/1.1\r\n";
    for size in 1..=sent.len() {
        let mut screen = Screen::new(LIMITS);
        let mut whole = Vec::new();
        for read in sent.chunks(size) {
            screen.feed(read).unwrap();
            whole.extend_from_slice(&screen.encode(read));
        }
        assert_eq!(String::from_utf8(whole).unwrap(), passed, "reads of {size} bytes");
    }
}

#[test]
fn an_encoded_byte_counts_as_three() {
    let line = |path: usize, query: usize, plain: usize| {
        let (path, query, plain) = ("`".repeat(path), "\"".repeat(query), "x".repeat(plain));
        format!("GET /{path}?{query}{plain} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
    };
    let room = LIMITS.head - line(0, 0, 0).len();
    let (count, rest) = (room / 3, room % 3);
    assert_eq!(judge_split(&line(100, count - 100, rest)), Ok(()));
    assert_eq!(judge_split(&line(100, count - 100, rest + 1)), Err(Violation::HeadTooLarge));
    assert_eq!(judge_split(&line(100, LIMITS.head / 3, 0)), Err(Violation::TargetTooLong));
}

#[test]
fn body_limits_are_met_exactly() {
    let sized =
        |length: u64| format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
    assert_eq!(judge_split(sized(LIMITS.body).as_bytes()), Ok(()));
    assert_eq!(judge_split(sized(LIMITS.body + 1).as_bytes()), Err(Violation::BodyTooLarge));

    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunked = |more: &str| format!("{head}3E7\r\n{}\r\n{more}", "x".repeat(999)).into_bytes();
    assert_eq!(judge(&chunked("1\r\nx\r\n0\r\n\r\n")), Ok(()));
    assert_eq!(judge(&chunked("2\r\n")), Err(Violation::BodyTooLarge), "before the data comes");
    assert_eq!(judge(&chunked("FFFFFFFFFFFFFFFF\r\n")), Err(Violation::BodyTooLarge));

    let extension =
        |length: usize| format!("{head}1;{}\r\nx\r\n0\r\n\r\n", "e".repeat(length)).into_bytes();
    assert_eq!(judge(&extension(4096)), Ok(()));
    assert_eq!(judge(&extension(4097)), Err(Violation::BadChunkExtension));
    let many = format!("{head}{}", "1;eeeeeeee\r\nx\r\n".repeat(513));
    assert_eq!(judge(many.as_bytes()), Err(Violation::BadChunkExtension), "over all chunks");
    let trailers =
        |length: usize| format!("{head}0\r\nX: {}\r\n\r\n", "t".repeat(length)).into_bytes();
    assert_eq!(judge(&trailers(8192 - 7)), Ok(()));
    assert_eq!(judge(&trailers(8192 - 6)), Err(Violation::TrailersTooLarge));
    let trailers = format!("{head}0\r\n{}\r\n", "X: y\r\n".repeat(21));
    assert_eq!(judge(trailers.as_bytes()), Err(Violation::TooManyFields));
}

#[test]
fn every_violation_has_words() {
    for &violation in Violation::ALL {
        assert!(!violation.reason().is_empty());
        assert!(matches!(
            violation.failure().status().as_u16(),
            400 | 405 | 413 | 414 | 431 | 501 | 505
        ));
    }
}

/// Pieces from which both honest and crooked streams are made.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let fixed = prop::sample::select(vec![
        "GET / HTTP/1.1\r\n",
        "POST /a?b=c HTTP/1.1\r\n",
        "GET /`?\" HTTP/1.1\r\n",
        "GET / HTTP/1.0\r\n",
        "Host: a\r\n",
        "Host: b.example:80\r\n",
        "Content-Length: 3\r\n",
        "Content-Length: 0\r\n",
        "content-length:7\r\n",
        "Transfer-Encoding: chunked\r\n",
        "transfer-encoding:\tCHUNKED \r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Connection: keep-alive\r\n",
        "X: y\r\n",
        " fold\r\n",
        "\r\n",
        "\r\n",
        "\r\n",
        "\n",
        "\r",
        "abc",
        "3\r\nabc\r\n",
        "0\r\n",
        "3;x\r\nabc\r\n",
        "0\r\n\r\n",
        "GET",
        " ",
        "/",
        ":",
        "HTTP/1.1",
    ]);
    prop_oneof![
        12 => fixed.prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ]
}

/// A stream of well-formed requests with bodies of every framing.
fn honest() -> impl Strategy<Value = Vec<u8>> {
    let framing = prop_oneof![
        Just("\r\n".to_owned()),
        "[a-z]{0,9}".prop_map(|body| format!("Content-Length: {}\r\n\r\n{body}", body.len())),
        (
            prop::collection::vec("[a-z\r\n]{1,20}", 0..4),
            "(X-[A-Z]: [a-z]{0,5}\r\n){0,2}",
            "(;[a-z]=\"?[a-z]\"?)?"
        )
            .prop_map(|(chunks, trailers, extension)| {
                let chunks: String = chunks
                    .iter()
                    .map(|data| format!("{:x}{extension}\r\n{data}\r\n", data.len()))
                    .collect();
                format!("Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\n{trailers}\r\n")
            }),
    ];
    let request = (
        "(GET|POST|PUT|DELETE|PATCH|M-SEARCH)",
        "(/[a-zA-Z0-9%._~!$&'()*+,;=:@|-]{0,12}){1,3}(\\?[a-z=&\\[\\]%`?/]{0,12})?",
        "[a-z][a-z0-9.-]{0,12}(:[0-9]{1,4})?",
        "([A-Z][a-z-]{0,4}x:[ \t]{0,2}[!-~]{0,20}[ \t]?\r\n){0,6}",
        framing,
    )
        .prop_map(|(method, target, host, fields, framing)| {
            format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}{framing}").into_bytes()
        });
    prop::collection::vec(request, 1..4).prop_map(|requests| requests.concat())
}

/// Cuts `bytes` at the places that `cuts` names.
fn pieces<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<_> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    places.sort_unstable();
    let mut from = 0;
    let mut parts = Vec::new();
    for place in places {
        parts.push(&bytes[from..place]);
        from = place;
    }
    parts.push(&bytes[from..]);
    parts
}

proptest! {
    #[test]
    fn any_split_has_the_same_verdict(
        stream in prop::collection::vec(piece(), 0..14),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let bytes = stream.concat();
        let (whole, one) = feed_all([&bytes[..]]);
        let (split, other) = feed_all(pieces(&bytes, &cuts));
        prop_assert_eq!(whole, split);
        prop_assert_eq!((one.part(), one.body()), (other.part(), other.body()));
    }

    #[test]
    fn random_bytes_never_panic(stream in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20)) {
        let whole = judge(&stream.concat());
        prop_assert_eq!(whole, feed_all(stream.iter().map(Vec::as_slice)).0);
    }

    #[test]
    fn honest_requests_pass(stream in honest()) {
        prop_assert_eq!(judge(&stream), Ok(()));
        prop_assert_eq!(feed_all([&stream[..]]).1.part(), Progress::Idle);
    }

    #[test]
    fn one_wrong_byte_never_panics(
        stream in honest(),
        at in any::<usize>(),
        byte in any::<u8>(),
        cuts in prop::collection::vec(any::<usize>(), 0..5),
    ) {
        let mut bytes = stream;
        let at = at % bytes.len();
        bytes[at] = byte;
        prop_assert_eq!(judge(&bytes), feed_all(pieces(&bytes, &cuts)).0);
    }
}
