//! A client's bytes go in by hand, and the bytes that come out are read by hand.

mod client;

use super::*;
use bytes::Bytes;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const LIMITS: Limits = Limits {
    streams: 3,
    window: 65_536,
    connection_window: 65_535,
    head: 1000,
    trailers: 200,
    continuations: 5,
    errors: 10,
    control: 20,
};

type Kept = Session<()>;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A literal field that goes into no table.
fn field(name: &str, value: &[u8]) -> Vec<u8> {
    let mut field = vec![0, name.len() as u8];
    field.extend_from_slice(name.as_bytes());
    field.push(value.len() as u8);
    field.extend_from_slice(value);
    field
}

fn head(path: &[u8]) -> Vec<u8> {
    let fields =
        [(":method", &b"GET"[..]), (":scheme", b"http"), (":authority", b"a"), (":path", path)];
    fields.iter().flat_map(|(name, value)| field(name, value)).collect()
}

fn begun() -> Kept {
    let mut session = Session::new(LIMITS).unwrap();
    session.receive(PREFACE).unwrap();
    session.receive(&frame(4, 0, 0, &[])).unwrap();
    assert!(matches!(session.next_event(), Some(Event::Window(0))));
    take(&mut session);
    session
}

/// The frames that are to be sent: kind, flags, stream, payload.
fn take(session: &mut Kept) -> Vec<(u8, u8, u32, Vec<u8>)> {
    let mut output = Vec::new();
    session.send(&mut output, usize::MAX).unwrap();
    let (mut rest, mut frames) = (&output[..], Vec::new());
    while let [a, b, c, kind, flags, d, e, f, g, ..] = *rest {
        let end = 9 + u32::from_be_bytes([0, a, b, c]) as usize;
        let stream = u32::from_be_bytes([d, e, f, g]);
        frames.push((kind, flags, stream, rest[9..end].to_vec()));
        rest = &rest[end..];
    }
    assert!(rest.is_empty());
    frames
}

/// Sends a request, and takes it.
fn request(session: &mut Kept, stream: u32, flags: u8) {
    session.receive(&frame(1, 4 | flags, stream, &head(b"/"))).unwrap();
    match session.next_event() {
        Some(Event::Request { stream: id, .. }) => assert_eq!(id, stream),
        other => panic!("{other:?}"),
    }
}

const STATUS: Field<'_> = Field { name: b":status", value: b"200", is_secret: false };

#[test]
fn the_settings_say_the_limit_of_streams() {
    let mut session: Kept = Session::new(LIMITS).unwrap();
    let frames = take(&mut session);
    let (kind, _, _, payload) = &frames[0];
    assert_eq!(*kind, 4);
    assert!(payload.chunks(6).any(|pair| pair == [0, 3, 0, 0, 0, 3]), "{payload:?}");
    assert!(payload.chunks(6).any(|pair| pair == [0, 9, 0, 0, 0, 1]), "{payload:?}");
}

