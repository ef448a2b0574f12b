use proptest::collection::vec;
use proptest::prelude::*;

use tokamak_metrics::CacheFigures;

use super::wire::VERSION;
use super::*;

fn to_zygote() -> impl Strategy<Value = ToZygote> {
    let signal = prop_oneof![
        any::<Option<u32>>().prop_map(Signal::Backtrace),
        Just(Signal::Kill),
        Just(Signal::KillOutsideLocks),
        Just(Signal::KillInsideLocks),
    ];
    prop_oneof![
        vec((".{0,20}", ".{0,40}"), 0..20).prop_map(ToZygote::Settings),
        (any::<u16>(), 1..=u32::MAX)
            .prop_map(|(index, instance)| ToZygote::Spawn { index, instance }),
        (any::<u16>(), 1..=u32::MAX, signal).prop_map(|(index, instance, signal)| ToZygote::Kill {
            index,
            instance,
            signal
        }),
        Just(ToZygote::Quit),
        Just(ToZygote::Ask),
        (any::<u16>(), any::<u32>(), ".{0,40}").prop_map(|(rate, milliseconds, prefix)| {
            ToZygote::Profile { rate, milliseconds, prefix }
        }),
    ]
}

fn from_zygote() -> impl Strategy<Value = FromZygote> {
    let status =
        prop_oneof![any::<u8>().prop_map(Status::Code), any::<u8>().prop_map(Status::Signal)];
    prop_oneof![
        (".{0,40}", any::<bool>())
            .prop_map(|(version, exposes)| FromZygote::Ready { version, exposes }),
        (any::<u16>(), 1..=u32::MAX, any::<u32>())
            .prop_map(|(index, instance, pid)| FromZygote::Spawned { index, instance, pid }),
        (any::<u16>(), 1..=u32::MAX, status)
            .prop_map(|(index, instance, status)| FromZygote::Exited { index, instance, status }),
        ".{0,40}".prop_map(|message| FromZygote::Failed { message }),
        ".{0,40}".prop_map(|reason| FromZygote::Unsealable { reason }),
        (".{0,40}", 0_u8..3).prop_map(|(reason, number)| FromZygote::Outdated {
            reason,
            newer: Newer::from_number(number).expect("a number of one")
        }),
        Just(FromZygote::Alive),
        Just(FromZygote::Output),
        Just(FromZygote::Locked),
        ".{0,40}".prop_map(|reason| FromZygote::Changed { reason }),
        (any::<u16>(), 1u32.., ".{0,40}").prop_map(|(index, instance, trace)| FromZygote::Slow {
            index,
            instance,
            trace
        }),
    ]
}

fn to_front() -> impl Strategy<Value = ToFront> {
    let why = prop_oneof![
        any::<u8>().prop_map(Why::Crash),
        any::<u8>().prop_map(Why::Exit),
        Just(Why::TimedOut),
        Just(Why::Stale),
    ];
    prop_oneof![
        (any::<u32>(), any::<u16>(), 1..=u32::MAX, why)
            .prop_map(|(pool, index, instance, why)| ToFront::Death { pool, index, instance, why }),
        (any::<u32>(), any::<u32>()).prop_map(|(old, new)| ToFront::Renew { old, new }),
        (any::<u32>(), ".{0,40}", any::<bool>())
            .prop_map(|(question, part, is_last)| ToFront::Answer { question, part, is_last }),
        any::<u32>().prop_map(|question| ToFront::Dropped { question }),
        any::<u32>().prop_map(|question| ToFront::Stream { question }),
        any::<u32>().prop_map(|pool| ToFront::Forget { pool }),
        any::<u32>().prop_map(|number| ToFront::Certificates { number }),
        Just(ToFront::Users),
        ".{0,40}".prop_map(|name| ToFront::Declined { name }),
        any::<bool>().prop_map(|is_replaced| ToFront::Drain { is_replaced }),
        any::<Option<u16>>().prop_map(|access| ToFront::Reopen { access }),
        (any::<u32>(), proptest::option::of(change()))
            .prop_map(|(question, change)| ToFront::Upstreams { question, change }),
        (any::<u32>(), purge()).prop_map(|(question, what)| ToFront::Purge { question, what }),
    ]
}

fn to_acme() -> impl Strategy<Value = ToAcme> {
    let outcome = prop_oneof![Just(Ok(())), ".{0,40}".prop_map(Err)];
    prop_oneof![
        any::<u32>().prop_map(|number| ToAcme::Presented { number }),
        (any::<u32>(), outcome).prop_map(|(number, outcome)| ToAcme::Stored { number, outcome }),
        ".{0,40}".prop_map(|name| ToAcme::Want { name }),
    ]
}

