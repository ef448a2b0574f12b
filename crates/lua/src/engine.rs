//! What all event loops of a process share: the script files and the time limits, both looked after
//! by one thread.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use crate::api::Counters;
use crate::raw::Watchdog;
use crate::scripts::{ScriptId, Scripts};
use crate::shared::{Dictionaries, Dictionary};

/// How precisely time limits are kept. A tenth would wake the thread 200 times a second for
/// nothing; ten times more would let a script overrun its limit by half a second.
const TICK: Duration = Duration::from_millis(50);

/// How often script files are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Ticks without a run after which the thread sleeps until it is woken or the files' turn comes:
/// two seconds. With a tenth, the first run after each short pause would pay for a wake-up; ten
/// times more would keep an idle server ticking for 20 seconds.
const QUIET: u32 = 40;

/// What scripts may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time in one go: from when a script is entered until it waits or ends.
    pub stretch: Duration,
    /// Time from a script's beginning to its end, including what it waits for.
    pub total: Duration,
    /// Bytes of memory of one event loop's scripts together.
    pub memory: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            stretch: Duration::from_millis(500),
            total: Duration::from_secs(30),
            memory: 64 << 20,
        }
    }
}

impl Limits {
    /// The ticks that a stretch may take; one more than it has, since the present one has begun
    /// already.
    pub(crate) fn ticks(&self) -> u64 {
        self.stretch.as_millis().div_ceil(TICK.as_millis()) as u64 + 1
    }
}

/// The script files of a process, and the thread that watches over them and over the runs.
#[derive(Debug)]
pub struct Engine {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
}

/// What the thread sees as well.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    pub(crate) scripts: Scripts,
    pub(crate) watchdog: Watchdog,
    pub(crate) counters: Arc<Counters>,
    pub(crate) dictionaries: Dictionaries,
    thread: OnceLock<Thread>,
    resting: AtomicBool,
    ended: AtomicBool,
}

impl Engine {
    /// An engine for these script files, which are read now, and dictionaries of these sizes.
    ///
    /// # Panics
    /// The system has no thread to give.
    pub fn new(
        limits: Limits,
        dictionaries: &BTreeMap<String, usize>,
        scripts: &[impl AsRef<Path>],
    ) -> Engine {
        let paths = scripts.iter().map(|path| path.as_ref().to_owned()).collect();
        Engine::start(limits, dictionaries, Scripts::new(paths))
    }

    /// An engine for the scripts of a folder, which take the place of programs: they share their
    /// globals, and what they print is the response.
    ///
    /// # Panics
    /// As [`Engine::new`].
    pub fn below(limits: Limits, dictionaries: &BTreeMap<String, usize>, folder: &Path) -> Engine {
        Engine::start(limits, dictionaries, Scripts::below(folder.to_owned()))
    }

    fn start(limits: Limits, dictionaries: &BTreeMap<String, usize>, scripts: Scripts) -> Engine {
        let dictionary =
            |(name, size): (&String, &usize)| (name.clone(), Arc::new(Dictionary::new(*size)));
        let shared = Arc::new(Shared {
            limits,
            scripts,
            watchdog: Watchdog::default(),
            counters: Arc::default(),
            dictionaries: dictionaries.iter().map(dictionary).collect(),
            thread: OnceLock::new(),
            resting: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        let kept = shared.clone();
        let keeper = std::thread::Builder::new()
            .name("lua-keeper".into())
            .spawn(move || kept.keep())
            .unwrap_or_else(|error| panic!("no thread for time limits: {error}"));
        let _ = shared.thread.set(keeper.thread().clone());
        Engine { shared, keeper: Some(keeper) }
    }

    /// The script of that path, if the engine was made for it.
    pub fn script(&self, path: &Path) -> Option<ScriptId> {
        self.shared.scripts.id(path)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        if let Some(keeper) = self.keeper.take() {
            keeper.thread().unpark();
            let _ = keeper.join();
        }
    }
}

impl Shared {
    /// Sees to it that time passes for a run that is about to begin.
    pub(crate) fn wake(&self) {
        if self.resting.load(Ordering::Relaxed)
            && self.resting.swap(false, Ordering::AcqRel)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    fn keep(&self) {
        let mut looked = Instant::now();
        let mut quiet = 0;
        while !self.ended.load(Ordering::Acquire) {
            let rest = LOOK.saturating_sub(looked.elapsed());
            if quiet > QUIET {
                // Between this and the pause a run may begin: it sees the flag and ends the pause
                // before it starts.
                self.resting.store(true, Ordering::Release);
                std::thread::park_timeout(rest);
            } else {
                std::thread::park_timeout(TICK.min(rest));
            }
            let woken = quiet > QUIET && !self.resting.swap(false, Ordering::AcqRel);
            let busy = self.watchdog.tick();
            quiet = if busy || woken { 0 } else { quiet + 1 };
            if looked.elapsed() >= LOOK {
                self.scripts.look();
                looked = Instant::now();
            }
        }
    }
}
