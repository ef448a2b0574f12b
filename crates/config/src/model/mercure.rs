//! The hub of a site.

use std::time::Duration;

use super::{Secret, Tier};

/// How tokens are signed (RFC 7518 section 3.1, RFC 8037).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenAlgorithm {
    /// HMAC with SHA-256.
    Hs256,
    /// HMAC with SHA-384.
    Hs384,
    /// HMAC with SHA-512.
    Hs512,
    /// RSA (PKCS #1) with SHA-256.
    Rs256,
    /// RSA (PKCS #1) with SHA-384.
    Rs384,
    /// RSA (PKCS #1) with SHA-512.
    Rs512,
    /// RSA (PSS) with SHA-256.
    Ps256,
    /// RSA (PSS) with SHA-384.
    Ps384,
    /// RSA (PSS) with SHA-512.
    Ps512,
    /// ECDSA over P-256.
    Es256,
    /// ECDSA over P-384.
    Es384,
    /// EdDSA over Curve25519.
    EdDsa,
}

impl TokenAlgorithm {
    /// Its name, in tokens and in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            TokenAlgorithm::Hs256 => "HS256",
            TokenAlgorithm::Hs384 => "HS384",
            TokenAlgorithm::Hs512 => "HS512",
            TokenAlgorithm::Rs256 => "RS256",
            TokenAlgorithm::Rs384 => "RS384",
            TokenAlgorithm::Rs512 => "RS512",
            TokenAlgorithm::Ps256 => "PS256",
            TokenAlgorithm::Ps384 => "PS384",
            TokenAlgorithm::Ps512 => "PS512",
            TokenAlgorithm::Es256 => "ES256",
            TokenAlgorithm::Es384 => "ES384",
            TokenAlgorithm::EdDsa => "EdDSA",
        }
    }

    /// Characters that a secret for it has at least (RFC 7518 section 3.2); absent: its keys are
    /// public ones.
    pub fn shortest_secret(self) -> Option<usize> {
        match self {
            TokenAlgorithm::Hs256 => Some(32),
            TokenAlgorithm::Hs384 => Some(48),
            TokenAlgorithm::Hs512 => Some(64),
            _ => None,
        }
    }
}

/// A key that verifies tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenKey {
    /// The secret, or the public key as PEM.
    pub key: Secret,
    /// The algorithm that it is for.
    pub algorithm: TokenAlgorithm,
}

/// The hub of a site.
#[derive(Clone, Debug, PartialEq)]
pub struct Mercure {
    /// The key of publishers; absent: none has a token.
    pub publisher: Option<TokenKey>,
    /// The key of subscribers; absent: none has a token.
    pub subscriber: Option<TokenKey>,
    /// Whether clients without a token may subscribe.
    pub anonymous: bool,
    /// Other origins whose pages may use it, in lower case; `*` stands for all.
    pub origins: Vec<String>,
    /// Updates that are kept.
    pub history: usize,
    /// Bytes of memory that they take.
    pub history_size: usize,
    /// Most subscribers.
    pub subscribers: usize,
    /// Most topics of a subscription or an update.
    pub topics: usize,
    /// Bytes of an update.
    pub update_size: usize,
    /// The server by which several nodes are one hub.
    pub nodes: Option<Tier>,
    /// After how long a subscriber gets something.
    pub heartbeat: Duration,
}
