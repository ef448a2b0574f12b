//! Takes in what the workers of a site publish, on a thread of its own: descriptors come along, and
//! closing one of a hostile script may take long.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokamak_mercure::draft;
use tokamak_sys::channel::{self, Channel, Watch, poll};
use tokamak_sys::hub::{self, Asked};
use tokio::runtime::{Builder, Runtime};

use super::SiteHub;

/// Stack of the thread. It runs little; the updates are not on it.
const STACK: usize = 256 * 1024;

/// The thread of a hub, for as long as this lives. Updates that come later wait for another front.
pub struct Taker {
    /// Wakes the thread for its end.
    bell: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Taker {
    /// Takes in updates for this hub, if there are workers that may publish.
    pub fn start(hub: &Arc<SiteHub>) -> Option<io::Result<Taker>> {
        hub.line.is_some().then(|| Taker::new(hub.clone()))
    }

    fn new(hub: Arc<SiteHub>) -> io::Result<Taker> {
        let bell = channel::bell()?;
        let rung = bell.try_clone()?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let thread = thread::Builder::new().name("hub".into()).stack_size(STACK);
        let thread = thread.spawn(move || {
            if let Some(line) = &hub.line {
                take_in(&hub, line, &rung, &runtime);
            }
        })?;
        Ok(Taker { bell, thread: Some(thread) })
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        // The counter is far from full.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // What it publishes at the moment is the last.
            let _ = thread.join();
        }
    }
}

fn take_in(hub: &SiteHub, line: &Channel, bell: &OwnedFd, runtime: &Runtime) {
    loop {
        let mut watches = [Watch::read(bell.as_fd()), Watch::read(line.as_fd())];
        if poll(&mut watches, None).is_err() || watches[0].readable {
            return;
        }
        match hub::next(line) {
            Asked::Update(update, answer) => match runtime.block_on(publish(hub, &update)) {
                Ok(id) => answer.done(&id),
                Err(reason) => answer.refused(&reason),
            },
            // The supervisor has both ends of the line, so it has no end.
            Asked::Useless | Asked::Nothing | Asked::Closed => {}
        }
    }
}

/// Publishes an update. Returns its name.
async fn publish(hub: &SiteHub, update: &[u8]) -> Result<String, String> {
    let fields = hub::fields(update).ok_or("a text is not UTF-8")?;
    let fields = fields.into_iter().map(|(name, value)| (name.into(), value.into()));
    let draft = draft(fields, hub.hub.limits()).map_err(|refused| refused.to_string())?;
    hub.publish(hub.loops, draft).await
}
