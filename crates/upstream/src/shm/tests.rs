use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokamak_sys::queue::{Claim, Consumer, Geometry, Job, Next, Search, Segment, Step};

use super::*;
use crate::body::Body;
use crate::spool::SpoolQuota;
use crate::spool::tests::quota;

mod flows;

const BOUNDS: Bounds = Bounds {
    queue: 50_000_000,
    inbox: 100_000,
    queued: 4,
    share: 2,
    concurrency: 1,
    has_slow_log: false,
};

/// As [`with_pool`] and with files.
fn with_files<F: Future<Output = ()> + Send + 'static>(
    quota: &Arc<SpoolQuota>,
    work: impl Fn(Job) + Send + 'static,
    test: impl FnOnce(Arc<QueueClient>, Arc<Segment>) -> F,
) {
    with_pool_of(Some(quota.clone()), work, test);
}

/// As [`with_pool_of`] without files.
fn with_pool<F: Future<Output = ()> + Send + 'static>(
    work: impl Fn(Job) + Send + 'static,
    test: impl FnOnce(Arc<QueueClient>, Arc<Segment>) -> F,
) {
    with_pool_of(None, work, test);
}

/// A runtime whose loop sleeps and wakes through the bell, as the front's does, with a worker
/// thread that treats each request with `work`.
fn with_pool_of<F: Future<Output = ()> + Send + 'static>(
    quota: Option<Arc<SpoolQuota>>,
    work: impl Fn(Job) + Send + 'static,
    test: impl FnOnce(Arc<QueueClient>, Arc<Segment>) -> F,
) {
    let segment = Arc::new(Segment::create("test", Geometry::new(1, 8, 4, 8192, 8192)).unwrap());
    let bell = tokamak_sys::channel::bell().unwrap();
    let mut consumer = Consumer::new(segment.clone(), vec![bell.try_clone().unwrap()], 0, 1);
    let worker = std::thread::spawn(move || {
        while let Next::Request(job) = consumer.next(|_| Claim::Go, || ()) {
            work(job);
        }
    });
    let source = Source { number: 0, segment: segment.clone(), tickets: Arc::default() };
    let gate = Arc::new(Gate::new(source, 0, BOUNDS, quota, None, None));
    let hook = Notifier::new(vec![gate.clone()].into());
    let awake = hook.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_park(move || hook.before_sleep())
        .on_thread_unpark(move || awake.after_sleep())
        .build()
        .unwrap();
    let test = test(gate.client(), segment.clone());
    runtime.block_on(async move {
        let _bells = Notifier::listen(vec![bell]).unwrap();
        tokio::time::timeout(Duration::from_secs(10), tokio::spawn(test))
            .await
            .expect("stuck")
            .unwrap();
    });
    segment.retire(0);
    worker.join().unwrap();
}

async fn body(exchange: &mut QueuedRequest) -> Result<(u16, Vec<u8>, Outcome), WorkerError> {
    let (mut status, mut out) = (0, Vec::new());
    loop {
        match poll_fn(|c| exchange.poll_event(c)).await? {
            Event::Head(head) => status = head.status(),
            Event::Body(bytes) => out.extend_from_slice(&bytes),
            Event::Interim(_) | Event::Stderr(_) | Event::Usage(_) => {}
            Event::End(outcome) => return Ok((status, out, outcome)),
        }
    }
}

fn echo(mut job: Job) {
    let mut piece = [0; 5000];
    job.send_head(200, std::iter::empty()).unwrap();
    while let Ok(n @ 1..) = job.read_body(&mut piece) {
        if job.write(&piece[..n]).is_err() {
            return;
        }
    }
    job.finish(Outcome::Complete);
}

#[test]
fn small_and_large_bodies_come_back() {
    with_pool(echo, |client, _| async move {
        for len in [0usize, 5, 8000, 50_000, 3_000_000] {
            let sent = Bytes::from((0..len).map(|n| n as u8).collect::<Vec<_>>());
            let mut exchange =
                client.submit(b"r", Body::Memory(sent.clone())).map_err(|e| e.0).unwrap();
            let (status, got, outcome) = body(&mut exchange).await.unwrap();
            assert_eq!((status, outcome), (200, Outcome::Complete));
            assert!(got == sent, "{len} bytes");
        }
        assert_eq!(client.running(), 0);
    });
}

