//! The process that shares keys of session tickets with other nodes. It speaks to Redis, which may
//! be slow or away, so it is apart from the supervisor, and runs as the front's user.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;

use tokamak_config::{Secret, Server, Tier};
use tokamak_sys::control::Status;
use tokamak_sys::process;
use tokamak_tls::{TicketKey, TicketNews};

use crate::identities::Identities;
use crate::log::{self, Level};
use crate::means::Process;
use crate::storm::Storm;

/// What the process starts with. It holds no other descriptors than the line and 0, 1, 2.
#[derive(Debug)]
pub struct TicketsStart {
    /// Where the keys are.
    pub tier: Tier,
    /// What they are encrypted with.
    pub secret: Option<Secret>,
    /// The line to the supervisor.
    pub line: UnixDatagram,
}

/// The code of the process; what it returns is its exit status.
pub type TicketsMain = dyn Fn(TicketsStart) -> u8;

/// The process, if one is needed.
#[derive(Debug, Default)]
pub struct SharedTickets {
    running: Option<Running>,
    storm: Storm,
    /// Whether the last news were bad.
    is_down: bool,
}

#[derive(Debug)]
struct Running {
    child: Box<dyn Process>,
    line: UnixDatagram,
    /// What it was started for.
    task: (Tier, Option<Secret>),
}

impl SharedTickets {
    /// Starts a process if this configuration needs one, ends one that is for another, and gives
    /// the keys that it has sent.
    pub fn tick(
        &mut self,
        server: &Server,
        main: &TicketsMain,
        now: u64,
    ) -> Option<Vec<TicketKey>> {
        let tls = &server.tls;
        let tier = tls.redis.as_ref().filter(|_| !server.listen_tls.is_empty());
        let wanted = tier.map(|tier| (tier.clone(), tls.redis_secret.clone()));
        match (&self.running, wanted) {
            (Some(running), wanted) if wanted.as_ref() != Some(&running.task) => {
                running.child.kill();
            }
            (Some(_), _) => return self.hear(),
            (None, Some(task)) if self.storm.allowed(1, 0, now) > 0 => {
                match start(server, task, main) {
                    Ok(running) => self.running = Some(running),
                    Err(error) => {
                        let problem = "cannot start the process that shares ticket keys";
                        log::line(Level::Error, format_args!("{problem}: {error}"));
                        self.storm.failed(now);
                    }
                }
            }
            (None, _) => {}
        }
        None
    }

    /// A child has ended; whether it was the process.
    pub fn child_exited(&mut self, pid: u32, status: Status, now: u64) -> bool {
        if self.running.take_if(|running| running.child.id() == pid).is_none() {
            return false;
        }
        // One that was ended for another configuration begins anew at once.
        if status != Status::Signal(9)
            && let Some(wait) = self.storm.failed(now)
        {
            let seconds = wait.as_secs_f64();
            log::line(
                Level::Error,
                format_args!(
                    "the process that shares ticket keys has ended ({status:?}); another one \
                        starts in {seconds:.1} s pid={pid}"
                ),
            );
        }
        true
    }

    /// The last keys that it has sent since.
    fn hear(&mut self) -> Option<Vec<TicketKey>> {
        let mut latest = None;
        let mut buffer = [0; TicketNews::LONGEST];
        let line = &self.running.as_ref()?.line;
        while let Ok(length) = line.recv(&mut buffer) {
            match TicketNews::decode(&buffer[..length]) {
                Some(TicketNews::Keys(keys)) => {
                    if std::mem::take(&mut self.is_down) {
                        let text = "ticket keys are shared with other nodes again";
                        log::line(Level::Info, format_args!("{text}"));
                    }
                    self.storm.over();
                    latest = Some(keys);
                }
                Some(TicketNews::Trouble(problem)) => warn_once(&mut self.is_down, &problem),
                None => {}
            }
        }
        latest
    }
}

/// Says once why keys are not shared.
fn warn_once(is_down: &mut bool, problem: &str) {
    if std::mem::replace(is_down, true) {
        return;
    }
    let advice = "sessions are resumed on the node that began them only";
    log::line(
        Level::Warn,
        format_args!("ticket keys are not shared: {}; {advice}", problem.escape_debug()),
    );
}

fn start(server: &Server, task: (Tier, Option<Secret>), main: &TicketsMain) -> io::Result<Running> {
    let identity = Identities::of(server)?.front;
    let (ours, line) = UnixDatagram::pair()?;
    ours.set_nonblocking(true)?;
    let keep = [line.as_raw_fd()];
    let start = TicketsStart { tier: task.0.clone(), secret: task.1.clone(), line };
    let child = process::fork(&keep, identity.as_ref(), move || {
        process::forbid_tracing();
        main(start)
    })?;
    Ok(Running { child: Box::new(child), line: ours, task })
}
