//! The subscribers of one event loop: who gets which update, and who is ended.
//!
//! ```text
//!           an update for it        its client takes it
//! waiting ────────────────► behind ────────────────────► waiting
//!    │                        │
//!    │ its token has expired, │ or, before it has taken it: history has dropped the update
//!    │ the loop is closed     ▼
//!    └──────────────────► ending ── poll ──► over
//! ```

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::history::History;
use crate::selector::Selector;
use crate::update::Update;

/// What a subscriber wants and may have.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The topics that it wants.
    pub selectors: Vec<Selector>,
    /// Those of which it may have private updates.
    pub private: Vec<Selector>,
    /// The last update that it has, if it comes back.
    pub last: Option<String>,
    /// When its permission ends, by the clock of the hub's caller.
    pub until: Option<u64>,
}

/// Why a subscription ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is so slow that history has dropped an update that it has still to get.
    Slow,
    /// Its token has expired.
    Expired,
    /// The event loop takes no more subscribers: the client is to come back.
    Closed,
}

impl End {
    /// All of them, in the order of their numbers.
    pub const ALL: [End; 3] = [End::Slow, End::Expired, End::Closed];

    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            End::Slow => "slow",
            End::Expired => "expired",
            End::Closed => "closed",
        }
    }
}

/// What a subscriber's client gets next.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// An update.
    Update(Arc<Update>),
    /// Something that keeps the connection from looking dead to what is between it and the client.
    Heartbeat,
    /// The end of the stream.
    End(End),
}

/// A subscriber.
#[derive(Debug)]
struct Member {
    selectors: Box<[Arc<str>]>,
    private: Box<[Selector]>,
    /// The updates that it has still to get, by their numbers; at most as many as history keeps.
    backlog: VecDeque<u64>,
    waker: Option<Waker>,
    /// When it last got bytes.
    spoke: u64,
    is_to_beat: bool,
    until: Option<u64>,
    end: Option<End>,
}

impl Member {
    fn may_have(&self, update: &Update) -> bool {
        let is_allowed = |topic: &String| self.private.iter().any(|it| it.matches(topic));
        !update.is_private || update.topics.iter().any(is_allowed)
    }

    fn add(&mut self, number: u64, oldest: u64, ended: &mut Ended) {
        // An update may be selected several times, by several of its topics.
        if self.end.is_some() || self.backlog.back() == Some(&number) {
            return;
        }
        match self.backlog.front() {
            Some(front) if *front < oldest => self.end(End::Slow, ended),
            _ => self.backlog.push_back(number),
        }
    }

    fn end(&mut self, end: End, ended: &mut Ended) {
        if self.end.is_none() {
            self.end = Some(end);
            ended[end as usize] += 1;
        }
        // Who is to come back gets first what has come.
        if self.end != Some(End::Closed) {
            self.backlog = VecDeque::new();
        }
    }
}

/// Subscribers that were ended, in the order of [`End::ALL`].
pub type Ended = [u64; End::ALL.len()];

/// Those that a pattern selects for.
#[derive(Debug)]
struct Pattern {
    selector: Selector,
    members: HashSet<usize>,
}

/// The subscribers of one event loop.
#[derive(Debug, Default)]
pub struct Shard {
    members: Vec<Option<Member>>,
    free: Vec<usize>,
    /// By the topics that they name.
    topics: HashMap<Arc<str>, HashSet<usize>>,
    /// By the patterns that they name.
    patterns: HashMap<Arc<str>, Pattern>,
    /// The number of the next update to be given out.
    next: u64,
    is_closed: bool,
    ended: Ended,
}

impl Shard {
    /// Gives the updates that have come to those who want them. Returns whom to wake.
    pub fn give_out(&mut self, history: &History) -> Vec<Waker> {
        let mut woken = Vec::new();
        if self.next < history.first() {
            // Nobody knows any more whom the missing ones were for.
            self.end_all(End::Slow);
            self.wake_all(&mut woken);
        }
        for (number, update) in history.since(self.next) {
            let Shard { members, topics, patterns, ended, .. } = &mut *self;
            let mut add = |keys: &HashSet<usize>| {
                for key in keys {
                    let Some(Some(member)) = members.get_mut(*key) else { continue };
                    if member.may_have(update) {
                        member.add(number, history.first(), ended);
                        woken.extend(member.waker.take());
                    }
                }
            };
            for topic in &update.topics {
                if let Some(keys) = topics.get(&**topic) {
                    add(keys);
                }
                let fitting = patterns.values().filter(|it| it.selector.matches(topic));
                fitting.for_each(|pattern| add(&pattern.members));
            }
        }
        self.next = history.end();
        woken
    }

    /// Ends all subscribers, and gives out nothing of what has come. Returns whom to wake.
    pub fn begin_anew(&mut self, history: &History) -> Vec<Waker> {
        self.end_all(End::Closed);
        self.next = history.end();
        let mut woken = Vec::new();
        self.wake_all(&mut woken);
        woken
    }

