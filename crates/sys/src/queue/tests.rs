use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;

fn bells(n: u16) -> Vec<OwnedFd> {
    // SAFETY: fresh eventfds that only this test owns.
    (0..n).map(|_| unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_CLOEXEC)) }).collect()
}

fn pair(geometry: Geometry) -> (Producer, Consumer) {
    let segment = Arc::new(Segment::create("test", geometry).unwrap());
    let producer = Producer::new(segment.clone(), 0, Arc::default());
    (producer, Consumer::new(segment, bells(geometry.loops), 0, 7))
}

fn small() -> Geometry {
    Geometry::new(1, 4, 2, 8192, 8192)
}

fn take(consumer: &mut Consumer) -> Job {
    match consumer.next(|_| Claim::Go, || panic!("nothing queued")) {
        Next::Request(job) => job,
        Next::Retire => panic!("retired"),
    }
}

fn body_of(producer: &mut Producer, id: SlotId, out: &mut Vec<u8>) -> Drained {
    let mut raw = Vec::new();
    let drained = producer.drain(id, &mut raw).unwrap();
    let mut rest = &raw[..];
    while !rest.is_empty() {
        let (frame, tail) = split_frame(rest).unwrap();
        if let Frame::Body(bytes) = frame {
            out.extend_from_slice(bytes)
        }
        rest = tail;
    }
    drained
}

#[test]
fn a_request_goes_and_its_response_comes_back() {
    let (mut producer, mut consumer) = pair(small());
    let (id, taken) = producer.submit(b"record", 4, b"body").unwrap();
    assert_eq!((taken, producer.holder(id)), (4, Holder::Queued));

    let mut job = take(&mut consumer);
    assert_eq!(producer.holder(id), Holder::Worker(7));
    assert_eq!(job.record(), b"record");
    let mut body = [0; 10];
    assert_eq!(job.read_body(&mut body), Ok(4));
    assert_eq!(&body[..4], b"body");
    assert_eq!(job.read_body(&mut body), Ok(0));
    job.send_head(201, [(&b"X-A"[..], &b"1"[..])].into_iter()).unwrap();
    job.write(b"hel").unwrap();
    job.write(b"lo").unwrap();
    assert!(!producer.has_response(id), "nothing is published before flush or finish");
    job.finish(Outcome::Complete);

    assert!(producer.take_ready().eq([id]));
    let mut raw = Vec::new();
    let end = producer.drain(id, &mut raw).unwrap();
    let (Frame::Head(head), rest) = split_frame(&raw).unwrap() else { panic!("no head first") };
    assert!(head.status == 201 && head.headers().eq([(&b"X-A"[..], &b"1"[..])]));
    assert_eq!(split_frame(rest).unwrap(), (Frame::Body(b"hello"), &b""[..]));
    assert!(matches!(end, Drained::Finished { outcome: Outcome::Complete, .. }));
    producer.release(id);
    assert_eq!(producer.free_slots(), 4);
}

/// The worker gets the addresses before the claim, which is the first to touch that memory.
#[test]
fn a_worker_learns_the_pages_of_a_request_and_its_response_before_it_reads_them() {
    let (mut producer, mut consumer) = pair(small());
    producer.submit(b"first", 0, b"").unwrap();
    producer.submit(b"second", 0, b"").unwrap();
    let segment = consumer_segment(&producer);
    for record in [b"first".as_slice(), b"second"] {
        let mut pages = None;
        let note = |slot| {
            pages = Some(segment.usual_pages(slot));
            Claim::Go
        };
        let Next::Request(mut job) = consumer.next(note, || ()) else { panic!("retired") };
        job.write(b"response").unwrap();
        let [request, response] = pages.expect("the worker was asked").map(|(at, len)| {
            assert!(at.addr().is_multiple_of(4096) && len.is_multiple_of(4096));
            // SAFETY: inside the mapping; nothing writes to it meanwhile.
            unsafe { std::slice::from_raw_parts(at, len) }
        });
        let holds = |pages: &[u8], text: &[u8]| pages.windows(text.len()).any(|w| w == text);
        assert!(request.as_ptr_range().contains(&job.record().as_ptr()));
        assert!(holds(request, record) && holds(response, b"response"));
    }
}

