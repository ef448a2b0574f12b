//! The lock in Redis of the node that orders a certificate for a name, while the others wait.

use std::time::Duration;

use tokamak_outbound::redis::Value;
use tokio::time::sleep;

use super::{Shared, words};
use crate::error::Error;

/// Time after which the lock expires, unless it is extended. A node that dies holds up the name for
/// that long; with a tenth, a slow Redis would let two nodes order at once.
const EXPIRES_AFTER: Duration = Duration::from_secs(60);

/// Time between two extensions of the lock: two of them may fail before it expires.
const EXTEND_EVERY: Duration = Duration::from_secs(20);

/// Scripts for Redis that extend or release the lock, if this node still holds it.
const EXTEND: &[u8] = b"if redis.call('GET', KEYS[1]) == ARGV[1] then \
    return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";
const RELEASE: &[u8] = b"if redis.call('GET', KEYS[1]) == ARGV[1] then \
    return redis.call('DEL', KEYS[1]) end return 0";

/// A lock that this node holds.
pub struct OrderLock<'a> {
    shared: &'a Shared,
    key: String,
}

impl Shared {
    /// Locks the order of a certificate for a name; [`None`] while another node holds the lock.
    ///
    /// # Errors
    /// Fails if Redis does not answer.
    pub async fn lock_order(&self, name: &str) -> Result<Option<OrderLock<'_>>, Error> {
        let key = self.of_name("turn", name);
        let expires = EXPIRES_AFTER.as_millis().to_string();
        let (node, expires) = (self.node.as_bytes(), expires.as_bytes());
        let taken = self.one(words(&[b"SET", key.as_bytes(), node, b"NX", b"PX", expires])).await?;
        Ok((!matches!(taken, Value::Nil)).then_some(OrderLock { shared: self, key }))
    }
}

impl OrderLock<'_> {
    /// Extends the lock again and again, for as long as this is polled.
    pub async fn hold(&self) -> std::convert::Infallible {
        let expires = EXPIRES_AFTER.as_millis().to_string();
        loop {
            sleep(EXTEND_EVERY).await;
            // If three in a row fail, another node may order as well, which costs one certificate
            // more.
            let _ = self.run(EXTEND, &[expires.as_bytes()]).await;
        }
    }

    /// Releases the lock.
    pub async fn release(self) {
        // If that fails, the lock expires.
        let _ = self.run(RELEASE, &[]).await;
    }

    async fn run(&self, script: &[u8], more: &[&[u8]]) -> Result<Value, Error> {
        let (key, node) = (self.key.as_bytes(), self.shared.node.as_bytes());
        let command = [&[b"EVAL", script, b"1", key, node], more].concat();
        self.shared.one(words(&command)).await
    }
}