#[test]
fn an_unread_response_holds_its_worker_only_beyond_the_bound() {
    let work = |mut job: Job| {
        let size = job.record()[0] as usize * 1000;
        job.send_head(200, std::iter::empty()).unwrap();
        let outcome =
            if job.write(&vec![b'x'; size]).is_ok() { Outcome::Complete } else { Outcome::Broken };
        job.finish(outcome);
    };
    with_pool(work, |client, segment| async move {
        let within = client.submit(&[90], Body::Empty).map_err(|e| e.0).unwrap();
        while segment.board(0).requests == 0 && client.running() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let beyond = client.submit(&[250], Body::Empty).map_err(|e| e.0).unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(client.running(), 1, "the worker waits for room");
        drop(beyond);
        while client.running() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut within = within;
        assert_eq!(body(&mut within).await.unwrap().1.len(), 90_000);
    });
}

#[test]
fn an_unread_response_goes_to_a_file() {
    const LENGTH: u32 = 3_000_000;
    let work = |mut job: Job| {
        job.send_head(200, std::iter::empty()).unwrap();
        for number in 0..LENGTH / 4 {
            if job.write(&number.to_le_bytes()).is_err() {
                return;
            }
        }
        job.finish(Outcome::Complete);
    };
    let quota = quota(u64::MAX);
    let spooled = quota.clone();
    with_files(&quota, work, |client, _| async move {
        let pause = || tokio::time::sleep(Duration::from_millis(1));
        let slow = client.submit(b"r", Body::Empty).map_err(|e| e.0).unwrap();
        let mut other = client.submit(b"r", Body::Empty).map_err(|e| e.0).unwrap();
        // One worker: the second response comes when the first is done, which no client reads.
        assert_eq!(body(&mut other).await.unwrap().1.len(), LENGTH as usize);
        drop(other);
        assert!(spooled.taken() > 2_000_000, "{}", spooled.taken());
        let mut slow = slow;
        let (status, got, outcome) = body(&mut slow).await.unwrap();
        assert_eq!((status, outcome), (200, Outcome::Complete));
        let expected: Vec<u8> = (0..LENGTH / 4).flat_map(u32::to_le_bytes).collect();
        assert!(got == expected);
        assert_eq!(spooled.taken(), 0);
        drop(slow);

        // Who leaves gives the space back.
        let gone = client.submit(b"r", Body::Empty).map_err(|e| e.0).unwrap();
        while spooled.taken() == 0 {
            pause().await;
        }
        drop(gone);
        while client.running() > 0 || spooled.taken() > 0 {
            pause().await;
        }
    });
}

/// What does not fit into files waits in the ring, and nothing is lost.
#[test]
fn files_may_have_too_little_room() {
    let work = |mut job: Job| {
        job.send_head(200, std::iter::empty()).unwrap();
        job.write(&vec![b'x'; 2_000_000]).unwrap();
        job.finish(Outcome::Complete);
    };
    let quota = quota(500_000);
    let spooled = quota.clone();
    with_files(&quota, work, |client, _| async move {
        let mut slow = client.submit(b"r", Body::Empty).map_err(|e| e.0).unwrap();
        while spooled.taken() < 350_000 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(client.running(), 1, "the worker waits for room");
        assert_eq!(body(&mut slow).await.unwrap().1.len(), 2_000_000);
        assert_eq!(spooled.taken(), 0);
    });
}

#[test]
fn a_wait_that_is_too_long_ends_and_the_queue_is_bounded() {
    let segment = Arc::new(Segment::create("test", Geometry::new(1, 8, 1, 8192, 8192)).unwrap());
    let client = QueueClient::new(segment, 0, Arc::default(), BOUNDS, None, None);
    let mut waiting: Vec<_> =
        (0..4).map(|_| client.submit(b"r", Body::Empty).map_err(|e| e.0).unwrap()).collect();
    assert_eq!(client.submit(b"r", Body::Empty).map(drop).map_err(|e| e.0), Err(Refused::Full));
    client.tick(tokamak_cost::now() + 2 * BOUNDS.queue);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    for exchange in &mut waiting {
        assert!(matches!(
            exchange.poll_event(&mut context),
            std::task::Poll::Ready(Err(WorkerError::Waited))
        ));
    }
    drop(waiting);
    assert_eq!(client.running(), 0);
    assert!(client.submit(b"r", Body::Empty).is_ok());
}