#[test]
fn a_request_and_its_response() {
    let mut session = begun();
    let sent = [head(b"/a\xc3\xa4?{\"<>`"), field("cookie", b"a=b")].concat();
    session.receive(&frame(1, 4, 1, &sent)).unwrap();
    let Some(Event::Request { stream: 1, head }) = session.next_event() else { panic!() };
    let fields: Vec<_> = head.fields().collect();
    assert_eq!(fields.len(), 5);
    assert_eq!(fields[3], (&b":path"[..], Bytes::from_static(b"/a\xc3\xa4?{\"<>`")));
    assert_eq!(fields[4], (&b"cookie"[..], Bytes::from_static(b"a=b")));
    session.receive(&frame(0, 0, 1, b"one ")).unwrap();
    session.receive(&frame(0, 1, 1, b"two")).unwrap();
    assert!(matches!(session.next_event(), Some(Event::Body(1))));
    assert!(session.has_body_come(1) && !session.is_body_taken(1));
    assert_eq!(session.take_body(1), "one two");
    assert!(session.is_body_taken(1));
    session.respond_interim(1, &[Field { value: b"103", ..STATUS }]);
    assert!(session.respond(1, &[STATUS], false));
    assert_eq!(session.capacity(1, 1000), 1000);
    assert!(session.send_data(1, Bytes::from_static(b"abc"), false));
    assert_eq!(session.capacity(1, 1000), 997);
    let kinds: Vec<_> = take(&mut session).iter().map(|frame| (frame.0, frame.1)).collect();
    assert_eq!(kinds, [(1, 4), (1, 4), (0, 0)]);
    assert!(take(&mut session).is_empty());
    assert!(session.send_trailers(1, vec![("x".into(), "y".into())]));
    let kinds: Vec<_> = take(&mut session).iter().map(|frame| (frame.0, frame.1)).collect();
    assert_eq!(kinds.last(), Some(&(1, 5)), "{kinds:?}");
    assert_eq!(session.closed(1), Some(Reason::NO_ERROR));
    session.release(1);
    assert_eq!(session.open(), 0);
    assert!(session.data(1).is_none());
}

/// RFC 9113 section 8.1.1: what is wrong with a request ends this request.
#[test]
fn a_malformed_request_ends_alone() {
    let one = |name: &str, value: &[u8]| [head(b"/"), field(name, value)].concat();
    let method = |method: &[u8]| {
        let fields = [(":scheme", &b"http"[..]), (":authority", b"a"), (":path", b"/")];
        let fields = fields.iter().flat_map(|(name, value)| field(name, value));
        field(":method", method).into_iter().chain(fields).collect::<Vec<u8>>()
    };
    for (what, fields) in [
        ("DEL in a value", one("x", b"a\x7fb")),
        ("a control byte in a value", one("x", b"a\x01b")),
        ("an empty line in a value", one("x", b"a\r\n\r\nb")),
        ("a blank before a value", one("x", b" a")),
        ("a tab behind a value", one("x", b"a\t")),
        ("an upper-case name", one("X-Big", b"a")),
        ("a blank in a name", one("x y", b"a")),
        ("an empty name", one("", b"a")),
        ("a method that is no token", method(b"G@T")),
        ("a blank in a path", head(b"/a b")),
        ("a field of connections", one("connection", b"close")),
        ("a pseudo-header field behind others", one(":path", b"/")),
    ] {
        let mut session = begun();
        request(&mut session, 1, 1);
        session.receive(&frame(1, 5, 3, &fields)).unwrap();
        request(&mut session, 5, 1);
        let frames = take(&mut session);
        assert!(frames.contains(&(3, 0, 3, vec![0, 0, 0, 1])), "{what}: {frames:?}");
        for stream in [1, 5] {
            assert!(session.respond(stream, &[STATUS], true), "{what}");
            session.release(stream);
        }
        assert_eq!(take(&mut session).len(), 2, "{what}");
        assert_eq!(session.open(), 0);
        assert!(!session.is_over());
    }
}

/// RFC 9113 section 5.1: more after the end of a request ends this request, whatever else waits.
#[test]
fn a_stream_is_closed_at_once_and_what_comes_on_it_is_ignored() {
    let mut session = begun();
    request(&mut session, 1, 1);
    request(&mut session, 3, 1);
    assert!(session.respond(1, &[STATUS], false));
    assert!(session.send_data(1, Bytes::from(vec![0; 20_000]), true));
    assert!(session.respond(3, &[STATUS], false));
    assert!(session.close(3, Reason::STREAM_CLOSED) && !session.close(3, Reason::STREAM_CLOSED));
    assert_eq!(session.closed(3), Some(Reason::STREAM_CLOSED));
    // More than the window of the connection: it is given back.
    for _ in 0..10 {
        session.receive(&frame(0, 0, 3, &[0; 10_000])).unwrap();
    }
    session.receive(&frame(1, 5, 3, &field("x-sum", b"1"))).unwrap();
    let frames = take(&mut session);
    let of = |kind: u8, stream: u32| {
        let of = frames.iter().filter(move |frame| (frame.0, frame.2) == (kind, stream));
        of.map(|frame| &frame.3[..]).collect::<Vec<_>>().concat()
    };
    assert_eq!(of(3, 3), [0, 0, 0, 5]);
    assert!(!of(8, 0).is_empty());
    assert_eq!(of(0, 1).len(), 20_000);
    assert!(session.ended().is_none());
    assert!(!session.close(1, Reason::STREAM_CLOSED), "its response is complete");
}