    /// Adds a subscriber, after [`Shard::give_out`]. Returns its key, and the name of the update
    /// before the first one that it gets, if it has asked for earlier ones.
    pub fn add(&mut self, wanted: Wanted, history: &History, now: u64) -> (usize, Option<String>) {
        let Wanted { selectors, private, last, until } = wanted;
        let mut member = Member {
            selectors: selectors.iter().map(|selector| self.name(selector.text())).collect(),
            private: private.into(),
            backlog: VecDeque::new(),
            waker: None,
            spoke: now,
            is_to_beat: false,
            until,
            end: None,
        };
        if self.is_closed {
            member.end(End::Closed, &mut self.ended);
        }
        let replay = last.map(|last| history.after(&last));
        if let Some(replay) = &replay {
            let wants = |update: &Update| {
                let is_wanted = |topic: &String| selectors.iter().any(|it| it.matches(topic));
                update.topics.iter().any(is_wanted) && member.may_have(update)
            };
            let missed = history.since(replay.from).filter(|(_, update)| wants(update));
            let missed = missed.map(|(number, _)| number).collect();
            member.backlog = missed;
        }
        let key = self.free.pop().unwrap_or(self.members.len());
        for (name, selector) in member.selectors.iter().zip(selectors) {
            let keys = match selector.is_pattern() {
                false => self.topics.entry(name.clone()).or_default(),
                true => {
                    let pattern = || Pattern { selector, members: HashSet::new() };
                    &mut self.patterns.entry(name.clone()).or_insert_with(pattern).members
                }
            };
            keys.insert(key);
        }
        match self.members.get_mut(key) {
            Some(place) => *place = Some(member),
            None => self.members.push(Some(member)),
        }
        (key, replay.map(|replay| replay.before))
    }

    /// The name of a selector, shared by all who have it.
    fn name(&self, text: &str) -> Arc<str> {
        let topic = self.topics.get_key_value(text).map(|(name, _)| name);
        let pattern = || self.patterns.get_key_value(text).map(|(name, _)| name);
        topic.or_else(pattern).map_or_else(|| text.into(), Arc::clone)
    }

    /// Removes a subscriber.
    pub fn remove(&mut self, key: usize) {
        let Some(member) = self.members.get_mut(key).and_then(Option::take) else { return };
        self.free.push(key);
        for name in member.selectors {
            if let Some(keys) = self.topics.get_mut(&name) {
                keys.remove(&key);
                if keys.is_empty() {
                    self.topics.remove(&name);
                }
            }
            if let Some(pattern) = self.patterns.get_mut(&name) {
                pattern.members.remove(&key);
                if pattern.members.is_empty() {
                    self.patterns.remove(&name);
                }
            }
        }
        if self.free.len() == self.members.len() {
            // A crowd has gone: give its memory back.
            let Shard { next, is_closed, ended, .. } = *self;
            *self = Shard { next, is_closed, ended, ..Shard::default() };
        }
    }

    /// Polls for what a subscriber's client gets next.
    pub fn poll(
        &mut self,
        key: usize,
        history: &History,
        now: u64,
        cx: &mut Context<'_>,
    ) -> Poll<Piece> {
        let Some(Some(member)) = self.members.get_mut(key) else {
            return Poll::Ready(Piece::End(End::Closed));
        };
        if let Some(number) = member.backlog.pop_front() {
            match history.get(number) {
                Some(update) => {
                    (member.spoke, member.is_to_beat) = (now, false);
                    if member.backlog.is_empty() {
                        // Most wait for long; the next update makes a small one.
                        member.backlog = VecDeque::new();
                    }
                    return Poll::Ready(Piece::Update(update.clone()));
                }
                None => member.end(End::Slow, &mut self.ended),
            }
        }
        if let Some(end) = member.end {
            return Poll::Ready(Piece::End(end));
        }
        if std::mem::take(&mut member.is_to_beat) {
            member.spoke = now;
            return Poll::Ready(Piece::Heartbeat);
        }
        match &mut member.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => member.waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Ends those whose permission has ended, and has the others send something that were silent
    /// for `heartbeat`. Returns whom to wake.
    pub fn tick(&mut self, now: u64, heartbeat: u64) -> Vec<Waker> {
        let mut woken = Vec::new();
        for member in self.members.iter_mut().flatten() {
            let is_expired = member.until.is_some_and(|until| until <= now);
            let is_silent = now.saturating_sub(member.spoke) >= heartbeat;
            if is_expired {
                member.end(End::Expired, &mut self.ended);
            }
            member.is_to_beat |= is_silent;
            if is_expired || is_silent {
                woken.extend(member.waker.take());
            }
        }
        woken
    }

    /// Ends all subscribers, those to come, too. Returns whom to wake.
    pub fn close(&mut self) -> Vec<Waker> {
        self.is_closed = true;
        self.end_all(End::Closed);
        let mut woken = Vec::new();
        self.wake_all(&mut woken);
        woken
    }

    fn end_all(&mut self, end: End) {
        let Shard { members, ended, .. } = self;
        members.iter_mut().flatten().for_each(|member| member.end(end, ended));
    }

    fn wake_all(&mut self, woken: &mut Vec<Waker>) {
        woken.extend(self.members.iter_mut().flatten().filter_map(|member| member.waker.take()));
    }

    /// Why a subscriber is ended, if it is. One whose client takes nothing is not polled any more.
    pub fn end_of(&self, key: usize) -> Option<End> {
        self.members.get(key)?.as_ref()?.end
    }

    /// Those that were ended.
    pub fn ended(&self) -> Ended {
        self.ended
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.free.len() == self.members.len()
    }
}