#[test]
fn an_event_loop_may_have_what_others_leave_and_always_its_share() {
    let segment = Arc::new(Segment::create("test", Geometry::new(2, 8, 1, 8192, 8192)).unwrap());
    let tickets = Arc::default();
    let rims = [0, 1].map(|index| {
        QueueClient::new(segment.clone(), index, Arc::clone(&tickets), BOUNDS, None, None)
    });
    let submit = |index: usize| rims[index].submit(b"r", Body::Empty).map_err(|e| e.0);
    let one: Vec<_> = (0..4).map(|_| submit(0).unwrap()).collect();
    assert_eq!(submit(0).map(drop), Err(Refused::Full));
    let others = [submit(1).unwrap(), submit(1).unwrap()];
    assert_eq!(submit(1).map(drop), Err(Refused::Full));
    drop(one);
    assert!(submit(0).is_ok(), "nothing waits before the others");
    drop(others);
}

#[test]
fn a_dead_workers_request_fails() {
    let segment = Arc::new(Segment::create("test", Geometry::new(1, 8, 2, 8192, 8192)).unwrap());
    let client = QueueClient::new(segment.clone(), 0, Arc::default(), BOUNDS, None, None);
    let mut exchange = client.submit(b"r", Body::Empty).map_err(|e| e.0).unwrap();
    let mut consumer = Consumer::new(segment, vec![tokamak_sys::channel::bell().unwrap()], 0, 5);
    let Next::Request(job) = consumer.next(|_| Claim::Go, || ()) else { panic!("no request") };
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    client.worker_died(4, Death::Crashed);
    assert!(exchange.poll_event(&mut context).is_pending(), "another worker's death is no concern");
    client.worker_died(5, Death::TimedOut);
    let fault = WorkerError::Died { death: Death::TimedOut, answered: false };
    assert!(
        matches!(exchange.poll_event(&mut context), std::task::Poll::Ready(Err(f)) if f == fault)
    );
    assert_eq!(client.running(), 0);
    std::mem::forget(job);
}

#[test]
fn a_death_is_of_the_request_that_ran() {
    use Death::{Crashed, CrashedByIt, EndedByAnother, TimedOut};
    for (death, is_running, is_overdue, expected) in [
        (Crashed, None, true, Crashed),
        (Crashed, Some(true), false, CrashedByIt),
        (Crashed, Some(false), true, EndedByAnother),
        (TimedOut, None, true, TimedOut),
        (TimedOut, Some(true), true, TimedOut),
        (TimedOut, Some(false), true, TimedOut),
        (TimedOut, Some(false), false, EndedByAnother),
    ] {
        assert_eq!(death.as_seen_by(is_running, is_overdue), expected);
    }
}