#[test]
fn requests_are_served_in_order_and_withdrawn_ones_are_skipped() {
    let (mut producer, mut consumer) = pair(small());
    let ids: Vec<_> = (0..4u8).map(|n| producer.submit(&[n], 0, b"").unwrap().0).collect();
    assert_eq!(producer.submit(b"x", 0, b"").unwrap_err(), Full::Slots);
    assert!(producer.withdraw(ids[1]));
    producer.release(ids[1]);
    let again = producer.submit(&[9], 0, b"").unwrap().0;
    let order: Vec<u8> = (0..4)
        .map(|_| {
            let job = take(&mut consumer);
            let n = job.record()[0];
            job.finish(Outcome::Complete);
            n
        })
        .collect();
    assert_eq!(order, [0, 2, 3, 9]);
    assert!(!producer.withdraw(again), "a claimed request cannot be taken back");
}

#[test]
fn withdrawn_requests_never_fill_the_queue() {
    let (mut producer, mut consumer) = pair(small());
    let (first, _) = producer.submit(b"first", 0, b"").unwrap();
    let job = take(&mut consumer);
    for _ in 0..1000 {
        let (id, _) = producer.submit(b"x", 0, b"").unwrap();
        assert!(producer.withdraw(id));
        producer.release(id);
    }
    job.finish(Outcome::Complete);
    producer.release(first);
    producer.submit(b"last", 0, b"").unwrap();
    assert_eq!(take(&mut consumer).record(), b"last");
}

#[test]
fn large_bodies_and_responses_stream_through_small_rings() {
    let (mut producer, mut consumer) = pair(small());
    let sent: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
    let (id, mut fed) = producer.submit(b"r", sent.len() as u64, &sent).unwrap();
    assert!(fed < sent.len());
    let echo = std::thread::spawn(move || {
        let mut job = take(&mut consumer);
        let mut piece = [0; 3000];
        job.send_head(200, std::iter::empty()).unwrap();
        loop {
            match job.read_body(&mut piece).unwrap() {
                0 => break,
                n => job.write(&piece[..n]).unwrap(),
            }
        }
        job.finish(Outcome::Complete);
    });
    let (mut got, deadline) = (Vec::new(), Instant::now() + Duration::from_secs(20));
    loop {
        assert!(Instant::now() < deadline, "stuck at {fed} fed, {} got", got.len());
        fed += producer.feed(id, &sent[fed..]);
        if let Drained::Finished { outcome, .. } = body_of(&mut producer, id, &mut got) {
            assert_eq!(outcome, Outcome::Complete);
            break;
        }
        std::thread::yield_now();
    }
    echo.join().unwrap();
    assert!(got == sent);
}

#[test]
fn an_aborted_request_frees_its_worker() {
    let (mut producer, mut consumer) = pair(small());
    let (id, _) = producer.submit(b"r", 10, b"").unwrap();
    let worker = std::thread::spawn(move || {
        let mut job = take(&mut consumer);
        let read = job.read_body(&mut [0; 10]);
        let write = job.write(b"x");
        (read, write)
    });
    while producer.holder(id) == Holder::Queued {
        std::thread::yield_now();
    }
    producer.abort(id);
    assert_eq!(worker.join().unwrap(), (Err(Gone), Err(Gone)));
    assert!(matches!(
        producer.drain(id, &mut Vec::new()).unwrap(),
        Drained::Finished { outcome: Outcome::Broken, .. }
    ));
}

