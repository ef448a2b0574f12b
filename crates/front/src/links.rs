//! The open connections of an event loop, whose time limits are watched.

use std::sync::Arc;

use tokio::task::AbortHandle;

use crate::connection::{Heart, Link};

/// Whose time limits are watched.
pub enum Watched {
    Http(Arc<Link>),
    Fastcgi(Arc<Heart>),
}

impl Watched {
    /// Its signs of life.
    pub fn heart(&self) -> &Heart {
        match self {
            Watched::Http(link) => &link.heart,
            Watched::Fastcgi(heart) => heart,
        }
    }
}

#[derive(Default)]
pub struct Links {
    pub open: Vec<Option<(AbortHandle, Watched)>>,
    free: Vec<usize>,
}

impl Links {
    /// A place for one more.
    pub fn reserve(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.open.push(None);
            self.open.len() - 1
        })
    }

    /// One has been closed.
    pub fn release(&mut self, place: usize) {
        self.open[place] = None;
        self.free.push(place);
    }
}
