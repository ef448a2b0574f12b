//! The requests that wait in one event loop. Each flow has its place in the line, and goes to the
//! end when one of its requests is served, if it has more. A request without a flow is one by
//! itself.

use std::collections::VecDeque;

use tokio::sync::oneshot::Sender;

use crate::flow::Flow;

/// A request that waits. `P` is what it gets.
#[derive(Debug)]
pub struct Waiter<P> {
    pub sender: Sender<P>,
    /// When it began to wait, in nanoseconds.
    pub since: u64,
}

#[derive(Debug)]
pub struct WaitQueue<P> {
    places: VecDeque<FlowQueue<P>>,
    len: usize,
}

#[derive(Debug)]
struct FlowQueue<P> {
    flow: Option<Flow>,
    first: Waiter<P>,
    rest: VecDeque<Waiter<P>>,
}

impl<P> WaitQueue<P> {
    pub fn new() -> WaitQueue<P> {
        WaitQueue { places: VecDeque::new(), len: 0 }
    }

    /// Requests in it, with those that have gone away.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Requests that still wait.
    pub fn waiting(&self) -> usize {
        let all = self.places.iter().flat_map(|place| place.rest.iter().chain([&place.first]));
        all.filter(|waiter| !waiter.sender.is_closed()).count()
    }

    pub fn push(&mut self, flow: Option<Flow>, waiter: Waiter<P>) {
        self.len += 1;
        let is_its = |place: &&mut FlowQueue<P>| flow.is_some() && place.flow == flow;
        match self.places.iter_mut().find(is_its) {
            Some(place) => place.rest.push_back(waiter),
            None => self.places.push_back(FlowQueue { flow, first: waiter, rest: VecDeque::new() }),
        }
    }

    /// The next one.
    pub fn first(&self) -> Option<&Waiter<P>> {
        self.places.front().map(|place| &place.first)
    }

    /// Takes the next one out.
    pub fn pop(&mut self) -> Option<Waiter<P>> {
        let FlowQueue { flow, first, mut rest } = self.places.pop_front()?;
        self.len -= 1;
        if let Some(next) = rest.pop_front() {
            self.places.push_back(FlowQueue { flow, first: next, rest });
        }
        Some(first)
    }

    /// Takes those out that have gone away.
    pub fn sweep(&mut self) {
        let is_there = |waiter: &Waiter<P>| !waiter.sender.is_closed();
        let places = std::mem::take(&mut self.places);
        self.places = places
            .into_iter()
            .filter_map(|FlowQueue { flow, first, rest }| {
                let mut left: VecDeque<_> =
                    std::iter::once(first).chain(rest).filter(is_there).collect();
                Some(FlowQueue { flow, first: left.pop_front()?, rest: left })
            })
            .collect();
        self.len = self.waiting();
    }
}
