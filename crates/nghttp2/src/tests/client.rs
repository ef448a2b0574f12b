//! The side of a client: a server's bytes go in by hand.

use super::*;

const HEAD: [Field<'_>; 4] = [
    Field { name: b":method", value: b"POST", is_secret: false },
    Field { name: b":scheme", value: b"http", is_secret: false },
    Field { name: b":authority", value: b"a", is_secret: false },
    Field { name: b":path", value: b"/", is_secret: false },
];

/// A connection to a server that has sent these settings.
fn to_server(settings: &[u8]) -> Kept {
    let mut session: Kept = Session::client(LIMITS).unwrap();
    let mut output = Vec::new();
    session.send(&mut output, usize::MAX).unwrap();
    let frames = output.strip_prefix(PREFACE).expect("it begins with the preface");
    assert_eq!(frames[3..5], [4, 0], "settings come first");
    session.receive(&frame(4, 0, 0, settings)).unwrap();
    assert!(matches!(session.next_event(), Some(Event::Window(0))));
    take(&mut session);
    session
}

/// Begins a request that has a body.
fn begin(session: &mut Kept) -> u32 {
    let stream = session.request(&HEAD, false).expect("a stream");
    assert!(!session.has_begun(stream));
    let frames = take(session);
    assert_eq!(frames.last().map(|frame| (frame.0, frame.2)), Some((1, stream)));
    assert!(session.has_begun(stream));
    assert!(matches!(session.next_event(), Some(Event::Window(id)) if id == stream));
    stream
}

fn status(status: &[u8]) -> Vec<u8> {
    field(":status", status)
}

#[test]
fn a_request_and_its_response_have_trailers() {
    let mut session = to_server(&[]);
    let stream = begin(&mut session);
    assert!(session.send_data(stream, Bytes::from_static(b"abc"), false));
    assert!(session.send_trailers(stream, vec![("x".into(), "y".into())]));
    let kinds: Vec<_> = take(&mut session).iter().map(|frame| (frame.0, frame.1)).collect();
    assert_eq!(kinds, [(0, 0), (1, 5)]);
    session.receive(&frame(1, 4, stream, &status(b"103"))).unwrap();
    session.receive(&frame(1, 4, stream, &status(b"200"))).unwrap();
    session.receive(&frame(0, 0, stream, b"body")).unwrap();
    session.receive(&frame(1, 5, stream, &field("grpc-status", b"0"))).unwrap();
    for expected in [b"103", b"200"] {
        let Some(Event::Response { head, .. }) = session.next_event() else { panic!() };
        assert_eq!(head.fields().next(), Some((&b":status"[..], Bytes::from_static(expected))));
    }
    assert!(!session.is_body_taken(stream));
    assert_eq!(session.take_body(stream), "body");
    assert!(session.is_body_taken(stream) && session.has_trailers(stream));
    let trailers = session.take_trailers(stream).expect("they follow");
    assert_eq!(trailers.fields().next().map(|(name, _)| name), Some(&b"grpc-status"[..]));
    assert_eq!((session.closed(stream), session.open()), (Some(Reason::NO_ERROR), 0));
}

/// The response of a slow client takes nothing of the window of the others.
#[test]
fn a_response_that_is_not_taken_holds_up_no_other() {
    let mut session = to_server(&[]);
    let (slow, other) = (begin(&mut session), begin(&mut session));
    for stream in [slow, other] {
        session.receive(&frame(1, 4, stream, &status(b"200"))).unwrap();
    }
    for _ in 0..3 {
        session.receive(&frame(0, 0, slow, &[b'x'; 16_384])).unwrap();
    }
    let updates: Vec<_> =
        take(&mut session).into_iter().filter(|frame| frame.0 == 8).map(|frame| frame.2).collect();
    assert!(!updates.is_empty() && updates.iter().all(|stream| *stream == 0), "{updates:?}");
    session.receive(&frame(0, 0, other, &[b'x'; 16_384])).unwrap();
    assert_eq!(session.take_body(slow).len(), 3 * 16_384);
    assert!(take(&mut session).iter().any(|frame| (frame.0, frame.2) == (8, slow)));
    // Beyond its window.
    session.receive(&frame(0, 0, other, &[b'x'; 16_384])).unwrap();
    for _ in 0..4 {
        session.receive(&frame(0, 0, other, &[b'x'; 16_384])).unwrap();
    }
    take(&mut session);
    assert_eq!(session.closed(other).map(|reason| reason.0), Some(3), "FLOW_CONTROL_ERROR");
    assert!(session.is_wrong(other) && session.closed(slow).is_none());
}

