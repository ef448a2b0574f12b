//! A request's body, read whole before an application sees it, so that a slow client holds nobody.

use std::fs::File;
use std::io::Write;

use bytes::BytesMut;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use tokamak_config::Limits;
use tokamak_upstream::body::Body;
use tokio::time::timeout;

use crate::caller::Caller;
use crate::failure::Failure;
use crate::server::Loop;

/// Reads the whole body: into memory up to the configured bound, then into an unlinked file.
pub async fn gather(home: &Loop, caller: &Caller, body: &mut Incoming) -> Result<Body, Failure> {
    let all = read(home, body).await;
    all.map_err(|failure| caller.violation().map_or(failure, |violation| violation.failure()))
}

async fn read(home: &Loop, body: &mut Incoming) -> Result<Body, Failure> {
    let Limits { buffer, body: most, .. } = home.server.limits;
    let pause = home.server.timeouts.body;
    let mut spool = Spool::new(buffer, body.size_hint().exact().unwrap_or(0));
    loop {
        let frame = match timeout(pause, body.frame()).await {
            Err(_) => return Err(Failure::BodySlow),
            Ok(None) => break,
            Ok(Some(Err(_))) => return Err(Failure::BadRequest),
            Ok(Some(Ok(frame))) => frame,
        };
        home.attend(tokamak_cost::now());
        let Ok(data) = frame.into_data() else { continue };
        if spool.len() + data.len() as u64 > most {
            return Err(Failure::BodyTooLarge);
        }
        spool.put(&data)?;
    }
    Ok(spool.finish())
}

/// A body that is coming: in memory up to a bound, then in an unlinked file.
pub struct Spool {
    buffer: usize,
    memory: BytesMut,
    file: Option<File>,
    len: u64,
}

impl Spool {
    /// One with at most `buffer` bytes in memory, for a body that will probably have `expected` bytes.
    pub fn new(buffer: usize, expected: u64) -> Spool {
        let memory = BytesMut::with_capacity(expected.min(buffer as u64) as usize);
        Spool { buffer, memory, file: None, len: 0 }
    }

    /// Bytes so far.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The next bytes.
    ///
    /// # Errors
    /// The file cannot be had or written.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.len += bytes.len() as u64;
        if self.file.is_none() && self.memory.len() + bytes.len() > self.buffer {
            let mut file = tempfile::tempfile().map_err(|_| Failure::Internal)?;
            file.write_all(&self.memory).map_err(|_| Failure::Internal)?;
            self.memory = BytesMut::new();
            self.file = Some(file);
        }
        match &mut self.file {
            Some(file) => file.write_all(bytes).map_err(|_| Failure::Internal)?,
            None => self.memory.extend_from_slice(bytes),
        }
        Ok(())
    }

    /// All of it.
    pub fn finish(self) -> Body {
        match self.file {
            Some(file) => Body::spooled(file, self.len),
            None if self.memory.is_empty() => Body::Empty,
            None => Body::Memory(self.memory.freeze()),
        }
    }
}