#[test]
fn a_sleeping_worker_is_woken_by_a_request_and_by_retirement() {
    let limit = Duration::from_secs(60);
    let (mut producer, mut consumer) = pair(small());
    let segment = consumer_segment(&producer);
    let worker = std::thread::spawn(move || {
        let (segment, mut search, mut served) = (consumer.segment_for_test(), Search::default(), 0);
        loop {
            match consumer.advance(&mut search, &mut |_| Claim::Go, &mut || (), || 0) {
                Step::Done => {}
                // Not for as long as a worker does, who would survive a lost wake-up.
                Step::Sleep => wake::futex_wait(&segment.board_entry(0).bell, 1, 2 * limit),
                Step::Found(Next::Request(job)) => {
                    job.finish(Outcome::Complete);
                    served += 1;
                }
                Step::Found(Next::Retire) => return served,
            }
        }
    });
    let until = |what: &str, is_so: &mut dyn FnMut() -> bool| {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < limit, "not: {what}");
            std::thread::yield_now();
        }
    };
    let mut asleep = || segment.board_entry(0).bell.load(std::sync::atomic::Ordering::SeqCst) == 1;
    for _ in 0..3 {
        until("it lies down", &mut asleep);
        let (id, _) = producer.submit(b"r", 0, b"").unwrap();
        producer.wake_owed();
        until("it is woken by a request", &mut || {
            let drained = producer.drain(id, &mut Vec::new()).unwrap();
            matches!(drained, Drained::Finished { .. })
        });
        producer.release(id);
    }
    until("it lies down", &mut asleep);
    segment.retire(0);
    until("it is woken by its retirement", &mut || worker.is_finished());
    assert_eq!(worker.join().unwrap(), 3);
}

fn consumer_segment(producer: &Producer) -> Arc<Segment> {
    producer.segment().clone()
}

#[test]
fn a_spoiled_response_is_refused() {
    let (mut producer, mut consumer) = pair(small());
    let (id, _) = producer.submit(b"r", 0, b"").unwrap();
    let job = take(&mut consumer);
    let segment = consumer_segment(&producer);
    let slot = segment.slot(id.index() as u32);
    slot.worker.response_tail.store(1 << 40, std::sync::atomic::Ordering::SeqCst);
    assert!(producer.drain(id, &mut Vec::new()).is_err());
    drop(job);
}

#[test]
fn the_error_for_another_layout_names_its_version() {
    let segment = Segment::create("test", small()).unwrap();
    segment.header().version.store(99, std::sync::atomic::Ordering::SeqCst);
    let fd = segment.fd().try_clone_to_owned().unwrap();
    let error = Segment::open(fd).unwrap_err().to_string();
    assert!(error.contains("layout 99"), "{error}");
}

const CHILD: &str = "TOKAMAK_QUEUE_CHILD";

/// Not a test of its own: the worker processes of [`killed_workers_lose_and_duplicate_nothing`].
#[test]
fn consumer_child() {
    let Ok(spec) = std::env::var(CHILD) else { return };
    let n: Vec<u32> = spec.split(',').map(|n| n.parse().unwrap()).collect();
    let [fd, bell, index, instance] = n[..] else { panic!("{spec}") };
    // SAFETY: the parent passed these descriptors to us alone.
    let (fd, bell) =
        unsafe { (OwnedFd::from_raw_fd(fd as i32), OwnedFd::from_raw_fd(bell as i32)) };
    let segment = Arc::new(Segment::open(fd).unwrap());
    let mut consumer = Consumer::new(segment, vec![bell], index as u16, instance);
    while let Next::Request(mut job) = consumer.next(|_| Claim::Go, || ()) {
        let record = job.record().to_vec();
        job.send_head(200, std::iter::empty()).unwrap();
        job.write(&record).unwrap();
        job.finish(Outcome::Complete);
    }
}

fn spawn_child(segment: &Segment, bell: &OwnedFd, index: u16, instance: u32) -> Child {
    use std::os::unix::process::CommandExt;
    let (fd, bell) = (segment.fd().as_raw_fd(), bell.as_raw_fd());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "queue::tests::consumer_child", "--test-threads=1"])
        .env(CHILD, format!("{fd},{bell},{index},{instance}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // SAFETY: only system calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::fcntl(fd, libc::F_SETFD, 0);
            libc::fcntl(bell, libc::F_SETFD, 0);
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        })
    };
    command.spawn().unwrap()
}

