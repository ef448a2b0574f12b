//! Subscribers and publishers of one hub, in the order of the calls.

use std::sync::atomic::AtomicBool;
use std::task::Wake;

use super::*;
use crate::selector::Selector;
use crate::update::Draft;

/// Notes that it was woken.
#[derive(Default)]
struct Note(AtomicBool);

impl Wake for Note {
    fn wake(self: Arc<Note>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A hub of two event loops, with a subscriber's client.
struct Bench {
    hub: Arc<Hub>,
    now: u64,
}

impl Bench {
    fn new(history: usize) -> Bench {
        let limits = Limits { history, subscribers: 3, ..Limits::default() };
        Bench { hub: Arc::new(Hub::new(limits, 2)), now: 1000 }
    }

    fn publish(&self, id: &str, topics: &[&str], is_private: bool) {
        let topics = topics.iter().map(|topic| (*topic).to_owned()).collect();
        let draft = Draft { topics, is_private, ..Draft::default() };
        self.hub.publish(Update::new(draft, || id.into()));
    }

    fn subscribe(&self, index: usize, wanted: Wanted) -> Subscription {
        self.hub.subscribe(index, wanted, self.now).unwrap()
    }

    /// What the client of a subscription gets now: the ids of updates, `beat`, and why it ends.
    fn read(&self, subscription: &mut Subscription) -> Vec<String> {
        let waker = Waker::from(Arc::new(Note::default()));
        let mut cx = Context::from_waker(&waker);
        for index in 0..2 {
            let _ = self.hub.poll_give_out(index, &mut cx);
        }
        let mut read = Vec::new();
        loop {
            match subscription.poll(self.now, &mut cx) {
                Poll::Pending => return read,
                Poll::Ready(Piece::End(end)) => {
                    read.push(end.name().into());
                    return read;
                }
                Poll::Ready(Piece::Update(update)) => read.push(update.id.clone()),
                Poll::Ready(Piece::Heartbeat) => read.push("beat".into()),
            }
        }
    }
}

fn selectors(texts: &[&str]) -> Vec<Selector> {
    texts.iter().map(|text| Selector::new(text).unwrap()).collect()
}

fn wanted(texts: &[&str]) -> Wanted {
    Wanted { selectors: selectors(texts), ..Wanted::default() }
}

#[test]
fn subscribers_of_all_loops_get_what_they_want_once() {
    let bench = Bench::new(10);
    bench.publish("early", &["/a"], false);
    let mut one = bench.subscribe(0, wanted(&["/a", "/a", "/{x}", "*"]));
    let mut other = bench.subscribe(1, wanted(&["/b"]));
    bench.publish("1", &["/a"], false);
    bench.publish("2", &["/b", "/a"], false);
    bench.publish("3", &["/c/d"], false);
    assert_eq!(bench.read(&mut one), ["1", "2", "3"]);
    assert_eq!(bench.read(&mut other), ["2"]);
    assert_eq!(bench.hub.figures().deliveries, 4);
    assert_eq!((bench.hub.figures().updates, bench.hub.figures().subscribers), (4, 2));
}

#[test]
fn private_updates_are_for_those_who_may_have_them() {
    let bench = Bench::new(10);
    let may = |texts: &[&str]| Wanted { private: selectors(texts), ..wanted(&["/books/{id}"]) };
    let mut none = bench.subscribe(0, may(&[]));
    let mut own = bench.subscribe(0, may(&["/users/1/{?topic}"]));
    let mut all = bench.subscribe(1, may(&["*"]));
    bench.publish("1", &["/books/1"], true);
    bench.publish("2", &["/books/2", "/users/1/?topic=2"], true);
    bench.publish("3", &["/users/1/"], true);
    bench.publish("4", &["/books/3"], false);
    assert_eq!(bench.read(&mut none), ["4"]);
    assert_eq!(bench.read(&mut own), ["2", "4"]);
    assert_eq!(bench.read(&mut all), ["1", "2", "4"], "it has not asked for the third");
}

#[test]
fn who_comes_back_gets_what_it_has_missed() {
    let bench = Bench::new(3);
    for id in ["1", "2", "3", "4"] {
        bench.publish(id, &[if id == "3" { "/b" } else { "/a" }], id == "4");
    }
    for (last, private, before, expected) in [
        (Some("2"), &["/a"][..], Some("2"), &["4"][..]),
        (Some("2"), &[], Some("2"), &[]),
        (Some("4"), &["/a"], Some("4"), &[]),
        (Some("1"), &["/a"], Some("earliest"), &["2", "4"]),
        (Some("earliest"), &[], Some("earliest"), &["2"]),
        (None, &["/a"], None, &[]),
    ] {
        let last = last.map(str::to_owned);
        let wanted = Wanted { last, private: selectors(private), ..wanted(&["/a"]) };
        let mut subscription = bench.subscribe(0, wanted);
        assert_eq!(subscription.before(), before);
        assert_eq!(bench.read(&mut subscription), expected, "{before:?}");
    }
}

#[test]
fn what_comes_after_the_replay_comes_once() {
    let bench = Bench::new(10);
    let mut first = bench.subscribe(0, wanted(&["/a"]));
    bench.publish("1", &["/a"], false);
    bench.publish("2", &["/a"], false);
    let last = Some("1".to_owned());
    let mut back = bench.subscribe(0, Wanted { last, ..wanted(&["/a"]) });
    bench.publish("3", &["/a"], false);
    assert_eq!(bench.read(&mut back), ["2", "3"]);
    assert_eq!(bench.read(&mut first), ["1", "2", "3"]);
}

#[test]
fn a_slow_subscriber_is_ended_and_others_are_not() {
    let bench = Bench::new(2);
    let mut slow = bench.subscribe(0, wanted(&["/a"]));
    let mut other = bench.subscribe(0, wanted(&["/b"]));
    let mut good = bench.subscribe(0, wanted(&["*"]));
    for id in ["1", "2", "3"] {
        assert_eq!(slow.end(), None);
        bench.publish(id, &["/a"], false);
        assert_eq!(bench.read(&mut good), [id]);
    }
    assert_eq!(slow.end(), Some(End::Slow), "before it is polled: it may never be");
    assert_eq!(bench.hub.figures().ended, [1, 0, 0]);
    assert_eq!(bench.read(&mut slow), ["slow"]);
    assert_eq!(bench.read(&mut other), [""; 0], "nothing was for it");
    assert_eq!(bench.hub.figures().ended, [1, 0, 0]);
}

#[test]
fn a_loop_that_gives_nothing_out_ends_its_subscribers() {
    let bench = Bench::new(2);
    let mut subscription = bench.subscribe(0, wanted(&["/other"]));
    for id in ["1", "2", "3"] {
        bench.publish(id, &["/a"], false);
    }
    assert_eq!(bench.read(&mut subscription), ["slow"]);
}

#[test]
fn the_number_of_subscribers_is_bounded() {
    let bench = Bench::new(2);
    let mut all: Vec<_> = (0..3).map(|_| bench.subscribe(0, wanted(&["/a"]))).collect();
    assert_eq!(bench.hub.subscribe(1, wanted(&["/a"]), 0).unwrap_err(), Full);
    drop(all.pop());
    bench.subscribe(1, wanted(&["/a"]));
    drop(all);
    assert!(bench.hub.is_idle(0) && bench.hub.is_idle(1));
    assert_eq!(bench.hub.figures().subscribers, 0);
}

#[test]
fn silent_connections_beat_and_expired_ones_end() {
    let mut bench = Bench::new(10);
    let mut one = bench.subscribe(0, wanted(&["/a"]));
    let mut brief = bench.subscribe(0, Wanted { until: Some(1200), ..wanted(&["/a"]) });
    assert_eq!(bench.read(&mut one), [""; 0]);
    assert_eq!(bench.read(&mut brief), [""; 0]);
    assert!(bench.hub.tick(0, 1099, 100).is_empty());
    bench.now = 1100;
    assert_eq!(bench.hub.tick(0, 1100, 100).len(), 2);
    assert_eq!(bench.read(&mut one), ["beat"]);
    bench.publish("1", &["/a"], false);
    bench.now = 1150;
    assert_eq!(bench.read(&mut one), ["1"]);
    bench.now = 1200;
    assert_eq!(bench.hub.tick(0, 1200, 100).len(), 0, "one spoke just now, one was not asked");
    assert_eq!(bench.read(&mut one), [""; 0]);
    assert_eq!(bench.read(&mut brief), ["expired"], "and not the update");
}

#[test]
fn a_closed_loop_sends_its_subscribers_away_with_what_has_come() {
    let bench = Bench::new(10);
    let mut one = bench.subscribe(0, wanted(&["/a"]));
    let mut other = bench.subscribe(1, wanted(&["/a"]));
    bench.publish("1", &["/a"], false);
    bench.hub.close(0);
    assert_eq!(bench.read(&mut one), ["1", "closed"]);
    assert_eq!(bench.read(&mut other), ["1"]);
    let mut late = bench.subscribe(0, wanted(&["/a"]));
    assert_eq!(bench.read(&mut late), ["closed"]);
}

#[test]
fn an_update_wakes_the_giver_and_then_those_who_want_it() {
    let bench = Bench::new(10);
    let mut subscription = bench.subscribe(0, wanted(&["/a"]));
    let [giver, client] = [(); 2].map(|()| Arc::new(Note::default()));
    let [giving, reading] = [&giver, &client].map(|note| Waker::from(note.clone()));
    let poll = |waker: &Waker| bench.hub.poll_give_out(0, &mut Context::from_waker(waker));
    assert!(poll(&giving).is_pending());
    assert!(subscription.poll(0, &mut Context::from_waker(&reading)).is_pending());
    bench.publish("1", &["/b"], false);
    assert!(giver.0.swap(false, Ordering::Relaxed));
    assert!(poll(&giving).is_pending(), "nobody wants it");
    bench.publish("2", &["/a"], false);
    assert!(giver.0.load(Ordering::Relaxed) && !client.0.load(Ordering::Relaxed));
    let Poll::Ready(woken) = poll(&giving) else { panic!("nobody is woken") };
    woken.into_iter().for_each(Waker::wake);
    assert!(client.0.load(Ordering::Relaxed));
}