#[test]
fn requests_above_the_limit_are_refused_and_the_others_go_on() {
    let mut session = begun();
    // The client knows the limit.
    session.receive(&frame(4, 1, 0, &[])).unwrap();
    [1, 3, 5].iter().for_each(|stream| request(&mut session, *stream, 1));
    session.receive(&frame(1, 5, 7, &head(b"/"))).unwrap();
    assert!(matches!(session.next_event(), Some(Event::Refused)));
    assert_eq!(take(&mut session), [(3, 0, 7, vec![0, 0, 0, 7])]);
    assert!(session.respond(1, &[STATUS], true));
    take(&mut session);
    assert!(matches!(session.next_event(), Some(Event::Closed(1))));
    request(&mut session, 9, 1);
}

#[test]
fn priorities_are_events() {
    let mut session = begun();
    session.receive(&frame(16, 0, 0, b"\0\0\0\x05u=1, i")).unwrap();
    match session.next_event() {
        Some(Event::Priority { stream: 5, value }) => assert_eq!(value, "u=1, i"),
        other => panic!("{other:?}"),
    }
    for (frame, reason) in [
        (frame(16, 0, 0, b"\0\0\0"), Reason::FRAME_SIZE_ERROR),
        (frame(16, 0, 1, b"\0\0\0\x05u=1"), Reason::PROTOCOL_ERROR),
        (frame(16, 0, 0, b"\0\0\0\0u=1"), Reason::PROTOCOL_ERROR),
    ] {
        let mut session = begun();
        session.receive(&frame).unwrap();
        take(&mut session);
        assert_eq!(session.ended().map(|(reason, _)| *reason), Some(reason));
        assert!(session.is_over());
    }
}

/// The server does not take the body of the first request, and the connection's window is for the
/// second one.
#[test]
fn unread_bodies_do_not_hold_up_other_requests() {
    let mut session = begun();
    request(&mut session, 1, 0);
    session.receive(&frame(0, 0, 1, &[0; 10_000])).unwrap();
    session.drop_body(1);
    for _ in 0..4 {
        session.receive(&frame(0, 0, 1, &[0; 10_000])).unwrap();
    }
    let frames = take(&mut session);
    assert!(frames.iter().any(|(kind, _, stream, _)| (*kind, *stream) == (8, 0)), "{frames:?}");
    assert!(session.respond(1, &[STATUS], true));
    let frames = take(&mut session);
    assert!(frames.contains(&(3, 0, 1, vec![0; 4])), "no error, and no more of it: {frames:?}");
}

#[test]
fn a_head_is_cut_at_its_limit_and_ends_the_connection_at_four_times() {
    let large = |count: usize| {
        let fields = (0..count).flat_map(|_| field("x", &[b'a'; 100]));
        head(b"/").into_iter().chain(fields).collect::<Vec<u8>>()
    };
    let mut session = begun();
    session.receive(&frame(1, 5, 1, &large(10))).unwrap();
    let Some(Event::Request { head, .. }) = session.next_event() else { panic!() };
    assert!(head.is_cut && head.len() < 14 && head.size() < 1000);
    session.receive(&frame(1, 5, 3, &large(40))).unwrap();
    take(&mut session);
    assert_eq!(session.ended().map(|(reason, _)| *reason), Some(Reason::ENHANCE_YOUR_CALM));
}

