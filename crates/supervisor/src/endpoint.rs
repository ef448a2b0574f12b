//! The supervisor's end of a conversation with a child: sending never waits.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tokamak_sys::control::{Heard, Message, understand};

use crate::means::MessageChannel;

/// Messages that may wait for a child that does not read. A child so far behind is stuck.
const BACKLOG: usize = 4096;

/// A channel with the messages that did not fit into it yet.
#[derive(Debug)]
pub struct Endpoint {
    wire: Box<dyn MessageChannel>,
    waiting: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
}

impl Endpoint {
    /// A line over this wire.
    pub fn over(wire: Box<dyn MessageChannel>) -> Endpoint {
        Endpoint { wire, waiting: VecDeque::new() }
    }

    /// Sends a message now or, if the channel is full, later.
    ///
    /// # Errors
    /// Fails if the other side is gone or stuck.
    pub fn send<M: Message>(&mut self, message: &M, fds: Vec<OwnedFd>) -> io::Result<()> {
        if self.waiting.len() >= BACKLOG {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.waiting.push_back((message.encode(), fds));
        self.flush()
    }

    /// Sends what waits, as far as there is room.
    ///
    /// # Errors
    /// Fails if the other side is gone.
    pub fn flush(&mut self) -> io::Result<()> {
        while let Some((bytes, fds)) = self.waiting.front() {
            let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
            match self.wire.send(bytes, &fds) {
                Ok(()) => self.waiting.pop_front(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
        }
        Ok(())
    }

    /// How many messages wait for room.
    pub fn backlog(&self) -> usize {
        self.waiting.len()
    }

    /// Whether messages wait for room.
    pub fn wants_write(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// What can be polled for messages of the child.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.wire.fd()
    }

    /// The next message of the child.
    ///
    /// # Errors
    /// `InvalidData` if the child's message is invalid.
    pub fn receive<M: Message>(&self) -> io::Result<Heard<M>> {
        understand(self.wire.receive()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokamak_sys::channel::Channel;
    use tokamak_sys::control::{ToZygote, receive};

    fn pair() -> (Endpoint, Channel) {
        let (ours, theirs) = Channel::pair().unwrap();
        (Endpoint::over(Box::new(ours)), theirs)
    }

    #[test]
    fn what_does_not_fit_is_sent_later_in_order() {
        let (mut endpoint, child) = pair();
        let sent: Vec<ToZygote> =
            (1..=2000).map(|instance| ToZygote::Spawn { index: 1, instance }).collect();
        for message in &sent {
            endpoint.send(message, Vec::new()).unwrap();
        }
        assert!(endpoint.wants_write());
        let mut heard = Vec::new();
        while heard.len() < sent.len() {
            match receive::<ToZygote>(&child).unwrap() {
                Heard::Message(message, _) => heard.push(message),
                Heard::Nothing => endpoint.flush().unwrap(),
                Heard::Closed => panic!("closed"),
            }
        }
        assert_eq!(heard, sent);
        assert!(!endpoint.wants_write());
    }

    #[test]
    fn a_stuck_child_and_a_dead_child_are_errors() {
        let (mut endpoint, child) = pair();
        let error =
            (0..20_000).find_map(|_| endpoint.send(&ToZygote::Quit, Vec::new()).err()).unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(child);
        let (mut endpoint, child) = pair();
        drop(child);
        assert_eq!(
            endpoint.send(&ToZygote::Quit, Vec::new()).unwrap_err().kind(),
            io::ErrorKind::BrokenPipe
        );
    }
}
