//! A request's body, read whole before an application sees it, so that a slow client holds nobody.

use std::io::Write;

use bytes::BytesMut;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use tokamak_config::Limits;
use tokamak_upstream::body::Body;
use tokio::time::timeout;

use crate::failure::Failure;
use crate::server::Loop;

/// Reads the whole body: into memory up to the configured bound, then into an unlinked file.
pub async fn gather(home: &Loop, body: &mut Incoming) -> Result<Body, Failure> {
    let Limits { buffer, body: most, .. } = home.server.limits;
    let pause = home.server.timeouts.body;
    let mut memory =
        BytesMut::with_capacity(body.size_hint().exact().unwrap_or(0).min(buffer as u64) as usize);
    let mut spool = None;
    let mut len = 0u64;
    loop {
        let frame = match timeout(pause, body.frame()).await {
            Err(_) => return Err(Failure::BodySlow),
            Ok(None) => break,
            Ok(Some(Err(_))) => return Err(Failure::BadRequest),
            Ok(Some(Ok(frame))) => frame,
        };
        home.attend(tokamak_cost::now());
        let Ok(data) = frame.into_data() else { continue };
        len += data.len() as u64;
        if len > most {
            return Err(Failure::BodyTooLarge);
        }
        if spool.is_none() && memory.len() + data.len() > buffer {
            let mut file = tempfile::tempfile().map_err(|_| Failure::Internal)?;
            file.write_all(&memory).map_err(|_| Failure::Internal)?;
            memory = BytesMut::new();
            spool = Some(file);
        }
        match &mut spool {
            Some(file) => file.write_all(&data).map_err(|_| Failure::Internal)?,
            None => memory.extend_from_slice(&data),
        }
    }
    Ok(match spool {
        Some(file) => Body::spooled(file, len),
        None if memory.is_empty() => Body::Empty,
        None => Body::Memory(memory.freeze()),
    })
}
