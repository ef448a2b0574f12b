//! Any bytes as those of an HTTP/2 client, cut anywhere, and answers to what they ask for: nothing
//! crashes, and the session ends or goes on.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokamak_nghttp2::{Event, Field, Limits, Session};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const LIMITS: Limits = Limits {
    streams: 5,
    window: 1000,
    connection_window: 100_000,
    head: 1000,
    trailers: 200,
    continuations: 4,
    errors: 10,
    control: 100,
};

const STATUS: Field<'_> = Field { name: b":status", value: b"200", is_secret: false };

fuzz_target!(|input: (u8, &[u8])| {
    let (choice, bytes) = input;
    let mut session: Session<u8> = Session::new(LIMITS).expect("memory");
    session.receive(PREFACE).expect("the preface is right");
    for piece in bytes.chunks(usize::from(choice) + 1) {
        if session.receive(piece).is_err() {
            break;
        }
        while let Some(event) = session.next_event() {
            match event {
                Event::Request { stream, head } => {
                    let size: usize =
                        head.fields().map(|(name, value)| name.len() + value.len()).sum();
                    assert_eq!(size, head.size());
                    if choice & 1 == 0 {
                        session.respond(stream, &[STATUS], choice & 2 == 0);
                    }
                    if choice & 4 == 0 {
                        session.send_data(stream, bytes.to_vec().into(), choice & 8 == 0);
                    }
                    if choice & 16 == 0 {
                        session.drop_body(stream);
                    }
                    if choice & 32 == 0 {
                        session.release(stream);
                    }
                }
                Event::Body(stream) => drop(session.take_body(stream)),
                Event::Closed(stream) => session.release(stream),
                _ => {}
            }
        }
        let mut output = Vec::new();
        session.send(&mut output, 10_000).expect("memory");
    }
});
