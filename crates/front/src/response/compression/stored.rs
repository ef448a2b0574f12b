//! A body of the content cache, with the compressed forms that the cache keeps.

use std::sync::Arc;

use bytes::Bytes;
use tokamak_cache::{Entry, Key};
use tokamak_config::Coding;

use super::{AT_ONCE, Compressed, encoder};
use crate::response::Source;

/// Keeps the compressed form of a stored response, so that it is compressed once.
pub trait KeepEncoded: Send + Sync {
    /// Keeps `body`, which is that of the entry under this key in a content coding.
    fn keep_encoded(&self, key: &Key, entry: &Arc<Entry>, coding: &'static str, body: Bytes);
}

/// The whole body of a stored response.
pub struct Stored {
    /// The response.
    pub entry: Arc<Entry>,
    /// Where it is stored.
    pub store: Arc<dyn KeepEncoded>,
    /// Its key there.
    pub key: Key,
}

impl Stored {
    /// The body in this coding: the one that is kept, or a new one, which will be kept.
    pub fn encode(self: Box<Stored>, coding: Coding) -> (Source, bool) {
        let body = &self.entry.body;
        if let Some(encoded) = self.entry.encoded(coding.name()) {
            let is_of_use = !encoded.is_empty();
            return (Source::Whole(if is_of_use { encoded } else { body }.clone()), is_of_use);
        }
        if body.len() > AT_ONCE {
            return Compressed::begin(Source::Whole(body.clone()), coding, Some(self));
        }
        let encoded = encoder::whole(coding, body);
        self.keep(coding, encoded.clone().unwrap_or_default());
        let is_of_use = encoded.is_some();
        (Source::Whole(encoded.unwrap_or_else(|| body.clone())), is_of_use)
    }

    /// Keeps the body in this coding; an empty one, which says that the coding is of no use, if it
    /// has not become smaller.
    pub fn keep(&self, coding: Coding, encoded: Bytes) {
        let is_of_use = encoded.len() < self.entry.body.len();
        let encoded = if is_of_use { encoded } else { Bytes::new() };
        self.store.keep_encoded(&self.key, &self.entry, coding.name(), encoded);
    }
}