/// Four worker processes serve requests while one after the other is killed at a random moment.
/// Every request must be answered once with its own bytes, or be found in the hands of a dead
/// worker.
#[test]
fn killed_workers_lose_and_duplicate_nothing() {
    let geometry = Geometry::new(1, 64, 8, 8192, 8192);
    let segment = Arc::new(Segment::create("stress", geometry).unwrap());
    let mut producer = Producer::new(segment.clone(), 0, Arc::new(Tickets::from(u32::MAX - 1000)));
    segment.header().head.0.store(u32::MAX - 1000, std::sync::atomic::Ordering::SeqCst);
    let bell = bells(1).remove(0);
    let mut instance = 4;
    let mut workers: Vec<(u16, u32, Child)> = (0..4)
        .map(|i| (i, u32::from(i) + 1, spawn_child(&segment, &bell, i, u32::from(i) + 1)))
        .collect();

    let mut waiting: Vec<Option<u64>> = vec![None; 64];
    // Kept from look to look: the worker that had a slot before may mark it as ready so late that
    // the next response is looked at between its bytes and its outcome.
    let mut bodies: Vec<Vec<u8>> = vec![Vec::new(); 64];
    let (mut sent, mut answered, mut orphaned, mut kills) = (0u64, 0u64, 0u64, 0u32);
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let deadline = Instant::now() + Duration::from_secs(60);
    // Counted in answers and not in time: a quick machine would be done before the first kill.
    let mut next_kill = 1000;
    while answered + orphaned < 200_000 {
        assert!(
            Instant::now() < deadline,
            "stuck: {sent} sent, {answered} answered, {orphaned} orphaned"
        );
        while sent < 200_000 {
            match producer.submit(&sent.to_le_bytes(), 0, b"") {
                Ok((id, _)) => {
                    waiting[id.index()] = Some(sent);
                    bodies[id.index()].clear();
                    sent += 1;
                    producer.wake_owed();
                }
                Err(_) => break,
            }
        }
        for id in producer.take_ready() {
            let body = &mut bodies[id.index()];
            if waiting[id.index()].is_some() && body_of(&mut producer, id, body) != Drained::Open {
                assert_eq!(*body, waiting[id.index()].take().unwrap().to_le_bytes());
                answered += 1;
                producer.release(id);
            }
        }
        if answered >= next_kill && sent < 190_000 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let victim = (random >> 33) as usize % workers.len();
            let (index, dead, child) = &mut workers[victim];
            child.kill().unwrap();
            child.wait().unwrap();
            kills += 1;
            for slot in 0..64u16 {
                let id = producer.slot_for_test(slot);
                if waiting[id.index()].is_some() && producer.holder(id) == Holder::Worker(*dead) {
                    let body = &mut bodies[id.index()];
                    if body_of(&mut producer, id, body) == Drained::Open {
                        orphaned += 1;
                    } else {
                        assert_eq!(*body, waiting[id.index()].unwrap().to_le_bytes());
                        answered += 1;
                    }
                    waiting[id.index()] = None;
                    producer.release(id);
                }
            }
            instance += 1;
            let index = *index;
            segment.clear_place(index);
            workers[victim] = (index, instance, spawn_child(&segment, &bell, index, instance));
            producer.wake_owed();
            next_kill = answered + 1 + random % 4000;
        }
    }
    for (index, _, child) in &mut workers {
        segment.retire(*index);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(kills > 40, "only {kills} workers were killed");
    assert!(orphaned <= u64::from(kills), "{orphaned} requests were lost to {kills} kills");
    assert!(waiting.iter().all(Option::is_none));
}

#[test]
fn a_worker_that_leaves_hands_the_wake_up_on() {
    use std::sync::atomic::Ordering;
    let segment = Arc::new(Segment::create("test", Geometry::new(1, 4, 2, 8192, 8192)).unwrap());
    let mut producer = Producer::new(segment.clone(), 0, Arc::default());
    let bell = crate::channel::bell().unwrap();
    let mut leaving = Consumer::new(segment.clone(), vec![bell], 0, 1);
    segment.header().sleepers.0[0].store(0b10, Ordering::SeqCst);
    segment.board_entry(1).bell.store(1, Ordering::SeqCst);
    // It was woken for the request, and asked to leave before it took it.
    producer.submit(b"r", 0, b"").unwrap();
    segment.retire(0);
    assert!(matches!(leaving.next(|_| Claim::Go, || ()), Next::Retire));
    assert_eq!(segment.board_entry(1).bell.load(Ordering::SeqCst), 0, "the other one sleeps on");
}

