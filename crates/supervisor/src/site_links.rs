//! By what the processes of a site reach each other. All pools of a site have the same, so that one
//! can take the place of another.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use tokamak_config::{Server, Site};
use tokamak_sys::channel::{self, Channel};
use tokamak_sys::control::{ZYGOTE_BELLS, key};

/// The descriptors that all pools of a site share.
#[derive(Debug)]
pub struct SiteLinks {
    /// The eventfds of its queue: one for each event loop, and then those of the workers.
    pub bells: Vec<OwnedFd>,
    /// The line to its hub, if it has one.
    pub hub: Option<Arc<HubLine>>,
}

impl SiteLinks {
    /// So many bells, and this line.
    ///
    /// # Errors
    /// Fails if there are no free descriptors.
    pub fn new(bells: usize, hub: Option<Arc<HubLine>>) -> io::Result<SiteLinks> {
        let bells = (0..bells).map(|_| channel::bell()).collect::<io::Result<_>>()?;
        Ok(SiteLinks { bells, hub })
    }

    /// What a zygote gets of them: the bells, and behind them the line.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let line = self.hub.as_ref().map(|hub| hub.workers.as_fd());
        self.bells.iter().map(AsFd::as_fd).chain(line)
    }

    /// The setting by which a zygote finds the line.
    pub fn setting(&self) -> Option<(String, String)> {
        let number = ZYGOTE_BELLS as usize + self.bells.len();
        self.hub.as_ref().map(|_| (key::HUB.to_owned(), number.to_string()))
    }
}

/// The line by which a site's workers publish in its hub.
#[derive(Debug)]
pub struct HubLine {
    workers: Channel,
    front: Channel,
}

impl HubLine {
    fn new() -> io::Result<HubLine> {
        let (workers, front) = Channel::pair()?;
        Ok(HubLine { workers, front })
    }

    /// The front's end of it, for a front.
    ///
    /// # Errors
    /// Fails if there is no free descriptor.
    pub fn front_end(&self) -> io::Result<Channel> {
        Channel::from_fd(self.front.as_fd().try_clone_to_owned()?)
    }
}

/// The lines of all sites that have a hub, by their names. They outlive generations: what old
/// workers publish reaches the hub of the new front, to which the subscribers go.
#[derive(Debug, Default)]
pub struct HubLines(BTreeMap<String, Arc<HubLine>>);

impl HubLines {
    /// Forgets the lines of sites without a hub.
    pub fn keep(&mut self, server: &Server) {
        let has_hub = |name: &String| {
            server.sites.iter().any(|site| site.name == *name && site.mercure.is_some())
        };
        self.0.retain(|name, _| has_hub(name));
    }

    /// The line of a site, if that has a hub.
    ///
    /// # Errors
    /// Fails if there are no free descriptors.
    pub fn of(&mut self, site: &Site) -> io::Result<Option<Arc<HubLine>>> {
        if site.mercure.is_none() {
            return Ok(None);
        }
        if let Some(line) = self.0.get(&site.name) {
            return Ok(Some(Arc::clone(line)));
        }
        let line = Arc::new(HubLine::new()?);
        self.0.insert(site.name.clone(), Arc::clone(&line));
        Ok(Some(line))
    }
}
