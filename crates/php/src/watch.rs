//! What the zygote looks at now and then: whether it is still what its workers should inherit.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::time::{Duration, Instant};

use tokamak_sys::control::Newer;

use crate::engine;

/// Time between two looks.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What the workers inherit of the zygote beside its memory.
pub struct Shape {
    looked: Instant,
    is_reported: bool,
}

impl Shape {
    /// As it is now, so it is to stay.
    pub fn learn() -> Shape {
        engine::zygote_begins();
        Shape { looked: Instant::now(), is_reported: false }
    }

    /// The last look was long ago.
    pub fn is_due(&self) -> bool {
        self.looked.elapsed() >= LOOK_EVERY
    }

    /// What was changed of it from outside; reported once.
    pub fn look(&mut self) -> Option<String> {
        self.looked = Instant::now();
        let reason = if self.is_reported { None } else { engine::zygote_changed() };
        self.is_reported |= reason.is_some();
        reason
    }
}

/// Shortest time between two looks at an image's files. A deployment writes hundreds of them in a
/// second, and a look takes about a millisecond. A tenth would take a processor; with ten times
/// more, a page could be made of old code for that long.
const LOOK_SOON: Duration = Duration::from_millis(10);

/// The image of sealed mode.
pub struct Image {
    looked: Option<Instant>,
    /// Readable when a file of it changes, where the kernel says so.
    line: Option<File>,
    has_rung: bool,
}

impl Image {
    /// As the files were of which it was made.
    pub fn learn() -> Image {
        Image { looked: None, line: engine::watch_boot().map(File::from), has_rung: false }
    }

    /// The descriptor to wait at, beside the time.
    pub fn line(&self) -> Option<&File> {
        self.line.as_ref().filter(|_| !self.has_rung)
    }

    /// The kernel says that something has changed; what is for the look to see.
    pub fn rung(&mut self) {
        let mut dropped = [0; 4096];
        let Some(line) = &mut self.line else { return };
        self.has_rung = true;
        loop {
            match line.read(&mut dropped) {
                Ok(read) if read > 0 => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    }

    /// Until the next look.
    pub fn patience(&self) -> Duration {
        let every = if self.has_rung { LOOK_SOON } else { LOOK_EVERY };
        self.looked.map_or(Duration::ZERO, |looked| every.saturating_sub(looked.elapsed()))
    }

    /// What has changed, if a look is due: see [`engine::outdated`].
    pub fn look(&mut self) -> Option<(String, Newer)> {
        if !self.patience().is_zero() {
            return None;
        }
        (self.looked, self.has_rung) = (Some(Instant::now()), false);
        engine::outdated()
    }
}
