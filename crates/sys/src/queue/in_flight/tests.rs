use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use proptest::prelude::*;
use tokamak_cost::{Phase, RequestId};

use super::super::doing::State;
use super::super::record::{Field, Writer};
use super::super::{Claim, Consumer, Geometry, Job, Next, Outcome, Producer, Segment};
use super::InFlight;

/// A queue with two workers.
fn queue(slots: u16) -> (Arc<Segment>, Producer, [Consumer; 2]) {
    let geometry = Geometry::new(1, slots, 2, 8192, 8192).with_doorbells();
    // SAFETY: fresh eventfds that only this test owns.
    let bell = |_| unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_CLOEXEC)) };
    let bells = || (0..geometry.bells()).map(bell).collect::<Vec<_>>();
    let segment = Segment::create("test", geometry).unwrap().with_doorbells(&bells()).unwrap();
    let segment = Arc::new(segment);
    let consumer = |n| Consumer::new(segment.clone(), bells(), n, 7 + u32::from(n));
    let producer = Producer::new(segment.clone(), 0, Arc::default());
    (segment.clone(), producer, [consumer(0), consumer(1)])
}

fn record(method: &str, uri: &str) -> Vec<u8> {
    let mut writer = Writer::new();
    for field in Field::ALL {
        let value = match field {
            Field::Method => method,
            Field::Uri => uri,
            _ => "something else",
        };
        writer.field(*field, value.as_bytes());
    }
    writer.bytes().to_vec()
}

fn take(consumer: &mut Consumer) -> Job {
    match consumer.next(|_| Claim::Go, || panic!("nothing is queued")) {
        Next::Request(job) => job,
        Next::Retire => panic!("retired"),
    }
}

fn now(segment: &Segment) -> Vec<InFlight> {
    segment.in_flight(tokamak_cost::now()).collect()
}

#[test]
fn what_workers_hold_is_seen_while_they_hold_it() {
    let (segment, mut producer, [mut one, mut other]) = queue(4);
    assert_eq!(now(&segment), []);
    let ids =
        ["/a\n", "/b", "/c"].map(|uri| producer.submit(&record("GET", uri), 0, b"").unwrap().0);
    assert_eq!(now(&segment), [], "they are queued");
    let (first, second) = (take(&mut one), take(&mut other));
    let seen = now(&segment);
    let shown: Vec<_> = seen.iter().map(|it| (it.instance, &*it.method, &*it.uri)).collect();
    assert_eq!(shown, [(7, "GET", "/a\\n"), (8, "GET", "/b")]);
    assert!(seen.iter().all(|it| it.state == State::Running && it.since >= it.claimed_at));
    assert_eq!((seen[0].slot, seen[1].slot), (first.slot(), second.slot()));
    first.finish(Outcome::Complete);
    assert_eq!(now(&segment).len(), 1);
    // Between its answer and its next request a slot has no owner.
    producer.release(ids[0]);
    producer.submit(&record("POST", "/d"), 0, b"").unwrap();
    assert_eq!(now(&segment).len(), 1);
    let _third = take(&mut one);
    let uris: Vec<_> = now(&segment).into_iter().map(|it| it.uri).collect();
    assert_eq!(uris, ["/b", "/c"]);
}

