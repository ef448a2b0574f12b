//! Any bytes as what publishers and subscribers send. The fuzz target runs it too.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokamak_mercure::{Hub, Key, Limits, Piece, Selector, Update, Wanted, publication};

/// Reads the bytes in each of these ways.
pub fn run(bytes: &[u8], key: &Key) {
    // A token that nobody has signed.
    assert!(key.verify(bytes).is_err());
    let limits = Limits { history: 4, update: 1 << 16, ..Limits::default() };
    let text = String::from_utf8_lossy(bytes);
    let (selector, topic) = text.split_once('\n').unwrap_or((&text, &text));
    let selector = Selector::new(selector).ok();
    if let Some(selector) = &selector {
        assert!(selector.matches(selector.text()));
        selector.matches(topic);
    }
    let Ok(draft) = publication(bytes, &limits) else { return };
    let fits = |selector: &Selector| draft.topics.iter().any(|topic| selector.matches(topic));
    let is_wanted = selector.as_ref().is_some_and(fits) && !draft.is_private;
    let topic = Selector::new(&draft.topics[0]).ok();
    let hub = Arc::new(Hub::new(limits, 1));
    let subscribe = |selector: Option<Selector>| {
        let selectors = selector.into_iter().collect();
        let last = Some("earliest".to_owned());
        hub.subscribe(0, Wanted { selectors, last, ..Wanted::default() }, 0).expect("a place")
    };
    let mut one = subscribe(selector);
    let is_public = !draft.is_private && topic.is_some();
    let lines = draft.data.replace("\r\n", "\n").replace('\r', "\n");
    let update = Update::new(draft, || "given".into());
    assert!(update.text.ends_with(b"\n\n") && !update.id.contains(['\n', '\r']));
    // One event: its data come back, and no field of theirs is one of the event.
    let text = String::from_utf8(update.text.to_vec()).expect("text");
    assert_eq!(text.matches("\n\n").count(), 1, "{text:?}");
    let data: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(data.join("\n"), lines);
    hub.publish(update);
    let mut other = subscribe(topic);
    let mut cx = Context::from_waker(Waker::noop());
    let _ = hub.poll_give_out(0, &mut cx);
    for (subscription, gets) in [(&mut one, is_wanted), (&mut other, is_public)] {
        let polled = subscription.poll(0, &mut cx);
        assert_eq!(matches!(polled, Poll::Ready(Piece::Update(_))), gets, "{text:?}");
    }
}