fn from_acme() -> impl Strategy<Value = FromAcme> {
    let file = prop_oneof![
        ".{0,40}".prop_map(StateFile::Certificate),
        ".{0,40}".prop_map(StateFile::Account),
        ".{0,40}".prop_map(StateFile::Tries),
    ];
    prop_oneof![
        (any::<u32>(), vec(any::<u8>(), 0..40))
            .prop_map(|(number, challenges)| FromAcme::Present { number, challenges }),
        (any::<u32>(), file, vec(any::<u8>(), 0..40))
            .prop_map(|(number, file, bytes)| FromAcme::Store { number, file, bytes }),
        (any::<bool>(), ".{0,40}")
            .prop_map(|(is_problem, text)| FromAcme::Note { is_problem, text }),
        ".{0,40}".prop_map(|name| FromAcme::Declined { name }),
        any::<bool>().prop_map(|is_under_way| FromAcme::Ordering { is_under_way }),
        (".{0,40}", any::<u64>(), ".{0,40}").prop_map(|(name, next, failure)| FromAcme::Name {
            name,
            next,
            failure
        }),
    ]
}

fn purge() -> impl Strategy<Value = Purge> {
    prop_oneof![
        Just(Purge::All),
        ".{0,40}".prop_map(Purge::Url),
        ".{0,40}".prop_map(Purge::Prefix),
        ".{0,40}".prop_map(Purge::Tag),
    ]
}

fn cache() -> impl Strategy<Value = CacheFigures> {
    any::<[u64; 4]>().prop_map(|[entries, bytes, hits, stored]| CacheFigures {
        entries,
        bytes,
        hits,
        stored,
        ..CacheFigures::default()
    })
}

fn change() -> impl Strategy<Value = AddressChange> {
    let action = prop_oneof![
        (1..=u32::MAX).prop_map(|weight| AddressAction::Add { weight }),
        Just(AddressAction::Drain),
        Just(AddressAction::Remove),
    ];
    (any::<u16>(), ".{0,40}", action).prop_map(|(upstream, address, action)| AddressChange {
        upstream,
        address,
        action,
    })
}

fn status() -> impl Strategy<Value = AddressStatus> {
    let state = prop_oneof![
        Just(AddressState::Up),
        Just(AddressState::Out),
        Just(AddressState::Trial),
        Just(AddressState::Down),
        Just(AddressState::Drained)
    ];
    let connections = prop_oneof![
        Just(Connections::Unknown),
        Just(Connections::Kept),
        Just(Connections::Closed),
        Just(Connections::Shared)
    ];
    (".{0,40}", state, any::<[u64; 3]>(), any::<[u32; 4]>(), connections).prop_map(
        |(address, state, long, short, connections)| AddressStatus {
            address,
            weight: short[0],
            state,
            since: Duration::from_millis(long[0]),
            requests: long[1],
            failures: long[2],
            in_use: short[1],
            idle: short[2],
            waiting: short[3],
            connections,
        },
    )
}

fn from_front() -> impl Strategy<Value = FromFront> {
    prop_oneof![
        Just(FromFront::Ready),
        Just(FromFront::Draining),
        Just(FromFront::Drained),
        any::<u32>().prop_map(|pool| FromFront::Want { pool }),
        any::<u32>().prop_map(|pool| FromFront::Renewed { pool }),
        any::<u32>().prop_map(|pool| FromFront::Left { pool }),
        (any::<u32>(), ".{0,40}").prop_map(|(pool, reason)| FromFront::Spoiled { pool, reason }),
        (vec(any::<u16>(), 0..9), any::<[u64; 2]>()).prop_map(|(loops, [access, error])| {
            FromFront::Turned { loops, lost: LostLines { access, error } }
        }),
        ".{0,40}".prop_map(|message| FromFront::Failed { message }),
        (any::<u32>(), ".{0,40}")
            .prop_map(|(question, command)| FromFront::Asks { question, command }),
        (any::<u32>(), any::<u16>(), status()).prop_map(|(question, upstream, status)| {
            FromFront::AddressStatus { question, upstream, status }
        }),
        (any::<u32>(), cache())
            .prop_map(|(question, figures)| FromFront::Cache { question, figures }),
        any::<(u32, u64)>().prop_map(|(question, count)| FromFront::Purged { question, count }),
        ".{0,40}".prop_map(|name| FromFront::Wants { name }),
        (any::<u32>(), Just(Ok(())))
            .prop_map(|(question, outcome)| FromFront::Answered { question, outcome }),
        (any::<u32>(), ".{0,40}")
            .prop_map(|(question, why)| FromFront::Answered { question, outcome: Err(why) }),
    ]
}

