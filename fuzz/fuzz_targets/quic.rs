//! What a client or another front sends before and beside QUIC: the head of a datagram, a packet
//! that is handed over, the frames of an HTTP/3 control stream.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokamak_front::Control;
use tokamak_quic::{Packet, Secret, destination};

fuzz_target!(|data: &[u8]| {
    let secret = Secret::of([7; 32]);
    let _ = secret.route(destination(data));
    if let Some(packet) = Packet::decode(data) {
        assert_eq!(Packet::decode(&packet.encode()).as_ref(), Some(&packet));
    }
    // However the bytes are split, they say the same.
    let frames = |pieces: &[&[u8]]| {
        let (mut control, mut frames) = (Control::default(), Vec::new());
        let taken = pieces.iter().try_for_each(|piece| control.take(piece, |it| frames.push(it)));
        (taken.is_ok(), frames)
    };
    let (at, bytes) = data.split_first().map_or((0, data), |(at, rest)| (usize::from(*at), rest));
    let (one, two) = bytes.split_at(at.min(bytes.len()));
    assert_eq!(frames(&[bytes]), frames(&[one, two]));
});