#[test]
fn a_connection_ends_when_its_requests_have() {
    let mut session = begun();
    request(&mut session, 1, 1);
    session.announce_end();
    session.ping();
    let frames = take(&mut session);
    // Python's h2 takes no other frame behind a GOAWAY.
    let (kind, _, _, payload) = frames[0].clone();
    assert_eq!(kind, 6);
    assert_eq!(frames[1].3[..4], [0x7f, 0xff, 0xff, 0xff]);
    session.receive(&frame(6, 1, 0, &payload)).unwrap();
    assert!(matches!(session.next_event(), Some(Event::Answered)));
    session.end();
    assert_eq!(take(&mut session)[0].3, [0, 0, 0, 1, 0, 0, 0, 0]);
    assert!(!session.is_over());
    assert!(session.respond(1, &[STATUS], true));
    take(&mut session);
    assert!(session.is_over());
}

/// RFC 8441, by which WebSocket goes over HTTP/2.
#[test]
fn an_extended_connect_goes_both_ways() {
    let connect = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":path", "/chat"),
        (":authority", "a"),
        ("sec-websocket-version", "13"),
    ];
    let head: Vec<u8> =
        connect.iter().flat_map(|(name, value)| field(name, value.as_bytes())).collect();
    let mut session = begun();
    session.receive(&frame(1, 4, 3, &head)).unwrap();
    let events = std::iter::from_fn(|| session.next_event());
    let head = events.filter_map(|event| match event {
        Event::Request { stream: 3, head } => Some(head),
        _ => None,
    });
    let head = head.last().expect("a request");
    assert!(head.fields().eq(connect.map(|(name, value)| (name.as_bytes(), Bytes::from(value)))));
    assert!(session.respond(3, &[STATUS], false));
    session.receive(&frame(0, 0, 3, b"ping")).unwrap();
    let body = session.take_body(3);
    assert!(session.send_data(3, body, false));
    assert_eq!(take(&mut session).last().unwrap(), &(0, 0, 3, b"ping".to_vec()));
    session.receive(&frame(0, 1, 3, b"")).unwrap();
    assert!(session.is_body_taken(3) && session.send_data(3, Bytes::new(), true));
    take(&mut session);
    assert_eq!(session.closed(3), Some(Reason::NO_ERROR));
}

#[test]
fn what_is_no_http_2_is_refused() {
    let mut session: Kept = Session::new(LIMITS).unwrap();
    let broken = session.receive(b"GET / HTTP/1.1\r\n\r\n012345").unwrap_err();
    assert!(broken.is_preface(), "{broken}");
}

/// Bytes of any kind, cut anywhere, with answers to what they ask for.
#[test]
fn any_bytes_do_no_harm() {
    let mut seed = 7_u64;
    let mut chance = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    for _ in 0..500 {
        let mut session = begun();
        for _ in 0..40 {
            let stream = chance(12) as u32;
            let payload: Vec<u8> = match chance(3) {
                0 => head(b"/"),
                1 => (0..chance(300)).map(|_| chance(256) as u8).collect(),
                _ => vec![0; chance(9) as usize],
            };
            let sent = frame(chance(18) as u8, chance(256) as u8, stream, &payload);
            let (left, right) = sent.split_at(chance(sent.len() as u64) as usize);
            if session.receive(left).is_err() || session.receive(right).is_err() {
                break;
            }
            while let Some(event) = session.next_event() {
                if let Event::Request { stream, .. } = event {
                    session.respond(stream, &[STATUS], chance(2) == 0);
                    session.send_data(stream, Bytes::from(vec![0; 100]), chance(2) == 0);
                    session.take_body(stream);
                    if chance(2) == 0 {
                        session.drop_body(stream);
                        session.release(stream);
                    }
                }
            }
            take(&mut session);
        }
    }
}
