//! What the supervisor needs of the system to have processes, and what it has of them. What starts
//! them for real is `system`; a simulation has means of its own.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use tokamak_config::{Server, Site};
use tokamak_sys::channel::{Channel, Received};
use tokamak_sys::process::{Child, Identity};
use tokamak_sys::queue::Segment;

use crate::site_links::SiteLinks;

/// A process that was started and has not been reaped yet.
pub trait Process: fmt::Debug {
    /// Its process id, by which its end is reported.
    fn id(&self) -> u32;
    /// Ends it at once. That it has already ended is no error.
    fn kill(&self);
}

impl Process for Child {
    fn id(&self) -> u32 {
        Child::id(self)
    }

    fn kill(&self) {
        Child::kill(self);
    }
}

/// The supervisor's end of a way for messages; see [`Channel`].
pub trait MessageChannel: fmt::Debug {
    /// Sends one message, or fails with `WouldBlock` when the other side does not keep up.
    ///
    /// # Errors
    /// Fails if it cannot be sent, also because the other side is gone.
    fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()>;
    /// Takes the next message if there is one.
    ///
    /// # Errors
    /// Fails if the message is invalid, or the channel is broken.
    fn receive(&self) -> io::Result<Received>;
    /// What can be polled for messages, if the kernel knows of it.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
}

impl MessageChannel for Channel {
    fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        Channel::send(self, bytes, fds)
    }

    fn receive(&self) -> io::Result<Received> {
        Channel::receive(self)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }
}

/// A process and the way to it.
pub type Started = (Box<dyn Process>, Box<dyn MessageChannel>);

/// What a zygote starts with.
pub struct ZygoteStart<'a> {
    /// Who it runs as.
    pub identity: Option<&'a Identity>,
    /// Its site.
    pub site: &'a Site,
    /// Its queue.
    pub segment: &'a Segment,
    /// What it shares with others of its site.
    pub links: &'a SiteLinks,
    /// Its first message.
    pub settings: &'a [(String, String)],
    /// What a boot depends on of which no image could be taken.
    pub boot_files: Option<BorrowedFd<'a>>,
}

/// A pool of a front.
pub struct PoolPlan<'a> {
    /// The index of its site.
    pub site_index: usize,
    /// Its number in what the supervisor says.
    pub number: u32,
    /// Its queue.
    pub segment: &'a Arc<Segment>,
    /// What it shares with other pools of its site.
    pub links: &'a SiteLinks,
    /// PHP's version, if responses have it.
    pub exposed_version: Option<&'a str>,
    /// The file of its own access log, if it has one.
    pub access_log: Option<&'a Path>,
}

/// What a front starts with.
pub struct FrontPlan<'a> {
    /// The configuration, paths resolved.
    pub server: &'a Server,
    /// Its pools, in the order of the sites.
    pub pools: Vec<PoolPlan<'a>>,
    /// Who it runs as.
    pub identity: Option<&'a Identity>,
    /// See [`crate::FrontStart`].
    pub is_successor: bool,
}

/// Starts processes.
pub trait Means {
    /// A zygote.
    ///
    /// # Errors
    /// Fails if it cannot be started.
    fn zygote(&self, start: ZygoteStart<'_>) -> io::Result<Started>;
    /// A front.
    ///
    /// # Errors
    /// Fails if it cannot be started.
    fn front(&self, plan: FrontPlan<'_>) -> io::Result<Started>;
}