#[test]
fn a_queue_that_is_replaced_answers_what_it_has_and_gets_no_more() {
    let source = |number| {
        let segment =
            Arc::new(Segment::create("test", Geometry::new(1, 8, 2, 8192, 8192)).unwrap());
        Source { number, segment, tickets: Arc::default() }
    };
    let worker = |source: &Source, instance| {
        let bell = tokamak_sys::channel::bell().unwrap();
        Consumer::new(source.segment.clone(), vec![bell], 0, instance)
    };
    let take =
        |worker: &mut Consumer| match worker.next(|_| Claim::Go, || panic!("nothing is queued")) {
            Next::Request(job) => job,
            Next::Retire => panic!("retired"),
        };
    let (first, second) = (source(1), source(2));
    let gate = Gate::new(first.clone(), 0, BOUNDS, None, None, None);
    let submit = || gate.submit(b"r", Body::Empty, Metadata::default()).map_err(|e| e.0).unwrap();
    let (mut answered, mut lost) = (submit(), submit());
    let left = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let count = left.clone();
    let drained = OnLastDrop::new(move || {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    });
    gate.renew(7, second.clone(), drained.clone());
    assert_eq!(second.segment.depth(), 0, "another queue was meant");
    gate.renew(1, second.clone(), drained);
    let mut new = submit();
    gate.attend();
    assert_eq!((first.segment.depth(), second.segment.depth()), (2, 1));

    take(&mut worker(&first, 5)).finish(Outcome::Complete);
    take(&mut worker(&second, 5)).finish(Outcome::Complete);
    gate.attend();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    for exchange in [&mut answered, &mut new] {
        assert!(matches!(
            exchange.poll_event(&mut context),
            std::task::Poll::Ready(Ok(Event::End(_)))
        ));
    }
    gate.tick(tokamak_cost::now());
    assert_eq!(left.load(std::sync::atomic::Ordering::Relaxed), 0, "a request is left");
    gate.forget(2);
    assert!(lost.poll_event(&mut context).is_pending());
    gate.forget(1);
    let fault = WorkerError::Died { death: Death::Crashed, answered: false };
    assert!(matches!(lost.poll_event(&mut context), std::task::Poll::Ready(Err(f)) if f == fault));
    assert_eq!(left.load(std::sync::atomic::Ordering::Relaxed), 1);
}

/// A queue client with one worker that does what the test says, and an exchange that it has
/// claimed.
fn claimed(inbox: usize) -> (Arc<QueueClient>, Arc<Segment>, std::fs::File, QueuedRequest, Job) {
    let segment = Arc::new(Segment::create("test", Geometry::new(1, 4, 2, 8192, 8192)).unwrap());
    let bell = tokamak_sys::channel::bell().unwrap();
    let bounds = Bounds { inbox, ..BOUNDS };
    let client = QueueClient::new(segment.clone(), 0, Arc::default(), bounds, None, None);
    let exchange = client.submit(b"r", Body::Empty).map_err(|e| e.0).unwrap();
    let mut consumer = Consumer::new(segment.clone(), vec![bell.try_clone().unwrap()], 0, 5);
    let Next::Request(job) = consumer.next(|_| Claim::Go, || ()) else { panic!("no request") };
    (client, segment, bell.into(), exchange, job)
}

#[test]
fn a_response_that_was_finished_is_whole_though_its_worker_ends_before_a_slow_client_has_it() {
    let (client, _segment, _bell, mut exchange, mut job) = claimed(1000);
    job.send_head(200, std::iter::empty()).unwrap();
    job.write(&[b'x'; 2000]).unwrap();
    job.flush().unwrap();
    client.fall_asleep();
    // The inbox is beyond its bound now, so this stays in the ring.
    job.write(&[b'y'; 3000]).unwrap();
    job.finish(Outcome::Complete);
    client.fall_asleep();
    assert_eq!(client.running(), 1);
    client.worker_died(5, Death::Crashed);
    assert_eq!(client.running(), 0);
    let mut future = std::pin::pin!(body(&mut exchange));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(Ok((200, bytes, Outcome::Complete))) =
        future.as_mut().poll(&mut context)
    else {
        panic!("the response is not whole");
    };
    assert_eq!(bytes.len(), 5000);
}

#[test]
fn a_body_in_several_pieces_is_whole_once_the_worker_has_ended_it() {
    let (client, _segment, _bell, mut exchange, mut job) = claimed(10_000);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    job.send_head(200, std::iter::empty()).unwrap();
    job.write(b"ab").unwrap();
    job.flush().unwrap();
    client.fall_asleep();
    let head = exchange.poll_event(&mut context);
    assert!(matches!(head, std::task::Poll::Ready(Ok(Event::Head(_)))));
    assert_eq!(exchange.whole(), None, "more may come");
    let first = exchange.poll_event(&mut context);
    assert!(matches!(first, std::task::Poll::Ready(Ok(Event::Body(bytes))) if bytes == "ab"));
    for piece in [b"cd", b"ef", b"gh"] {
        job.write(piece).unwrap();
        job.write_stderr(b"aside").unwrap();
    }
    job.finish(Outcome::Complete);
    client.fall_asleep();
    let second = exchange.poll_event(&mut context);
    assert!(matches!(second, std::task::Poll::Ready(Ok(Event::Body(bytes))) if bytes == "cd"));
    assert_eq!(exchange.whole(), Some((Bytes::from("efgh"), Outcome::Complete)));
}

