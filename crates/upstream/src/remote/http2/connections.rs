//! The connections to one address.

use std::io;
use std::sync::Arc;

use super::connection::Http2Connection;
use super::stream::Http2Stream;
use crate::remote::connection_set::ConnectionSet;
use crate::remote::connector::Connector;
use crate::remote::pool::Permit;
use crate::remote::request::Call;
use crate::remote::settings::{Bounds, Http2Bounds};

/// The connections to one address.
#[derive(Debug)]
pub(in crate::remote) struct Http2Connections {
    connector: Connector,
    bounds: Bounds,
    set: ConnectionSet<Http2Connection>,
}

impl Http2Connections {
    pub fn new(connector: Connector, bounds: Bounds) -> Http2Connections {
        Http2Connections { connector, bounds, set: ConnectionSet::default() }
    }

    /// Begins a request in the event loop of the permit, on a connection whose application has just
    /// shown that it reads if it is to be `proved`. `true`: the connection had a request before.
    ///
    /// # Errors
    /// Fails if the address cannot be reached.
    pub async fn begin(
        &self,
        limits: Http2Bounds,
        mut permit: Permit,
        call: &Arc<Call>,
        proved: bool,
    ) -> io::Result<(Http2Stream, bool)> {
        let (loop_index, most) = (permit.loop_index(), self.bounds.connections);
        loop {
            let connection = match self.set.choose(loop_index, most) {
                Some(connection) if proved && !connection.prove().await => continue,
                Some(connection) => connection,
                None => {
                    let connect = async {
                        let stream = self.connector.connect().await?;
                        Http2Connection::start(stream, loop_index, self.bounds, limits)
                    };
                    self.set.open_one(loop_index, most, connect).await?
                }
            };
            match connection.begin(call, permit) {
                Ok((id, was_used)) => {
                    let stream = Http2Stream::new(connection, id, call.clone(), self.bounds);
                    return Ok((stream, was_used));
                }
                // It was closed this very moment.
                Err(unused) => permit = unused,
            }
        }
    }

    /// Looks after those of an event loop.
    pub fn tick(&self, loop_index: usize) {
        self.set.tick(loop_index);
    }

    /// They take no more requests.
    pub fn retire(&self) {
        self.set.retire();
    }
}