#[test]
fn a_server_that_leaves_says_what_it_has_not_looked_at() {
    let mut session = to_server(&[]);
    let (first, second) = (begin(&mut session), begin(&mut session));
    let last = [&first.to_be_bytes()[..], &[0; 4]].concat();
    session.receive(&frame(7, 0, 0, &last)).unwrap();
    let mut events = std::iter::from_fn(|| session.next_event()).collect::<Vec<_>>();
    assert!(events.iter().any(|event| matches!(event, Event::Leaving)), "{events:?}");
    events.retain(|event| matches!(event, Event::Closed(_)));
    assert!(matches!(events[..], [Event::Closed(id)] if id == second), "{events:?}");
    assert_eq!(session.closed(second), Some(Reason::REFUSED_STREAM));
    assert_eq!(session.closed(first), None);
}

#[test]
fn no_more_requests_are_sent_than_the_server_takes() {
    let mut session = to_server(&[0, 3, 0, 0, 0, 1]);
    assert_eq!(session.most_requests(), 1);
    let first = begin(&mut session);
    let second = session.request(&HEAD, true).expect("it waits");
    assert!(take(&mut session).is_empty() && !session.has_begun(second));
    session.release(first);
    let frames = take(&mut session);
    assert!(frames.iter().any(|frame| (frame.0, frame.2) == (3, first)), "it is cancelled");
    assert!(session.has_begun(second));
}

#[test]
fn pushed_responses_and_floods_end_the_connection() {
    for (said, reason) in [
        (frame(5, 4, 1, &[&[0, 0, 0, 2][..], &head(b"/")].concat()), 1),
        (frame(6, 0, 0, &[0; 8]).repeat(30), 11),
        (frame(0, 0, 1, &[]).repeat(30), 11),
    ] {
        let mut session = to_server(&[]);
        let stream = begin(&mut session);
        session.receive(&frame(1, 4, stream, &status(b"200"))).unwrap();
        session.receive(&said).unwrap();
        take(&mut session);
        assert_eq!(session.ended().map(|(reason, _)| reason.0), Some(reason), "{:?}", &said[..9]);
    }
    let mut session = to_server(&[]);
    for _ in 0..10 {
        session.receive(&frame(6, 0, 0, &[0; 8]).repeat(15)).unwrap();
        take(&mut session);
        session.forgive();
    }
    assert!(session.ended().is_none(), "some a second are no flood");
}

#[test]
fn what_is_wrong_with_a_response_ends_its_request() {
    let large = field("a", &[b'b'; 120]).repeat(3);
    for said in [
        frame(1, 4, 1, &field("a", b"b")),
        frame(1, 4, 1, &status(b"2oo")),
        frame(1, 4, 1, &[status(b"200"), status(b"200")].concat()),
        frame(1, 4, 1, &[status(b"200"), field("a", b"b\nc")].concat()),
    ] {
        let mut session = to_server(&[]);
        let stream = begin(&mut session);
        session.receive(&said).unwrap();
        take(&mut session);
        assert!(session.closed(stream).is_some() && session.is_wrong(stream), "{said:?}");
    }
    let mut session = to_server(&[]);
    let stream = begin(&mut session);
    session.receive(&frame(1, 4, stream, &status(b"200"))).unwrap();
    session.receive(&frame(1, 5, stream, &large)).unwrap();
    assert!(session.take_trailers(stream).expect("they follow").is_cut);
}
