//! What the zygote looks at now and then: whether it is still what its workers should inherit.

use std::time::{Duration, Instant};

use crate::engine;

/// Time between two looks.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What the workers inherit of the zygote beside its memory.
pub struct Shape {
    looked: Instant,
    is_told: bool,
}

impl Shape {
    /// As it is now, so it is to stay.
    pub fn learn() -> Shape {
        engine::zygote_begins();
        Shape { looked: Instant::now(), is_told: false }
    }

    /// The last look was long ago.
    pub fn is_due(&self) -> bool {
        self.looked.elapsed() >= LOOK_EVERY
    }

    /// What somebody has changed of it; said once.
    pub fn look(&mut self) -> Option<String> {
        self.looked = Instant::now();
        let reason = if self.is_told { None } else { engine::zygote_changed() };
        self.is_told |= reason.is_some();
        reason
    }
}

/// The image of sealed mode.
pub struct Image {
    looked: Instant,
    is_told: bool,
}

impl Image {
    /// As the files are now, of which it was made.
    pub fn learn() -> Image {
        Image { looked: Instant::now(), is_told: false }
    }

    /// Why it is not the application any more; said once.
    pub fn look(&mut self) -> Option<String> {
        if self.is_told || self.looked.elapsed() < LOOK_EVERY {
            return None;
        }
        self.looked = Instant::now();
        let reason = engine::outdated();
        self.is_told = reason.is_some();
        reason
    }
}
