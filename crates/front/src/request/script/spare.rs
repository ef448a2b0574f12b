//! Header fields' maps that are used again: a new one takes two allocations for its first field.

use std::cell::RefCell;

use http::HeaderMap;

/// Most maps that an event loop keeps, and most fields that one of them has room for. Chosen
/// arbitrarily.
const MOST: usize = 64;

thread_local! {
    static SPARE: RefCell<Vec<HeaderMap>> = const { RefCell::new(Vec::new()) };
}

/// An empty map.
pub fn take() -> HeaderMap {
    SPARE.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Keeps a map that nobody needs any more.
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
