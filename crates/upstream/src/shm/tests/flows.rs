//! Flows take turns: a client with many requests at once does not stand before all others.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokamak_sys::queue::{Claim, Consumer, Geometry, Next, Outcome, Segment, WorkerState};

use super::{
    BOUNDS, Bounds, Death, Event, Metadata, QueueClient, QueuedRequest, Refused, WorkerError,
};
use crate::body::Body;
use crate::flow::Flow;

/// A queue with one worker, which takes a request when the test says so.
struct World {
    client: Arc<QueueClient>,
    segment: Arc<Segment>,
    worker: Consumer,
}

impl World {
    fn new(slots: u16, queued: usize) -> World {
        let geometry = Geometry::new(1, slots, 1, 8192, 8192);
        let segment = Arc::new(Segment::create("test", geometry).unwrap());
        let bell = tokamak_sys::channel::bell().unwrap();
        let worker = Consumer::new(segment.clone(), vec![bell], 0, 1);
        worker.board().set_state(WorkerState::Idle);
        let bounds = Bounds { queued, share: 1, ..BOUNDS };
        let client = QueueClient::new(segment.clone(), 0, Arc::default(), bounds, None, None);
        World { client, segment, worker }
    }

    fn submit(&self, name: u8, flow: Option<Flow>) -> Result<QueuedRequest, Refused> {
        let metadata = Metadata { flow, ..Metadata::default() };
        let body = Body::Memory(vec![name].into());
        let now = tokamak_cost::now();
        self.client.submit_at(&[name], body, metadata, now).map_err(|(refused, _)| refused)
    }

    /// Has the worker answer the next request; its name. It gets its body with it.
    fn serve(&mut self) -> u8 {
        let next = self.worker.next(|_| Claim::Go, || panic!("nothing is queued"));
        let Next::Request(mut job) = next else { panic!("retired") };
        let (name, mut body) = (job.record()[0], [0; 8]);
        assert_eq!((job.read_body(&mut body), body[0]), (Ok(1), name));
        job.finish(Outcome::Complete);
        self.client.attend();
        name
    }

    /// Requests in the queue.
    fn depth(&self) -> u32 {
        self.client.attend();
        self.segment.depth()
    }
}

fn poll(request: &mut QueuedRequest) -> Poll<Result<Event, WorkerError>> {
    request.poll_event(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_request_of_another_flow_goes_before_the_rest_of_a_long_one() {
    let mut world = World::new(16, 16);
    let long = Some(Flow::fresh());
    let mut of_long: Vec<_> = (0..6).map(|name| world.submit(name, long).unwrap()).collect();
    assert_eq!(world.depth(), 2, "two rounds of the one worker");
    let _alone = world.submit(10, None).unwrap();
    let _of_other = world.submit(20, Some(Flow::fresh())).unwrap();
    let order: Vec<u8> = (0..8).map(|_| world.serve()).collect();
    assert_eq!(order, [0, 1, 10, 20, 2, 3, 4, 5]);
    for request in &mut of_long {
        assert!(matches!(poll(request), Poll::Ready(Ok(Event::End(Outcome::Complete)))));
    }
    drop(of_long);
    assert!(world.client.is_idle());
}

#[test]
fn a_loop_that_falls_asleep_wakes_the_worker_for_the_next_request_of_a_flow() {
    let mut world = World::new(16, 16);
    let flow = Some(Flow::fresh());
    let _requests: Vec<_> = (0..3).map(|name| world.submit(name, flow).unwrap()).collect();
    world.client.attend();
    for _ in 0..2 {
        let next = world.worker.next(|_| Claim::Go, || panic!("nothing is queued"));
        let Next::Request(job) = next else { panic!("retired") };
        job.finish(Outcome::Complete);
    }
    // The answers are found only when the loop has looked for what it owes.
    world.client.fall_asleep();
    assert!(!world.client.lock().owes());
    assert_eq!(world.serve(), 2);
}

#[test]
fn what_waits_for_its_turn_may_go_away_and_waits_no_longer_than_others() {
    let mut world = World::new(16, 16);
    let flow = Some(Flow::fresh());
    let mut requests: Vec<_> = (0..5).map(|name| world.submit(name, flow).unwrap()).collect();
    drop(requests.remove(2));
    assert_eq!((world.serve(), world.serve(), world.serve()), (0, 1, 3));
    let mut more = world.submit(6, flow).unwrap();
    let mut most = world.submit(7, flow).unwrap();
    world.client.tick(tokamak_cost::now() + 2 * BOUNDS.queue);
    for request in [&mut more, &mut most] {
        assert!(matches!(poll(request), Poll::Ready(Err(WorkerError::Waited))));
    }
    drop((requests, more, most));
    assert!(world.client.is_idle());
}

#[test]
fn a_flow_that_fills_the_queue_does_not_keep_others_out() {
    let world = World::new(32, 6);
    let flow = Some(Flow::fresh());
    let _queued: Vec<_> = (0..6).map(|name| world.submit(name, flow).unwrap()).collect();
    assert_eq!(world.submit(6, flow).map(drop), Err(Refused::Full));
    let _others: Vec<_> = (10..14).map(|name| world.submit(name, None).unwrap()).collect();
    assert_eq!(world.submit(14, None).map(drop), Err(Refused::Full));
}

#[test]
fn a_turn_without_a_free_slot_comes_again() {
    let mut world = World::new(3, 16);
    let flow = Some(Flow::fresh());
    let _requests: Vec<_> = (0..3).map(|name| world.submit(name, flow).unwrap()).collect();
    let _other = world.submit(10, None).unwrap();
    assert_eq!(world.serve(), 0);
    // The slot that became free went to the third one.
    assert_eq!(world.submit(11, None).map(drop), Err(Refused::Full));
    assert_eq!((world.serve(), world.serve(), world.serve()), (1, 10, 2));
    assert!(world.submit(12, flow).is_ok());
}

#[test]
fn a_record_that_fits_no_slot_is_refused_before_it_waits() {
    let world = World::new(16, 16);
    let flow = Some(Flow::fresh());
    let _requests: Vec<_> = (0..3).map(|name| world.submit(name, flow).unwrap()).collect();
    let metadata = Metadata { flow, ..Metadata::default() };
    let submitted = world.client.submit_at(&[0; 9000], Body::Empty, metadata, 0);
    assert_eq!(submitted.map(drop).map_err(|(refused, _)| refused), Err(Refused::TooLarge));
}

#[test]
fn what_waits_for_its_turn_ends_with_the_last_worker() {
    let world = World::new(16, 16);
    let flow = Some(Flow::fresh());
    let mut requests: Vec<_> = (0..4).map(|name| world.submit(name, flow).unwrap()).collect();
    world.client.give_up();
    let fault = WorkerError::Died { death: Death::Crashed, answered: false };
    for request in &mut requests {
        assert!(matches!(poll(request), Poll::Ready(Err(found)) if found == fault));
    }
    drop(requests);
    assert!(world.client.is_idle());
}