#[test]
fn a_close_look_sees_all_that_front_and_worker_say() {
    let (segment, mut producer, [mut worker, _]) = queue(1);
    let mut ledger = tokamak_cost::Ledger::begin(tokamak_cost::now() - 9_000_000);
    ledger.stamp(Phase::Head, ledger.start() + 2_000_000);
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let mut writer = Writer::new();
    for field in Field::ALL {
        let value = if *field == Field::ScriptFilename { "/srv/a\n\"b\".php" } else { "x" };
        writer.field(*field, value.as_bytes());
    }
    writer.header(b"Traceparent", format!("00-{trace}-b7ad6b7169203331-01").as_bytes());
    producer.submit_booked(writer.bytes(), 0, b"", Some(&ledger)).unwrap();
    let job = take(&mut worker);
    let seen = now(&segment).remove(0);
    let later = seen.claimed_at + 3_000_000;
    let details = segment.details(&seen, later).unwrap();
    assert_eq!(details.script, r#"/srv/a\n\"b\".php"#);
    assert_eq!(details.trace.as_deref(), Some(trace));
    let [(Phase::Head, 2_000_000), (Phase::Queue, queue), (Phase::Php, 3_000_000)] =
        details.phases[..]
    else {
        panic!("{:?}", details.phases)
    };
    assert_eq!(queue, seen.claimed_at - ledger.start() - 2_000_000);
    assert_eq!((details.calls, details.longest_call), (None, None), "its site counts none");
    let other = InFlight { id: RequestId::new(seen.claimed_at, 7), ..seen.clone() };
    assert_eq!(segment.details(&other, later), None);
    job.finish(Outcome::Complete);
    assert_eq!(segment.details(&seen, later), None, "it has ended");
}

#[test]
fn a_request_over_fastcgi_has_its_target_among_its_parameters() {
    let (segment, mut producer, [mut worker, _]) = queue(1);
    let mut writer = Writer::new();
    writer.begin_parameters().parameter(b"QUERY_STRING", b"").parameter(b"REQUEST_URI", b"/a?b");
    writer.parameter(b"REQUEST_METHOD", b"PUT");
    producer.submit(writer.bytes(), 0, b"").unwrap();
    let _job = take(&mut worker);
    let seen = now(&segment);
    assert_eq!((&*seen[0].method, &*seen[0].uri), ("PUT", "/a?b"));
}

/// One thread submits, serves and answers as fast as it can, another one looks.
#[test]
fn a_reader_never_sees_a_mix_of_two_requests() {
    let (segment, mut producer, [mut worker, _]) = queue(2);
    let (is_over, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|threads| {
        // Dropped by a failed assertion too: the scope waits for the other thread.
        let _end = EndsWithIt(&is_over);
        let server = threads.spawn(|| {
            let mut n = 0u64;
            while !is_over.load(Ordering::Relaxed) {
                n += 1;
                // Different lengths, and every byte of a target says which one it is.
                let letter = char::from(b'a' + (n % 26) as u8);
                let uri = format!("/{}", letter.to_string().repeat(1 + (n * 7 % 200) as usize));
                let method = if n % 26 < 13 { "GET" } else { "POST" };
                let (id, _) = producer.submit(&record(method, &uri), 0, b"").unwrap();
                let job = take(&mut worker);
                let word = ((n % 26) << 16) | 3;
                // SAFETY: the slot's own words, while the job is not finished.
                let doing = unsafe { &*job.doing() };
                doing.since.store(tokamak_cost::now(), Ordering::Release);
                doing.state.store(word, Ordering::Release);
                job.finish(Outcome::Complete);
                producer.drain(id, &mut Vec::new()).unwrap();
                producer.release(id);
                answered.store(n, Ordering::Relaxed);
            }
        });
        let mut seen = 0;
        while seen < 500 || answered.load(Ordering::Relaxed) < 2000 {
            assert!(!server.is_finished(), "the thread that serves has ended");
            for one in now(&segment) {
                seen += 1;
                let letters = one.uri.strip_prefix('/').unwrap().as_bytes();
                let first = letters[0];
                assert!(letters.iter().all(|letter| *letter == first), "{one:?}");
                let is_get = first - b'a' < 13;
                assert_eq!(one.method, if is_get { "GET" } else { "POST" }, "{one:?}");
                assert_eq!(one.instance, 7);
            }
        }
    });
}

/// Says that something is over when it is dropped.
struct EndsWithIt<'a>(&'a AtomicBool);

impl Drop for EndsWithIt<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

proptest! {
    /// A worker may write anything into the words that are read.
    #[test]
    fn whatever_a_worker_writes_is_shown_or_left_out(
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
        words: [u64; 4],
        len: u32,
        owner in prop_oneof![Just(7u32), any::<u32>()],
    ) {
        let (segment, mut producer, [mut worker, _]) = queue(1);
        producer.submit(&bytes, 0, b"").unwrap();
        let job = take(&mut worker);
        let slot = segment.slot(job.slot());
        slot.worker.doing.state.store(words[0], Ordering::Relaxed);
        slot.worker.doing.since.store(words[1], Ordering::Relaxed);
        slot.worker.claimed_at.store(words[2], Ordering::Relaxed);
        slot.record_len.store(len, Ordering::Relaxed);
        for peer in segment.peers_of(0).unwrap() {
            peer.len.store(len, Ordering::Relaxed);
            peer.owner.store(owner, Ordering::Relaxed);
        }
        for one in segment.in_flight(words[3]) {
            prop_assert!(one.since <= words[3] && one.uri.len() <= 4 * 256);
            prop_assert!(one.uri.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        }
    }
}