#[test]
fn trailers_may_come_at_any_time_and_in_parts() {
    let (client, _segment, _bell, mut exchange, mut job) = claimed(10_000);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    job.write_trailers(b"a: 1\r\n").unwrap();
    job.send_head(200, std::iter::empty()).unwrap();
    job.write(b"body").unwrap();
    assert_eq!(job.write_trailers_now(b"b: ").unwrap(), 3);
    job.write_trailers(b"2\r\n").unwrap();
    job.finish(Outcome::Complete);
    client.fall_asleep();
    let head = exchange.poll_event(&mut context);
    assert!(matches!(head, std::task::Poll::Ready(Ok(Event::Head(_)))));
    assert_eq!(exchange.whole(), None, "the body is not all of it");
    let rest = std::pin::pin!(body(&mut exchange)).poll(&mut context);
    assert_eq!(rest, std::task::Poll::Ready(Ok((0, b"body".to_vec(), Outcome::Complete))));
    assert_eq!(exchange.take_trailers(), b"a: 1\r\nb: 2\r\n");
    assert_eq!(exchange.take_trailers(), b"");
}

#[test]
fn trailers_cannot_fill_the_memory() {
    let (client, _segment, _bell, mut exchange, mut job) = claimed(20_000);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    job.send_head(200, std::iter::empty()).unwrap();
    for _ in 0..3 {
        job.write_trailers(&[b'x'; 3000]).unwrap();
        job.flush().unwrap();
        client.fall_asleep();
        client.wake_up();
    }
    let head = exchange.poll_event(&mut context);
    assert!(matches!(head, std::task::Poll::Ready(Ok(Event::Head(_)))));
    let rest = std::pin::pin!(body(&mut exchange)).poll(&mut context);
    assert_eq!(rest, std::task::Poll::Ready(Err(WorkerError::Malformed)));
}

#[test]
fn the_bell_is_rung_after_news_that_woke_no_task() {
    use std::io::Read;
    let (client, _segment, mut bell, exchange, mut job) = claimed(1000);
    job.send_head(200, std::iter::empty()).unwrap();
    job.flush().unwrap();
    // The request is not polled, as its client is slow. The event loop sleeps although there is
    // news.
    client.fall_asleep();
    job.finish(Outcome::Complete);
    assert!(bell.read(&mut [0; 8]).is_ok(), "the event loop sleeps on");
    drop(exchange);
}

#[test]
fn an_event_loop_that_wakes_takes_in_what_it_was_rung_for() {
    let (client, _segment, _bell, mut exchange, mut job) = claimed(1000);
    client.fall_asleep();
    job.send_head(200, std::iter::empty()).unwrap();
    job.finish(Outcome::Complete);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(exchange.poll_event(&mut context).is_pending());
    client.wake_up();
    assert!(exchange.poll_event(&mut context).is_ready());
}

#[test]
fn a_mark_that_is_left_on_a_free_slot_loses_no_answer_of_the_next_request() {
    let (client, segment, bell, mut exchange, mut job) = claimed(1000);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    job.send_head(200, std::iter::empty()).unwrap();
    job.flush().unwrap();
    client.attend();
    job.finish(Outcome::Complete);
    // The exchange sees the end when it makes room for more, and the slot is free before the loop
    // has looked at the mark.
    assert!(exchange.poll_event(&mut context).is_ready());
    assert_eq!(client.running(), 0);
    client.fall_asleep();
    client.wake_up();

    let mut next = client.submit(b"r", Body::Empty).map_err(|e| e.0).unwrap();
    client.fall_asleep();
    assert!(next.poll_event(&mut context).is_pending(), "nobody has answered yet");
    let mut consumer = Consumer::new(segment, vec![bell.into()], 0, 6);
    let Next::Request(job) = consumer.next(|_| Claim::Go, || ()) else { panic!("no request") };
    job.finish(Outcome::Complete);
    client.wake_up();
    assert!(next.poll_event(&mut context).is_ready());
}

