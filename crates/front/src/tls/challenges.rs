//! What authorities are to find that ask whose names are (ACME). Mostly that is nothing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use tokamak_tls::{ACME_PROTOCOL, Challenge, ServerConfig};
use tokio_rustls::rustls::server::ClientHello;

/// Where an authority looks over HTTP; a token follows (RFC 8555, 8.3).
const FOLDER: &str = "/.well-known/acme-challenge/";

/// The challenges of the moment.
pub(super) struct Challenges {
    /// Whether there are any: all that requests and handshakes look at mostly.
    any: AtomicBool,
    awaited: RwLock<Awaited>,
}

#[derive(Default)]
struct Awaited {
    /// Texts by their tokens.
    answers: HashMap<String, Bytes>,
    /// For handshakes of authorities.
    config: Option<Arc<ServerConfig>>,
}

impl Challenges {
    /// Those of these credentials.
    pub fn new(challenges: &[Challenge]) -> Result<Challenges, String> {
        let awaited = Awaited::new(challenges)?;
        Ok(Challenges { any: AtomicBool::new(!challenges.is_empty()), awaited: awaited.into() })
    }

    /// These take the place of those before.
    pub fn renew(&self, challenges: &[Challenge]) -> Result<(), String> {
        let awaited = Awaited::new(challenges)?;
        *self.awaited.write().unwrap_or_else(PoisonError::into_inner) = awaited;
        self.any.store(!challenges.is_empty(), Ordering::Release);
        Ok(())
    }

    /// The text that is awaited at this path.
    #[inline]
    pub fn answer(&self, path: &str) -> Option<Bytes> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let token = path.strip_prefix(FOLDER)?;
        self.awaited.read().unwrap_or_else(PoisonError::into_inner).answers.get(token).cloned()
    }

    /// What to use for the handshake of an authority, if this is one.
    pub fn config(&self, hello: &ClientHello<'_>) -> Option<Arc<ServerConfig>> {
        if !self.any.load(Ordering::Acquire) || !hello.alpn()?.any(|name| name == ACME_PROTOCOL) {
            return None;
        }
        self.awaited.read().unwrap_or_else(PoisonError::into_inner).config.clone()
    }
}

impl Awaited {
    fn new(challenges: &[Challenge]) -> Result<Awaited, String> {
        let answers = challenges.iter().filter_map(|challenge| match challenge {
            Challenge::Http { token, answer } => {
                Some((token.clone(), Bytes::from(answer.clone().into_bytes())))
            }
            Challenge::TlsAlpn { .. } => None,
        });
        let config = tokamak_tls::challenge_config(challenges)?;
        Ok(Awaited { answers: answers.collect(), config })
    }
}
