//! Whose turn it is to order a certificate for a name.

use std::time::Duration;

use tokamak_outbound::redis::Value;
use tokio::time::sleep;

use super::{Shared, words};
use crate::error::Error;

/// For how long a turn is taken. A node that dies holds up the name for that long.
const LASTS: Duration = Duration::from_secs(60);

/// Pause after which a turn is taken for longer. Twice it may fail.
const AGAIN: Duration = Duration::from_secs(20);

/// Takes the turn for longer, or gives it back, if it is still the caller's.
const EXTEND: &[u8] = b"if redis.call('GET', KEYS[1]) == ARGV[1] then \
    return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";
const GIVE_BACK: &[u8] = b"if redis.call('GET', KEYS[1]) == ARGV[1] then \
    return redis.call('DEL', KEYS[1]) end return 0";

/// A turn that this node has.
pub struct OrderLock<'a> {
    shared: &'a Shared,
    key: String,
}

impl Shared {
    /// Takes the turn to order a certificate for a name; [`None`] while another node has it.
    ///
    /// # Errors
    /// Fails if the server cannot be asked.
    pub async fn turn(&self, name: &str) -> Result<Option<OrderLock<'_>>, Error> {
        let key = self.of_name("turn", name);
        let lasts = LASTS.as_millis().to_string();
        let (node, lasts) = (self.node.as_bytes(), lasts.as_bytes());
        let taken = self.one(words(&[b"SET", key.as_bytes(), node, b"NX", b"PX", lasts])).await?;
        Ok((!matches!(taken, Value::Nil)).then_some(OrderLock { shared: self, key }))
    }
}

impl OrderLock<'_> {
    /// Keeps the turn for as long as this is polled.
    pub async fn hold(&self) -> std::convert::Infallible {
        let lasts = LASTS.as_millis().to_string();
        loop {
            sleep(AGAIN).await;
            // If that fails twice, another node may order as well: a certificate too many.
            let _ = self.run(EXTEND, &[lasts.as_bytes()]).await;
        }
    }

    /// Gives the turn back.
    pub async fn end(self) {
        // If that fails, it ends by itself.
        let _ = self.run(GIVE_BACK, &[]).await;
    }

    async fn run(&self, script: &[u8], more: &[&[u8]]) -> Result<Value, Error> {
        let (key, node) = (self.key.as_bytes(), self.shared.node.as_bytes());
        let command = [&[b"EVAL", script, b"1", key, node], more].concat();
        self.shared.one(words(&command)).await
    }
}