#[test]
fn a_slot_with_a_damaged_response_comes_back_when_its_worker_is_done() {
    use std::os::unix::fs::FileExt;
    let (client, segment, _bell, mut exchange, mut job) = claimed(1000);
    job.write(&[b'x'; 4000]).unwrap();
    job.finish(Outcome::Complete);
    // The worker's position, which stands nowhere else, becomes one that no sound worker writes.
    let memory: std::fs::File = segment.fd().try_clone_to_owned().unwrap().into();
    let mut bytes = vec![0; memory.metadata().unwrap().len() as usize];
    memory.read_exact_at(&mut bytes, 0).unwrap();
    let places =
        (0..bytes.len()).step_by(8).filter(|at| bytes[*at..*at + 8] == 4008u64.to_le_bytes());
    places.for_each(|at| memory.write_all_at(&[0xff; 8], at as u64).unwrap());
    client.attend();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(matches!(
        exchange.poll_event(&mut context),
        std::task::Poll::Ready(Err(WorkerError::Malformed))
    ));
    assert_eq!(client.running(), 0);
}

/// A pool whose worker writes anything anywhere into the shared memory costs that pool its answers,
/// and no other part anything: no panic (of an overflow, in this build), no endless loop, no access
/// beyond the memory.
#[test]
fn a_worker_that_writes_anywhere_harms_only_itself() {
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::{AtomicBool, Ordering};
    let segment = Arc::new(Segment::create("test", Geometry::new(2, 8, 5, 8192, 8192)).unwrap());
    let memory: std::fs::File = segment.fd().try_clone_to_owned().unwrap().into();
    let len = memory.metadata().unwrap().len();
    let slots = 16 * (4096 + 8192 + 8192);
    let stop = Arc::new(AtomicBool::new(false));
    let vandals: Vec<_> = (1..3u64)
        .map(|seed| {
            let (memory, stop) = (memory.try_clone().unwrap(), stop.clone());
            std::thread::spawn(move || {
                let mut state = seed;
                let mut random = move || {
                    // xorshift64
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    state
                };
                while !stop.load(Ordering::Relaxed) {
                    let value = match random() % 9 {
                        8 => ((random() % 64) << 32) | 3,
                        0 => u64::MAX,
                        1 => 0,
                        2 => 1,
                        3 => random() % 100_000,
                        4 => ((random() % 64) << 32) | (random() % 16),
                        5 => (random() % 64) << 32,
                        6 => u64::MAX - random() % 16,
                        _ => random(),
                    };
                    // Most of it where the numbers are: the header, the cells, the board, the heads
                    // of the slots.
                    let at = match random() % 8 {
                        0 => random() % len,
                        1..4 => (random() % (len - slots)) & !3,
                        _ => len - slots + random() % 16 * (slots / 16) + ((random() % 1024) & !7),
                    };
                    memory.write_at(&value.to_le_bytes(), at.min(len - 8)).unwrap();
                }
            })
        })
        .collect();

    let new = || QueueClient::new(segment.clone(), 0, Arc::default(), BOUNDS, None, None);
    let mut client = new();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let (mut exchanges, mut refused) = (Vec::<QueuedRequest>::new(), 0);
    let (mut answers, mut bytes, mut slowest) = (0, 0, Duration::ZERO);
    let end = std::time::Instant::now() + Duration::from_secs(3);
    for round in 0u32.. {
        let began = std::time::Instant::now();
        if began > end {
            break;
        }
        let body =
            if round % 3 == 0 { Body::Memory(vec![b'b'; 20_000].into()) } else { Body::Empty };
        match client.submit(&[b'r'; 300], body) {
            Ok(exchange) => exchanges.push(exchange),
            Err(_) => refused += 1,
        }
        if refused > 5 {
            // The queue looks full for ever, or all slots are held by workers that never were:
            // begin anew.
            exchanges.clear();
            memory.write_all_at(&vec![0; (len - slots) as usize], 0).unwrap();
            (client, refused) = (new(), 0);
        }
        client.fall_asleep();
        client.wake_up();
        exchanges.retain_mut(|exchange| {
            for _ in 0..20 {
                match exchange.poll_event(&mut context) {
                    std::task::Poll::Ready(Ok(Event::End(_)) | Err(_)) => {
                        answers += 1;
                        return false;
                    }
                    std::task::Poll::Ready(Ok(Event::Head(head) | Event::Interim(head))) => {
                        bytes += head
                            .headers()
                            .map(|(name, value)| name.len() + value.len())
                            .sum::<usize>();
                    }
                    std::task::Poll::Ready(Ok(Event::Body(piece) | Event::Stderr(piece))) => {
                        bytes += piece.len()
                    }
                    std::task::Poll::Ready(Ok(Event::Usage(frame))) => {
                        bytes += frame.usage().script.len()
                    }
                    std::task::Poll::Pending => break,
                }
            }
            let _ = exchange.whole();
            true
        });
        if round % 5 == 0 && !exchanges.is_empty() {
            exchanges.swap_remove(round as usize % exchanges.len());
        }
        client.worker_died(round % 64, Death::Crashed);
        client.attend();
        if round % 50 == 0 {
            client.tick(tokamak_cost::now());
        }
        // What the supervisor does with this memory.
        let place = (round % 5) as u16;
        assert!(segment.shown_request(place).uri.len() <= 4 * 256);
        let _ = segment.depth();
        segment.retire(place);
        segment.clear_place(place);
        slowest = slowest.max(began.elapsed());
    }
    stop.store(true, Ordering::Relaxed);
    vandals.into_iter().for_each(|vandal| vandal.join().unwrap());
    assert!(slowest < Duration::from_secs(2), "it was held up for {slowest:?}");
    assert!(answers > 0, "only {answers} answers, {bytes} bytes: nothing was tested");
}

