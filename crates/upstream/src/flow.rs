//! Flows: the requests of one connection that has several at the same time, as HTTP/2 allows.
//!
//! The requests of all clients wait for an application in one line. A client that sends a hundred
//! at once would have all of them answered before those of others; so each flow has a bound there.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

/// The name of a flow, unique in the life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow(u64);

impl Flow {
    /// A flow of its own.
    pub fn fresh() -> Flow {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Flow(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

/// Bounds how many requests of each flow go before others, and keeps those that wait for their
/// turn, in order. Requests are known by keys.
#[derive(Debug)]
pub(crate) struct Turns {
    /// Requests of one flow that may have a turn at the same time.
    most: usize,
    flows: HashMap<Flow, FlowState>,
    waiting: usize,
}

/// Present as long as any request of the flow has a turn or waits for one.
#[derive(Debug, Default)]
struct FlowState {
    /// Requests that have a turn.
    running: usize,
    line: VecDeque<usize>,
}

impl Turns {
    pub fn new(most: usize) -> Turns {
        Turns { most, flows: HashMap::new(), waiting: 0 }
    }

    /// Changes how many requests of a flow may have a turn.
    pub fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// Requests that wait for a turn.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Gives a new request of the flow a turn. `false`: it has to wait, behind others of its flow.
    pub fn take(&mut self, flow: Flow) -> bool {
        let state = self.flows.entry(flow).or_default();
        let is_its_turn = state.running < self.most && state.line.is_empty();
        state.running += usize::from(is_its_turn);
        is_its_turn
    }

    /// Lets a request wait that got no turn.
    pub fn wait(&mut self, flow: Flow, key: usize) {
        self.flows.entry(flow).or_default().line.push_back(key);
        self.waiting += 1;
    }

    /// Lets a request wait again that could not use its turn, before all others of its flow.
    pub fn wait_again(&mut self, flow: Flow, key: usize) {
        let state = self.flows.entry(flow).or_default();
        state.running = state.running.saturating_sub(1);
        state.line.push_front(key);
        self.waiting += 1;
    }

    /// Takes a turn back.
    pub fn give_back(&mut self, flow: Flow) {
        if let Some(state) = self.flows.get_mut(&flow) {
            state.running = state.running.saturating_sub(1);
        }
        self.forget_if_empty(flow);
    }

    /// Gives the next request of the flow its turn, if one waits and may have it.
    pub fn next_of(&mut self, flow: Flow) -> Option<usize> {
        let state = self.flows.get_mut(&flow).filter(|state| state.running < self.most)?;
        let key = state.line.pop_front()?;
        state.running += 1;
        self.waiting -= 1;
        Some(key)
    }

    /// The flows in which a request waits that may have its turn.
    pub fn ready(&self) -> Vec<Flow> {
        let is_ready = |state: &FlowState| state.running < self.most && !state.line.is_empty();
        self.flows.iter().filter(|(_, state)| is_ready(state)).map(|(flow, _)| *flow).collect()
    }

    /// A request that waits has gone.
    pub fn leave(&mut self, flow: Flow, key: usize) {
        if let Some(state) = self.flows.get_mut(&flow)
            && let Some(index) = state.line.iter().position(|waiting| *waiting == key)
        {
            state.line.remove(index);
            self.waiting -= 1;
        }
        self.forget_if_empty(flow);
    }

    fn forget_if_empty(&mut self, flow: Flow) {
        if self.flows.get(&flow).is_some_and(|state| state.running == 0 && state.line.is_empty()) {
            self.flows.remove(&flow);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_has_so_many_turns_and_the_rest_waits_in_order() {
        let (mut turns, one, other) = (Turns::new(2), Flow::fresh(), Flow::fresh());
        assert!(turns.take(one) && turns.take(one) && !turns.take(one));
        turns.wait(one, 7);
        turns.wait(one, 8);
        turns.wait(one, 9);
        assert!(turns.take(other), "others have turns of their own");
        assert_eq!((turns.waiting(), turns.next_of(one)), (3, None));
        turns.give_back(one);
        assert!(!turns.take(one), "a new one does not overtake those that wait");
        assert_eq!(turns.next_of(one), Some(7));
        turns.leave(one, 8);
        turns.give_back(one);
        assert_eq!((turns.next_of(one), turns.next_of(one), turns.waiting()), (Some(9), None, 0));
    }

    #[test]
    fn a_turn_that_cannot_be_used_is_given_again() {
        let (mut turns, flow) = (Turns::new(1), Flow::fresh());
        assert!(turns.take(flow));
        turns.wait(flow, 1);
        turns.wait(flow, 2);
        assert_eq!(turns.ready(), []);
        turns.give_back(flow);
        assert_eq!(turns.next_of(flow), Some(1));
        turns.wait_again(flow, 1);
        assert_eq!((turns.ready(), turns.next_of(flow), turns.waiting()), (vec![flow], Some(1), 1));
    }

    #[test]
    fn nothing_is_kept_of_a_flow_that_has_ended() {
        let (mut turns, flow) = (Turns::new(1), Flow::fresh());
        assert!(turns.take(flow) && !turns.take(flow));
        turns.wait(flow, 1);
        turns.give_back(flow);
        turns.leave(flow, 1);
        turns.give_back(flow);
        assert!(turns.flows.is_empty());
    }
}
