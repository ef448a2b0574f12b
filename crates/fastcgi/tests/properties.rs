//! Properties of the codec, on invented messages and on bytes that were never meant well.

#[path = "exercise/mod.rs"]
mod exercise;

use exercise::{Said, messages, written};
use proptest::collection::vec;
use proptest::prelude::*;
use tokamak_fastcgi::record::MOST_CONTENT;
use tokamak_fastcgi::{Error, Message, ProtocolStatus, Role, Stream, Values, ValuesQuery, encode};

fn stream() -> impl Strategy<Value = Stream> {
    prop_oneof![
        Just(Stream::Params),
        Just(Stream::Stdin),
        Just(Stream::Data),
        Just(Stream::Stdout),
        Just(Stream::Stderr),
    ]
}

fn said() -> impl Strategy<Value = Said> {
    let id = 1u16..;
    prop_oneof![
        (id.clone(), stream(), vec(any::<u8>(), 1..300))
            .prop_map(|(id, s, b)| Said::Bytes(id, s, b)),
        // Long enough for several records.
        (id.clone(), stream(), 60_000usize..140_000, any::<u8>())
            .prop_map(|(id, stream, len, byte)| Said::Bytes(id, stream, vec![byte; len])),
        (id.clone(), stream())
            .prop_map(|(id, stream)| Said::Other(Message::StreamEnd { id, stream })),
        (id.clone(), any::<u16>(), any::<bool>()).prop_map(|(id, role, keep)| Said::Other(
            Message::Begin { id, role: Role::of(role), keep }
        )),
        id.clone().prop_map(|id| Said::Other(Message::Abort { id })),
        (id, any::<u32>(), any::<u8>()).prop_map(|(id, app_status, status)| {
            Said::Other(Message::End { id, app_status, status: ProtocolStatus::of(status) })
        }),
        any::<(bool, bool, bool)>().prop_map(|(max_conns, max_reqs, mpxs_conns)| {
            Said::Other(Message::GetValues(ValuesQuery { max_conns, max_reqs, mpxs_conns }))
        }),
        any::<(Option<u32>, Option<u32>, Option<bool>)>().prop_map(
            |(max_conns, max_reqs, mpxs_conns)| {
                Said::Other(Message::Values(Values { max_conns, max_reqs, mpxs_conns }))
            }
        ),
        any::<u8>().prop_map(|kind| Said::Other(Message::UnknownType(kind))),
    ]
}

/// Messages of which no two neighbours are pieces of the same stream.
fn conversation() -> impl Strategy<Value = Vec<Said>> {
    let stream_of = |said: &Said| match said {
        Said::Bytes(id, stream, _) => Some((*id, *stream)),
        Said::Other(_) => None,
    };
    vec(said(), 0..12).prop_map(move |mut said| {
        said.dedup_by(|next, last| stream_of(next).is_some() && stream_of(next) == stream_of(last));
        said
    })
}

/// Cuts bytes at these places, taken modulo their number.
fn cut<'a>(bytes: &'a [u8], places: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = places.iter().map(|place| place % (bytes.len() + 1)).collect();
    places.sort_unstable();
    let mut pieces = Vec::new();
    let mut from = 0;
    for place in places.into_iter().chain([bytes.len()]) {
        pieces.push(&bytes[from..place]);
        from = place;
    }
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn messages_round_trip_however_they_are_cut(said in conversation(), places in vec(any::<usize>(), 0..20)) {
        let bytes = written(&said);
        prop_assert_eq!(bytes.len() % 8, 0);
        let (read, result) = messages(cut(&bytes, &places));
        prop_assert_eq!(result, Ok(()));
        prop_assert_eq!(read, said);
    }

    #[test]
    fn any_bytes_are_survived(bytes in vec(any::<u8>(), 0..400)) {
        exercise::run(&bytes);
    }

    #[test]
    fn damaged_conversations_are_survived(
        said in conversation(),
        damage in vec((any::<usize>(), any::<u8>()), 1..8),
        places in vec(any::<usize>(), 0..20),
    ) {
        let mut bytes = written(&said);
        bytes.truncate(20_000);
        for (place, byte) in damage {
            if !bytes.is_empty() {
                let place = place % bytes.len();
                bytes[place] = byte;
            }
        }
        exercise::run(&bytes);
        prop_assert_eq!(messages(cut(&bytes, &places)), messages([bytes.as_slice()]));
    }

    #[test]
    fn a_stream_in_pieces_is_the_same_stream(
        pieces in vec((0usize..140_000, any::<u8>()), 0..5),
        small in vec(vec(any::<u8>(), 0..20), 0..20),
    ) {
        let pieces: Vec<Vec<u8>> = pieces.into_iter().map(|(len, byte)| vec![byte; len]).chain(small).collect();
        let mut out = Vec::new();
        let mut stream = encode::Pieces::new(&mut out, 7, Stream::Stdout);
        pieces.iter().for_each(|piece| stream.put(piece));
        stream.finish();
        let all = pieces.concat();
        let (records, result) = exercise::records([out.as_slice()]);
        prop_assert_eq!(result, Ok(()));
        prop_assert_eq!(records.len(), all.len().div_ceil(MOST_CONTENT), "as few as can be, and \
            none that ends it");
        prop_assert_eq!(records.iter().flat_map(|record| record.content.clone()).collect::<Vec<_>>(), all);
    }

    #[test]
    fn pairs_round_trip(found in vec((vec(any::<u8>(), 0..300), vec(any::<u8>(), 0..300)), 0..200)) {
        let short: usize = found.iter().map(|(name, value)| name.len() + value.len() + 8).sum();
        prop_assume!(short < 1 << 16);
        exercise::rewrite_pairs(&found);
    }
}