/// A message survives the wire, and no shorter or longer row of bytes is taken for it.
fn round_trip<M: Message + PartialEq + std::fmt::Debug>(message: &M) {
    let bytes = message.encode();
    assert_eq!(M::decode(&bytes).as_ref(), Ok(message));
    for length in 0..bytes.len() {
        assert!(M::decode(&bytes[..length]).is_err(), "cut to {length} bytes");
    }
    let longer = [bytes.as_slice(), b"\0"].concat();
    assert_eq!(M::decode(&longer), Err(BadMessage("trailing bytes")));
}

/// Bytes that decode are the bytes that encoding gives: there is one spelling for each message.
fn one_spelling<M: Message>(bytes: &[u8]) {
    if let Ok(message) = M::decode(bytes) {
        assert_eq!(message.encode(), bytes);
    }
}

proptest! {
    #[test]
    fn to_zygote_round_trip(message in to_zygote()) { round_trip(&message); }

    #[test]
    fn from_zygote_round_trip(message in from_zygote()) { round_trip(&message); }

    #[test]
    fn to_front_round_trip(message in to_front()) { round_trip(&message); }

    #[test]
    fn from_front_round_trip(message in from_front()) { round_trip(&message); }

    #[test]
    fn to_acme_round_trip(message in to_acme()) { round_trip(&message); }

    #[test]
    fn from_acme_round_trip(message in from_acme()) { round_trip(&message); }

    #[test]
    fn any_bytes_are_decoded_or_refused(tag in 0..16_u8, rest in vec(any::<u8>(), 0..64)) {
        let bytes = [&[VERSION, tag], rest.as_slice()].concat();
        one_spelling::<ToZygote>(&bytes);
        one_spelling::<FromZygote>(&bytes);
        one_spelling::<ToFront>(&bytes);
        one_spelling::<FromFront>(&bytes);
        one_spelling::<ToAcme>(&bytes);
        one_spelling::<FromAcme>(&bytes);
        let _ = ToZygote::decode(&rest);
    }
}

#[test]
fn refused() {
    let huge = u32::MAX.to_le_bytes();
    let many = [[VERSION, 1].as_slice(), &huge].concat();
    assert_eq!(ToZygote::decode(&many), Err(BadMessage("too many settings")));
    let long = [[VERSION, 4].as_slice(), &huge, b"x"].concat();
    assert_eq!(FromZygote::decode(&long), Err(BadMessage("text too long")));
    assert_eq!(ToZygote::decode(&[VERSION, 2, 0, 0, 0, 0, 0, 0]), Err(BadMessage("instance 0")));
    assert_eq!(ToZygote::decode(&[VERSION + 1, 4]), Err(BadMessage("another version")));
    assert_eq!(FromFront::decode(&[VERSION, 99]), Err(BadMessage("unknown tag")));
    assert_eq!(
        FromZygote::decode(&[VERSION, 1, 0, 1, 0, 0, 0, 0xff]),
        Err(BadMessage("not UTF-8"))
    );
    assert_eq!(ToFront::decode(&[VERSION, 3, 2, 0]), Err(BadMessage("not a flag")));
}

#[test]
fn a_long_failure_is_cut_at_a_character() {
    let message = "ä".repeat(MAX_TEXT);
    let cut = FromZygote::decode(&FromZygote::Failed { message }.encode()).unwrap();
    assert_eq!(cut, FromZygote::Failed { message: "ä".repeat(MAX_TEXT / 2) });
}

#[test]
fn over_a_channel() {
    let (supervisor, zygote) = Channel::pair().unwrap();
    send(&supervisor, &ToZygote::Quit, &[]).unwrap();
    assert!(matches!(receive(&zygote).unwrap(), Heard::Message(ToZygote::Quit, _)));
    zygote.send(b"rubbish", &[]).unwrap();
    assert_eq!(receive::<FromZygote>(&supervisor).unwrap_err().kind(), io::ErrorKind::InvalidData);
    drop(zygote);
    let closed = receive_within::<FromZygote>(&supervisor, Some(Duration::from_secs(1))).unwrap();
    assert!(matches!(closed, Heard::Closed));
}