/// A worker that wakes for a request which another one has taken was idle all the time.
#[test]
fn idle_time_goes_on_when_another_worker_takes_the_request() {
    let (mut producer, mut late) = pair(Geometry::new(2, 4, 2, 8192, 8192));
    let mut quick = Consumer::new(late.segment_for_test(), bells(2), 1, 8);
    // Until it is to sleep, or has found something.
    let look = |consumer: &mut Consumer, search: &mut Search, now: u64| loop {
        match consumer.advance(search, &mut |_| Claim::Go, &mut || {}, || now) {
            Step::Done => {}
            Step::Sleep => return None,
            Step::Found(next) => return Some(next),
        }
    };
    let mut search = Search::default();
    assert!(look(&mut late, &mut search, 100).is_none());
    for now in [200, 300] {
        producer.submit(b"r", 0, b"").unwrap();
        let Some(Next::Request(job)) = look(&mut quick, &mut Search::default(), now) else {
            panic!("nothing queued")
        };
        assert!(look(&mut late, &mut search, now).is_none());
        let seen = late.segment_for_test().board(0);
        assert_eq!((seen.state, seen.since), (WorkerState::Idle, 100));
        job.finish(Outcome::Complete);
    }
    // After a request of its own it begins anew.
    producer.submit(b"r", 0, b"").unwrap();
    let Some(Next::Request(job)) = look(&mut late, &mut search, 400) else {
        panic!("nothing queued")
    };
    assert_eq!(late.segment_for_test().board(0).since, 400);
    job.finish(Outcome::Complete);
    assert!(look(&mut late, &mut Search::default(), 500).is_none());
    assert_eq!(late.segment_for_test().board(0).since, 500);
}

#[test]
fn stderr_and_the_usage_come_in_order() {
    let (mut producer, mut consumer) = pair(small());
    let (id, _) = producer.submit(b"r", 0, b"").unwrap();
    let mut job = take(&mut consumer);
    job.write_stderr(b"early ").unwrap();
    job.write_stderr(b"words").unwrap();
    job.send_head(200, std::iter::empty()).unwrap();
    job.write(b"body").unwrap();
    job.write_stderr(b"late").unwrap();
    job.write(b"more").unwrap();
    let usage = Usage { memory: 3, script: b"/a.php", ..Usage::default() };
    job.usage(&usage).unwrap();
    job.finish(Outcome::Complete);
    let mut raw = Vec::new();
    producer.drain(id, &mut raw).unwrap();
    let mut rest = &raw[..];
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let (frame, tail) = split_frame(rest).unwrap();
        frames.push(frame);
        rest = tail;
    }
    assert_eq!(frames.len(), 6);
    assert_eq!(frames[0], Frame::Stderr(b"early words"));
    assert!(matches!(frames[1], Frame::Head(_)));
    assert_eq!(frames[2..5], [Frame::Body(b"body"), Frame::Stderr(b"late"), Frame::Body(b"more")]);
    assert_eq!(frames[5], Frame::Usage(usage));
}

