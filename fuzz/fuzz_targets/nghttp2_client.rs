//! Any bytes as those of an HTTP/2 server, cut anywhere, which answer requests: nothing crashes, no
//! more is held than windows and limits allow, and the session ends or goes on.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokamak_nghttp2::{Event, Field, Limits, Session};

const LIMITS: Limits = Limits {
    streams: 0,
    window: 1000,
    connection_window: 100_000,
    head: 1000,
    trailers: 200,
    continuations: 4,
    errors: 10,
    control: 100,
};

const fn field(name: &'static [u8], value: &'static [u8]) -> Field<'static> {
    Field { name, value, is_secret: false }
}

const HEAD: [Field<'_>; 4] = [
    field(b":method", b"POST"),
    field(b":scheme", b"http"),
    field(b":authority", b"a"),
    field(b":path", b"/"),
];

fuzz_target!(|input: (u8, &[u8])| {
    let (choice, bytes) = input;
    let mut session: Session<u8> = Session::client(LIMITS).expect("memory");
    let streams: Vec<u32> =
        (0..3).filter_map(|number| session.request(&HEAD, number & choice == 0)).collect();
    for piece in bytes.chunks(usize::from(choice) + 1) {
        let mut output = Vec::new();
        session.send(&mut output, 10_000).expect("memory");
        if session.receive(piece).is_err() {
            break;
        }
        while let Some(event) = session.next_event() {
            match event {
                Event::Response { stream, head } => {
                    let size: usize =
                        head.fields().map(|(name, value)| name.len() + value.len()).sum();
                    assert_eq!(size, head.size());
                    if choice & 4 == 0 {
                        session.send_data(stream, bytes.to_vec().into(), choice & 8 == 0);
                    }
                    if choice & 32 == 0 {
                        session.release(stream);
                    }
                }
                Event::Body(stream) if choice & 16 == 0 => {
                    let body = session.take_body(stream);
                    assert!(body.len() <= LIMITS.window as usize);
                    drop(session.take_trailers(stream));
                }
                Event::Closed(stream) => session.release(stream),
                _ => {}
            }
        }
    }
    for stream in streams {
        assert!(session.take_body(stream).len() <= LIMITS.window as usize);
    }
});