/// A queue with a worker that sleeps, and a client.
fn beside_a_sleeper(bounds: Bounds) -> (Arc<QueueClient>, Consumer, Search) {
    let segment = Arc::new(Segment::create("test", Geometry::new(1, 8, 4, 8192, 8192)).unwrap());
    let bell = tokamak_sys::channel::bell().unwrap();
    let mut consumer = Consumer::new(segment.clone(), vec![bell], 0, 1);
    consumer.board().enter_at(1, 0);
    let client = QueueClient::new(segment, 0, Arc::default(), bounds, None, None);
    let mut search = Search::default();
    while !matches!(advance(&mut consumer, &mut search), Step::Sleep) {}
    (client, consumer, search)
}

fn advance(consumer: &mut Consumer, search: &mut Search) -> Step {
    consumer.advance(search, &mut |_| Claim::Go, &mut || (), || 0)
}

/// What is found in more looks than are needed.
fn look(client: &QueueClient) -> Option<&'static str> {
    (0..20).find_map(|_| {
        client.tick(1);
        client.examine(1)
    })
}

#[test]
fn a_worker_that_is_stopped_as_soon_as_it_has_claimed_a_request_is_noticed() {
    let (client, mut consumer, mut search) = beside_a_sleeper(BOUNDS);
    let _request = client.submit(b"record", Body::Empty).unwrap();
    // It gets up, looks, and claims; that it is busy it has not said.
    for _ in 0..3 {
        assert!(matches!(advance(&mut consumer, &mut search), Step::Done));
    }
    assert_eq!(
        look(&client),
        Some("a request is in the hands of a worker that does not work on it")
    );
}

#[test]
fn a_response_that_a_slow_client_has_yet_to_read_is_in_nobodys_hands() {
    let (client, mut consumer, mut search) = beside_a_sleeper(Bounds { inbox: 1, ..BOUNDS });
    let _request = client.submit(b"record", Body::Empty).unwrap();
    let mut job = loop {
        if let Step::Found(Next::Request(job)) = advance(&mut consumer, &mut search) {
            break job;
        }
    };
    job.send_head(200, std::iter::empty()).unwrap();
    job.flush().unwrap();
    client.attend();
    job.finish(Outcome::Complete);
    client.attend();
    assert_eq!(client.running(), 1, "the slot is held");
    while !matches!(advance(&mut consumer, &mut search), Step::Sleep) {}
    assert_eq!(look(&client), None);
}
