use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::path::Path;

use tokamak_sys::channel::{self, Channel};
use tokamak_sys::control::{
    EXIT_BOOT_FAILED, EXIT_MISMATCH, FromZygote, Heard, Status, ToZygote, receive, send,
};
use tokamak_sys::queue::{Consumer, WorkerState};

use super::*;
use crate::means::{FrontPlan, Means, Process, Started, ZygoteStart};
use crate::site_links::SiteLinks;
use crate::zygote::Launch;

/// Starts zygotes that are nothing but the other end of a channel.
#[derive(Default)]
struct Paper(RefCell<Vec<Channel>>);

#[derive(Debug)]
struct Sheet;

impl Process for Sheet {
    fn id(&self) -> u32 {
        1
    }

    fn kill(&self) {}
}

impl Means for Paper {
    fn zygote(&self, _start: ZygoteStart<'_>) -> io::Result<Started> {
        let (ours, theirs) = Channel::pair()?;
        self.0.borrow_mut().push(theirs);
        Ok((Box::new(Sheet), Box::new(ours)))
    }

    fn front(&self, _plan: FrontPlan<'_>) -> io::Result<Started> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// One bell for each event loop of the server.
fn bells() -> Vec<OwnedFd> {
    let loops = settings::tests::server(Path::new("/srv")).loops;
    (0..loops).map(|_| channel::bell().unwrap()).collect()
}

fn launch(means: &Paper) -> Launch<'_> {
    Launch { means, identity: None }
}

/// A pool of two workers whose zygote boots the application.
fn booting(means: &Paper) -> Pool {
    let server = settings::tests::server(Path::new("/srv"));
    let links = SiteLinks { bells: bells(), hub: None };
    let mut pool = Pool::new(&server, 0, 0, links.into()).unwrap();
    pool.tick(launch(means), 1, &mut Vec::new());
    pool
}

/// The same pool when it has booted.
fn booted(means: &Paper) -> Pool {
    let mut pool = booting(means);
    let ready = FromZygote::Ready { version: "8.2".to_owned(), exposes: false };
    send(&means.0.borrow()[0], &ready, &[]).unwrap();
    pool.receive(launch(means), 2, &mut Vec::new());
    pool
}

/// Lets a worker serve a request, and be in this state then.
fn serves(pool: &Pool, (index, instance): (u16, u32), state: WorkerState) {
    let consumer = Consumer::new(pool.segment().clone(), bells(), index, instance);
    consumer.board().enter_at(instance, 3);
    consumer.board().set_state_at(state, 3);
    consumer.board().count_request(0, 200);
}

#[test]
fn a_queue_that_no_zygote_understands_any_more_is_spoiled() {
    for (was_understood, expected) in [(true, true), (false, false)] {
        let means = Paper::default();
        let mut pool = if was_understood { booted(&means) } else { booting(&means) };
        assert!(pool.zygote_exited(1, Status::Code(EXIT_MISMATCH), 3, &mut Vec::new()));
        let is_spoiled = matches!(pool.renewal_reason(), Some(RenewalReason::Spoiled(_)));
        assert_eq!(is_spoiled, expected, "understood before: {was_understood}");
    }
}

/// The next worker that a zygote is to fork.
fn spawned(zygote: &Channel) -> Option<(u16, u32)> {
    loop {
        match receive::<ToZygote>(zygote).unwrap() {
            Heard::Message(ToZygote::Spawn { index, instance }, _) => {
                return Some((index, instance));
            }
            Heard::Message(..) => {}
            Heard::Nothing | Heard::Closed => return None,
        }
    }
}

#[test]
fn a_worker_that_booted_before_the_application_broke_does_not_end_the_storm() {
    let means = Paper::default();
    let (launch, mut deaths) = (launch(&means), Vec::new());
    let mut pool = booted(&means);
    // Two workers; the first one boots and serves.
    let next = || spawned(&means.0.borrow()[0]);
    let (first, second) = (next().unwrap(), next().unwrap());
    serves(&pool, first, WorkerState::Idle);
    pool.tick(launch, 4, &mut deaths);
    // The second one, and each that follows it, does not boot any more.
    let (mut failing, mut attempts) = (second, 1);
    let milli = 1_000_000;
    for now in (1..=1000).map(|count| count * milli) {
        let (index, instance) = failing;
        let exited = FromZygote::Exited { index, instance, status: Status::Code(EXIT_BOOT_FAILED) };
        send(&means.0.borrow()[0], &exited, &[]).unwrap();
        pool.receive(launch, now, &mut deaths);
        pool.tick(launch, now, &mut deaths);
        if let Some(other) = next() {
            (failing, attempts) = (other, attempts + 1);
        }
    }
    // At 0.1, 0.3 and 0.7 s.
    assert_eq!(attempts, 4);
    // One that boots ends it.
    pool.tick(launch, 2000 * milli, &mut deaths);
    serves(&pool, next().unwrap(), WorkerState::Idle);
    pool.tick(launch, 2001 * milli, &mut deaths);
    pool.tick(launch, 2002 * milli, &mut deaths);
    assert_eq!(pool.failure(), None);
}

/// Once boots have taken ten seconds, a pool has the front refuse requests at once. It goes on
/// while their successors boot, since these are likely to hang too, and stops when one has booted.
#[test]
fn requests_do_not_wait_for_boots_that_hang() {
    let means = Paper::default();
    let (launch, mut deaths) = (launch(&means), Vec::new());
    let mut pool = booted(&means);
    let next = || spawned(&means.0.borrow()[0]);
    let (first, second) = (next().unwrap(), next().unwrap());
    let second_of = |seconds: u64| seconds * 1_000_000_000;
    let mut is_barren = |pool: &mut Pool, seconds: u64| {
        pool.tick(launch, second_of(seconds), &mut deaths);
        pool.segment().is_barren()
    };
    for (seconds, expected) in [(1, false), (9, false), (11, true), (59, true)] {
        assert_eq!(is_barren(&mut pool, seconds), expected, "after {seconds} s");
    }
    pool.tick(launch, second_of(61), &mut Vec::new()); // they are killed
    for (index, instance) in [first, second] {
        let status = Status::Signal(9);
        send(&means.0.borrow()[0], &FromZygote::Exited { index, instance, status }, &[]).unwrap();
    }
    pool.receive(launch, second_of(62), &mut Vec::new());
    assert!(is_barren(&mut pool, 63));
    let third = next().unwrap();
    assert!(is_barren(&mut pool, 64), "the next boot is no better so far");
    serves(&pool, third, WorkerState::Idle);
    assert!(!is_barren(&mut pool, 65));
}

/// Why the workers of a pool with two, one of which has served a request, have ended, and how many
/// requests that makes.
fn ended_by(end: impl FnOnce(&mut Pool), status: Status) -> (Vec<(&'static str, u64)>, u64) {
    let means = Paper::default();
    let (launch, mut deaths) = (launch(&means), Vec::new());
    let mut pool = booted(&means);
    let first = spawned(&means.0.borrow()[0]).unwrap();
    serves(&pool, first, WorkerState::Busy);
    pool.tick(launch, 4, &mut deaths);
    end(&mut pool);
    assert!(pool.zygote_exited(1, status, 7, &mut deaths));
    // Orphans have ended once they are seen to be gone.
    pool.tick(launch, 60_000_000_000, &mut deaths);
    let endings = pool.totals().endings;
    let counts = endings.counts().map(|(ending, count)| (ending.name(), count));
    (counts.filter(|(_, count)| *count > 0).collect(), pool.served())
}

#[test]
fn workers_that_had_no_more_time_were_asked_and_have_served() {
    let quit = |pool: &mut Pool| pool.quit(5, 6);
    assert_eq!(ended_by(quit, Status::Code(0)), (vec![("asked", 2)], 1));
}

#[test]
fn workers_of_a_pool_that_was_killed_are_no_orphans() {
    let (endings, served) = ended_by(|pool| pool.kill(6), Status::Signal(9));
    assert_eq!((endings, served), (vec![("asked", 2)], 1));
}