#[test]
fn a_pair_fits_into_a_record_or_is_refused() {
    let mut out = Vec::new();
    let mut params = encode::Params::new(&mut out, 1);
    assert_eq!(params.pair(b"n", &vec![b'v'; MOST_CONTENT]), Err(Error::TooLong));
    assert_eq!(params.pair(b"n", &vec![b'v'; MOST_CONTENT - 6]), Ok(()));
    assert_eq!(params.pair(b"n", b"v"), Ok(()));
    params.finish();
    let (records, _) = exercise::records([out.as_slice()]);
    let lengths: Vec<_> = records.iter().map(|record| record.content.len()).collect();
    assert_eq!(lengths, [MOST_CONTENT, 4, 0]);
}

#[test]
fn the_longest_record_with_the_longest_padding_is_skipped_whole() {
    // 65535 and 255 are more than 16 bits together: CVE-2026-55203.
    let mut bytes = vec![1, 6, 0, 1, 255, 255, 255, 0];
    bytes.extend(std::iter::repeat_n(b'x', 65_535 + 255));
    encode::end(&mut bytes, 1, 7, ProtocolStatus::Complete);
    let end = Message::End { id: 1, app_status: 7, status: ProtocolStatus::Complete };
    assert_eq!(
        messages(bytes.chunks(1000)),
        (vec![Said::Bytes(1, Stream::Stdout, vec![b'x'; 65_535]), Said::Other(end)], Ok(()))
    );
}

#[test]
fn padding_is_skipped_on_every_record() {
    // An empty STDOUT and an END_REQUEST, both padded.
    let bytes = b"\x01\x06\0\x01\0\0\x03\0pad\x01\x03\0\x01\0\x08\x02\0\0\0\0\x05\0\0\0\0pd";
    let (said, result) = messages(bytes.chunks(1));
    assert_eq!(result, Ok(()));
    assert_eq!(
        said,
        [
            Said::Other(Message::StreamEnd { id: 1, stream: Stream::Stdout }),
            Said::Other(Message::End { id: 1, app_status: 5, status: ProtocolStatus::Complete }),
        ]
    );
}

#[test]
fn records_that_lie_are_refused() {
    for (bytes, error) in [
        (&b"\0\x06\0\x01\0\0\0\0"[..], Error::Version(0)),
        (b"\x01\x0c\0\x01\0\0\0\0", Error::Kind(12)),
        (b"\x01\x06\0\0\0\0\0\0", Error::Id { kind: 6, id: 0 }),
        (b"\x01\x09\0\x01\0\0\0\0", Error::Id { kind: 9, id: 1 }),
        (b"\x01\x01\0\x01\0\x09\0\0", Error::Length { kind: 1, len: 9 }),
        (b"\x01\x03\0\x01\0\x07\0\0", Error::Length { kind: 3, len: 7 }),
        (b"\x01\x02\0\x01\0\x01\0\0", Error::Length { kind: 2, len: 1 }),
        (b"\x01\x0a\0\0\xff\xff\0\0", Error::Length { kind: 10, len: 65535 }),
        (b"\x01\x0a\0\0\0\x03\0\0\x05\x01a", Error::Cut),
    ] {
        assert_eq!(messages([bytes]).1, Err(error), "{bytes:?}");
    }
    assert_eq!(
        messages([&b"\x01\x63\0\0\0\x02\0\0xy"[..]]),
        (vec![Said::Other(Message::Foreign(0x63))], Ok(()))
    );
}

proptest! {
    /// Records that are given another id say the same about another request.
    #[test]
    fn another_id_changes_nothing_else(id in 1u16.., pieces in vec(vec(any::<u8>(), 0..300), 0..6), long in 0usize..140_000) {
        let mut records = Vec::new();
        encode::begin(&mut records, 1, Role::Responder, true);
        for piece in pieces.iter().chain([&vec![7; long]]) {
            encode::stream(&mut records, 1, Stream::Stdin, piece);
        }
        encode::stream_end(&mut records, 1, Stream::Stdin);
        let (about_one, sound) = messages([&records[..]]);
        prop_assert!(sound.is_ok());
        encode::readdress(&mut records, id);
        let readdressed: Vec<Said> = about_one
            .into_iter()
            .map(|said| match said {
                Said::Bytes(_, stream, bytes) => Said::Bytes(id, stream, bytes),
                Said::Other(Message::Begin { role, keep, .. }) => Said::Other(Message::Begin { id, role, keep }),
                Said::Other(_) => Said::Other(Message::StreamEnd { id, stream: Stream::Stdin }),
            })
            .collect();
        prop_assert_eq!(messages([&records[..]]).0, readdressed);
    }
}
