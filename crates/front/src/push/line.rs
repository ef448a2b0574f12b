//! Receives what the workers of a site publish, on a thread of its own: descriptors come along, and
//! the kernel may take long to close one that a hostile script has sent.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokamak_mercure::draft;
use tokamak_sys::channel::{self, Channel, Watch, poll};
use tokamak_sys::hub;
use tokio::runtime::{Builder, Runtime};

use super::SiteHub;

/// Stack of the thread. It runs little; the updates are not on it.
const STACK: usize = 256 * 1024;

/// The thread of a hub, for as long as this lives. Updates that come later wait for another front.
pub struct HubThread {
    /// Wakes the thread for its end.
    bell: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl HubThread {
    /// Receives updates for this hub, if there are workers that may publish.
    pub fn start(hub: &Arc<SiteHub>) -> Option<io::Result<HubThread>> {
        hub.line.is_some().then(|| HubThread::new(hub.clone()))
    }

    fn new(hub: Arc<SiteHub>) -> io::Result<HubThread> {
        let bell = channel::bell()?;
        let rung = bell.try_clone()?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let thread = thread::Builder::new().name("hub".into()).stack_size(STACK);
        let thread = thread.spawn(move || {
            if let Some(line) = &hub.line {
                receive_updates(&hub, line, &rung, &runtime);
            }
        })?;
        Ok(HubThread { bell, thread: Some(thread) })
    }
}

impl Drop for HubThread {
    fn drop(&mut self) {
        // The counter is far from full.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // What it publishes at the moment is the last.
            let _ = thread.join();
        }
    }
}

fn receive_updates(hub: &SiteHub, line: &Channel, bell: &OwnedFd, runtime: &Runtime) {
    loop {
        let mut watches = [Watch::read(bell.as_fd()), Watch::read(line.as_fd())];
        if poll(&mut watches, None).is_err() || watches[0].readable {
            return;
        }
        // The supervisor has both ends of the line, so it has no end that would be found here.
        let Some((update, answer)) = hub::next(line) else { continue };
        match runtime.block_on(publish(hub, &update)) {
            Ok(id) => answer.done(&id),
            Err(reason) => answer.refused(&reason),
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
