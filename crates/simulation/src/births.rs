//! The supervisor's means: what it starts and ends here are processes of the simulation.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use std::sync::Arc;

use tokamak_config::{Server, Site};
use tokamak_supervisor::means::{FrontPlan, Means, PoolPlan, Process, Started, ZygoteStart};
use tokamak_sys::queue::Segment;

use crate::random::Random;
use crate::wire::{Alarm, Parent, Theirs, line};

/// A process that the supervisor has just started.
pub struct Birth {
    pub pid: u32,
    pub line: Theirs,
    pub alarm: Alarm,
    pub what: Kind,
}

/// What it is.
pub enum Kind {
    Zygote { memory: OwnedFd, bells: Vec<OwnedFd>, site: Box<Site> },
    Front { server: Box<Server>, pools: Vec<Link> },
}

/// A pool as a front gets it.
pub struct Link {
    pub site: usize,
    pub number: u32,
    pub segment: Arc<Segment>,
}

/// The means of a simulated supervisor.
pub struct Births {
    clock: Rc<Cell<u64>>,
    random: RefCell<Random>,
    parent: Parent,
    pid: Cell<u32>,
    /// Until then no process can be started.
    pub barren: Cell<u64>,
    pub born: RefCell<Vec<Birth>>,
    pub killed: Rc<RefCell<Vec<u32>>>,
}

impl Births {
    pub fn new(clock: Rc<Cell<u64>>, random: Random, parent: Parent) -> Births {
        Births {
            clock,
            random: RefCell::new(random),
            parent,
            pid: Cell::new(100),
            barren: Cell::new(0),
            born: RefCell::default(),
            killed: Rc::default(),
        }
    }

    /// A number that no process has had.
    pub fn next_pid(&self) -> u32 {
        self.pid.set(self.pid.get() + 1);
        self.pid.get()
    }

    fn start(&self, what: Kind) -> io::Result<Started> {
        if self.clock.get() < self.barren.get() {
            return Err(io::Error::other("no process can be had"));
        }
        let pid = self.next_pid();
        let alarm: Alarm = Rc::new(Cell::new(self.clock.get()));
        let random = Random::new(self.random.borrow_mut().next());
        let (ours, theirs) = line(self.clock.clone(), random, self.parent.clone(), alarm.clone());
        self.born.borrow_mut().push(Birth { pid, line: theirs, alarm, what });
        let child = Child { pid, killed: self.killed.clone() };
        Ok((Box::new(child), Box::new(ours)))
    }
}

impl Means for Births {
    fn zygote(&self, start: ZygoteStart<'_>) -> io::Result<Started> {
        let bells = start.links.bells.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
        let memory = start.segment.fd().try_clone_to_owned()?;
        self.start(Kind::Zygote { memory, bells, site: Box::new(start.site.clone()) })
    }

    fn front(&self, plan: FrontPlan<'_>) -> io::Result<Started> {
        let link = |pool: &PoolPlan<'_>| Link {
            site: pool.site_index,
            number: pool.number,
            segment: pool.segment.clone(),
        };
        let pools = plan.pools.iter().map(link).collect();
        self.start(Kind::Front { server: Box::new(plan.server.clone()), pools })
    }
}

#[derive(Debug)]
struct Child {
    pid: u32,
    killed: Rc<RefCell<Vec<u32>>>,
}

impl Process for Child {
    fn id(&self) -> u32 {
        self.pid
    }

    fn kill(&self) {
        self.killed.borrow_mut().push(self.pid);
    }
}

/// The identity of a queue.
pub fn identity(memory: BorrowedFd<'_>) -> u64 {
    let file = memory.try_clone_to_owned().map(File::from).expect("a descriptor");
    file.metadata().expect("a file").ino()
}
