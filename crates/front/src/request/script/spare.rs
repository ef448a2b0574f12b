//! Reuses header maps, because a new one takes two allocations for its first field.

use std::cell::RefCell;

use http::HeaderMap;

/// Most maps that an event loop keeps, and most fields that a kept map has room for. With ten times
/// more, maps of unusual requests would stay in memory; with a tenth, ordinary requests would have
/// too many fields to be kept.
const MOST: usize = 64;

thread_local! {
    static SPARE: RefCell<Vec<HeaderMap>> = const { RefCell::new(Vec::new()) };
}

/// An empty map.
pub fn take() -> HeaderMap {
    SPARE.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Takes back a map for reuse.
pub fn give(mut map: HeaderMap) {
    if !(1..=MOST).contains(&map.capacity()) {
        return;
    }
    map.clear();
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < MOST {
            spare.push(map);
        }
    });
}