#[test]
fn the_board_shows_what_a_worker_has_set() {
    let (_, consumer) = pair(small());
    let (board, segment) = (consumer.board(), consumer.segment_for_test());
    board.set_request(b"GET", &[b'u'; 300]);
    board.set_details(b"/srv/a.php", &[b'n'; 40], 12);
    board.set_cost(3, 4);
    let expected = ShownRequest {
        method: "GET".into(),
        uri: "u".repeat(256),
        script: "/srv/a.php".into(),
        user: "n".repeat(32),
        body_len: 12,
        last_cpu: 3,
        last_took: 4,
    };
    assert_eq!(segment.shown_request(0), expected);
    assert!(segment.board(0).started > 0);
    board.enter(8);
    assert_eq!(segment.shown_request(0), ShownRequest::default());

    segment.raise_pool_number(PoolNumber::MaxActive, 7);
    segment.raise_pool_number(PoolNumber::MaxActive, 3);
    segment.count_pool_number(PoolNumber::SlowRequests);
    segment.count_pool_number(PoolNumber::SlowRequests);
    assert_eq!(
        segment.pool_numbers(),
        PoolNumbers { max_active: 7, slow_requests: 2, ..Default::default() }
    );
}

#[test]
fn lost_lines_are_reported_once_or_again_if_the_report_was_lost() {
    let segment = Segment::create("test", small()).unwrap();
    let mut reported = Vec::new();
    segment.report_lost_lines(|_| unreachable!("none is lost"));
    segment.count_lost_line();
    segment.count_lost_line();
    for is_written in [false, true, true] {
        segment.report_lost_lines(|count| {
            reported.push(count);
            is_written
        });
    }
    segment.count_lost_line();
    segment.report_lost_lines(|count| {
        reported.push(count);
        true
    });
    assert_eq!((reported, segment.lost_lines()), (vec![2, 2, 1], 3));
}

/// A segment whose workers have doorbells, its producer, a consumer, and the consumer's doorbell.
fn pair_with_doorbells() -> (Producer, Consumer, OwnedFd) {
    let geometry = small().with_doorbells();
    let bells = bells(geometry.bells() as u16);
    let segment = Segment::create("test", geometry).unwrap().with_doorbells(&bells).unwrap();
    let segment = Arc::new(segment);
    let doorbell = bells[usize::from(geometry.loops)].try_clone().unwrap();
    let producer = Producer::new(segment.clone(), 0, Arc::default());
    (producer, Consumer::new(segment, bells, 0, 7), doorbell)
}

