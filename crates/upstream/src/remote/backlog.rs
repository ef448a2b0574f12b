//! What an application has sent for one request and the client has not taken yet, where it cannot
//! be left in the socket because others share that: up to a bound in memory, then in an unlinked
//! file.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::spool::{Spool, SpoolQuota};

/// Most bytes in memory for one request with a slow client. Most responses fit; with a tenth, most
/// would touch the disk. Ten times more would be a gigabyte for 1600 slow clients.
const MEMORY: usize = 64 * 1024;

/// Most changes between the two streams that are remembered, some bytes each. An honest application
/// makes a few; the bound only limits the memory that a hostile one can take, so a tenth would do
/// as well.
const CHANGES: usize = 16 * 1024;

/// Which stream some bytes belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Stdout,
    Stderr,
}

/// Bytes in their order.
#[derive(Debug)]
pub(super) struct Backlog {
    /// Which stream the bytes belong to: so many of this, then so many of that.
    runs: VecDeque<(Said, u64)>,
    /// The first ones.
    memory: BytesMut,
    /// Those behind them, if there may be more.
    spool: Option<Spool>,
}

impl Backlog {
    /// An empty one. What does not fit into memory counts for this quota; without one it is an
    /// error.
    pub fn new(quota: Option<Arc<SpoolQuota>>) -> Backlog {
        let spool = quota.map(Spool::new);
        Backlog { runs: VecDeque::new(), memory: BytesMut::new(), spool }
    }

    /// Adds bytes at the end.
    ///
    /// # Errors
    /// Fails if there are too many, or no file can be made for them.
    pub fn push(&mut self, said: Said, bytes: &[u8]) -> io::Result<()> {
        let is_full = self.runs.len() >= CHANGES;
        match self.runs.back_mut() {
            Some((last, len)) if *last == said => *len += bytes.len() as u64,
            _ if is_full => return Err(io::ErrorKind::FileTooLarge.into()),
            _ => self.runs.push_back((said, bytes.len() as u64)),
        }
        let is_in_memory = self.spool.as_ref().is_none_or(Spool::is_empty);
        if is_in_memory && self.memory.len() + bytes.len() <= MEMORY {
            self.memory.extend_from_slice(bytes);
            return Ok(());
        }
        // On this thread: the connection belongs to others, too, who wait behind these bytes.
        let is_spooled = self.spool.as_mut().is_some_and(|spool| spool.push(bytes));
        if is_spooled { Ok(()) } else { Err(io::ErrorKind::FileTooLarge.into()) }
    }

    /// Takes the next bytes off the front.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn pop(&mut self) -> io::Result<Option<(Said, Bytes)>> {
        let Some((said, len)) = self.runs.front_mut() else { return Ok(None) };
        if self.memory.is_empty()
            && let Some(spool) = &mut self.spool
            && let Some(read) = spool.read(MEMORY)
        {
            let piece = read.run()?;
            spool.took(piece.len(), false);
            self.memory = piece.into();
        }
        let taken = self.memory.len().min(usize::try_from(*len).unwrap_or(usize::MAX));
        let popped = (*said, self.memory.split_to(taken).freeze());
        *len -= taken as u64;
        if *len == 0 {
            self.runs.pop_front();
        }
        Ok(Some(popped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::tests::quota;

    fn popped(backlog: &mut Backlog) -> (Vec<u8>, Vec<u8>) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        while let Some((said, bytes)) = backlog.pop().unwrap() {
            if said == Said::Stdout { out.extend(bytes) } else { err.extend(bytes) }
        }
        (out, err)
    }

    #[test]
    fn what_goes_in_comes_out() {
        let mut backlog = Backlog::new(Some(quota(1 << 30)));
        for round in 0..3 {
            let (mut out, mut err) = (Vec::new(), Vec::new());
            for number in 0..300_u32 {
                let bytes = vec![number as u8; 1 + 997 * (number as usize % (round + 1))];
                let said = if number % 7 == 0 { Said::Stderr } else { Said::Stdout };
                backlog.push(said, &bytes).unwrap();
                if said == Said::Stdout { out.extend(bytes) } else { err.extend(bytes) }
            }
            assert_eq!(
                backlog.spool.as_ref().is_some_and(|spool| !spool.is_empty()),
                round > 0,
                "small ones stay in memory"
            );
            assert!(backlog.memory.len() <= MEMORY);
            assert!(popped(&mut backlog) == (out, err));
            assert!(backlog.spool.as_ref().is_some_and(Spool::is_empty));
        }
    }

    #[test]
    fn in_and_out_may_take_turns() {
        let mut backlog = Backlog::new(Some(quota(1 << 30)));
        let (mut put, mut got) = (Vec::new(), Vec::new());
        for number in 0..200_u32 {
            let bytes = vec![number as u8; 3000];
            put.extend_from_slice(&bytes);
            backlog.push(Said::Stdout, &bytes).unwrap();
            if number % 2 == 0 {
                got.extend(backlog.pop().unwrap().unwrap().1);
            }
        }
        got.extend(popped(&mut backlog).0);
        assert!(got == put);
    }

    #[test]
    fn it_is_bounded() {
        let mut backlog = Backlog::new(Some(quota(1 << 30)));
        let turn = |number: usize| [Said::Stdout, Said::Stderr][number % 2];
        assert!((0..CHANGES).all(|number| backlog.push(turn(number), b"x").is_ok()));
        assert!(backlog.push(turn(CHANGES), b"x").is_err());
    }
}