/// Whether the bell has been rung since it was last asked.
fn has_rung(bell: &OwnedFd) -> bool {
    let mut one = libc::pollfd { fd: bell.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, and no wait.
    let rung = unsafe { libc::poll(&raw mut one, 1, 0) } == 1;
    let mut count = 0_u64;
    // SAFETY: reads eight bytes into eight bytes, of a descriptor that has them.
    rung && unsafe { libc::read(bell.as_raw_fd(), (&raw mut count).cast(), 8) } == 8
}

#[test]
fn a_worker_that_waits_for_other_things_is_rung_for_requests() {
    let (mut producer, mut consumer, doorbell) = pair_with_doorbells();
    let mut search = Search::default();
    let look = |consumer: &mut Consumer, search: &mut Search, will_sleep| {
        consumer.look(search, will_sleep, |_| Claim::Go)
    };
    // It is busy with other things: it is not rung.
    assert!(look(&mut consumer, &mut search, false).is_none());
    producer.submit(b"a", 0, b"").unwrap();
    producer.wake_owed();
    assert!(!has_rung(&doorbell));
    let Some(Next::Request(first)) = look(&mut consumer, &mut search, false) else { panic!() };
    assert!(look(&mut consumer, &mut search, true).is_none());
    producer.submit(b"b", 0, b"").unwrap();
    producer.wake_owed();
    assert!(has_rung(&doorbell));
    // Both at once.
    let Some(Next::Request(second)) = look(&mut consumer, &mut search, false) else { panic!() };
    assert_eq!((first.record(), second.record()), (&b"a"[..], &b"b"[..]));
    assert!(look(&mut consumer, &mut search, true).is_none());
    consumer.segment_for_test().retire(0);
    assert!(has_rung(&doorbell));
    assert!(matches!(look(&mut consumer, &mut search, true), Some(Next::Retire)));
}

#[test]
fn a_worker_that_leaves_has_another_one_rung() {
    let geometry = small().with_doorbells();
    let bells = bells(geometry.bells() as u16);
    let segment = Segment::create("test", geometry).unwrap().with_doorbells(&bells).unwrap();
    let segment = Arc::new(segment);
    let mut producer = Producer::new(segment.clone(), 0, Arc::default());
    let clone = || bells.iter().map(|bell| bell.try_clone().unwrap()).collect();
    let mut workers = [0, 1].map(|index| {
        let consumer = Consumer::new(segment.clone(), clone(), index, u32::from(index) + 7);
        (consumer, Search::default(), &bells[usize::from(geometry.loops + index)])
    });
    for (consumer, search, _) in &mut workers {
        assert!(consumer.look(search, true, |_| Claim::Go).is_none());
    }
    let [(leaver, search, its_bell), (stayer, its_search, bell)] = &mut workers;
    producer.submit(b"a", 0, b"").unwrap();
    producer.wake_owed();
    assert!(has_rung(its_bell) && !has_rung(bell));
    leaver.leave(search);
    assert!(has_rung(bell));
    assert!(stayer.look(its_search, false, |_| Claim::Go).is_some());
    // Nor is it rung after that.
    assert!(stayer.look(its_search, true, |_| Claim::Go).is_none());
    producer.submit(b"b", 0, b"").unwrap();
    producer.wake_owed();
    assert!(has_rung(bell) && !has_rung(its_bell));
}

#[test]
fn a_worker_is_rung_when_the_client_of_its_request_leaves() {
    let (mut producer, mut consumer, doorbell) = pair_with_doorbells();
    let mut take = |producer: &mut Producer| {
        let (id, _) = producer.submit(b"record", 0, b"").unwrap();
        match consumer.look(&mut Search::default(), false, |_| Claim::Go) {
            Some(Next::Request(job)) => (id, job),
            _ => panic!(),
        }
    };
    let ((left, job), (_, other)) = (take(&mut producer), take(&mut producer));
    job.watch_client();
    other.watch_client();
    producer.abort(left);
    assert!(has_rung(&doorbell));
    assert!(job.is_aborted() && !other.is_aborted());
    // No worker watches the client of the next request in this slot.
    job.finish(Outcome::Complete);
    producer.release(left);
    let (next, _job) = take(&mut producer);
    assert_eq!(next, left);
    producer.abort(next);
    assert!(!has_rung(&doorbell));
}

#[test]
fn a_worker_that_waits_for_other_things_is_rung_for_room_and_for_the_body() {
    let (mut producer, mut consumer, doorbell) = pair_with_doorbells();
    let (id, _) = producer.submit(b"record", 3, b"").unwrap();
    let mut search = Search::default();
    let Some(Next::Request(mut job)) = consumer.look(&mut search, false, |_| Claim::Go) else {
        panic!()
    };
    let mut body = [0; 8];
    assert_eq!(job.read_body_now(&mut body), Ok(None));
    assert!(!has_rung(&doorbell));
    producer.feed(id, b"abc");
    assert!(has_rung(&doorbell));
    assert_eq!(job.read_body_now(&mut body), Ok(Some(3)));
    assert_eq!(job.read_body_now(&mut body), Ok(Some(0)));

    let text = vec![b'x'; 20_000];
    let written = job.write_now(&text).unwrap();
    assert!(written > 0 && written < text.len());
    assert!(!has_rung(&doorbell));
    let mut seen = Vec::new();
    body_of(&mut producer, id, &mut seen);
    assert!(has_rung(&doorbell));
    let mut rest = &text[written..];
    while !rest.is_empty() {
        rest = &rest[job.write_now(rest).unwrap()..];
        body_of(&mut producer, id, &mut seen);
    }
    job.finish(Outcome::Complete);
    body_of(&mut producer, id, &mut seen);
    assert!(seen == text);

    let (id, _) = producer.submit(b"record", 3, b"").unwrap();
    let Some(Next::Request(mut job)) = consumer.look(&mut search, false, |_| Claim::Go) else {
        panic!()
    };
    assert_eq!(job.read_body_now(&mut body), Ok(None));
    producer.abort(id);
    assert!(has_rung(&doorbell));
    assert_eq!(job.read_body_now(&mut body), Err(Gone));
}
