//! TLS without sockets. Without this crate nobody could reach a site by `https`, and no site an
//! application.
//!
//! The supervisor reads certificates and keys ([`Pair`]), and gives all that a front needs as
//! [`Credentials`]. The front makes a configuration of them ([`server_config`]) for the TLS
//! library, and reads from a finished handshake what was negotiated ([`Session`]). A front that
//! gets other credentials makes another configuration: connections that are open keep theirs. To
//! applications it speaks as a client ([`ClientSession`]).

mod certificate;
mod challenge;
mod client;
mod client_hello;
mod credentials;
mod names;
mod pair;
mod session;
mod session_cache;
mod settings;
mod shared_secret;
mod ticket_news;
mod tickets;

pub use certificate::{Certificate, InvalidCertificate};
pub use challenge::{ACME_PROTOCOL, challenge_config};
pub use client::{ClientFiles, ClientSession, ClientSettings};
pub use client_hello::fragment_length;
pub use credentials::{Challenge, Credentials, Entry, Malformed, PairFiles};
pub use names::Names;
pub use pair::{Pair, PairError, authorities, certificate, only_certificate};
pub use session::{ClientCertificate, Session};
pub use settings::{ClientAuth, Settings, Version, refusing_config, server_config};
pub use shared_secret::SharedSecret;
pub use ticket_news::TicketNews;
pub use tickets::{ROTATE_AFTER, TICKET_KEYS, TicketKey};

pub use rustls::ServerConfig;

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};

/// The algorithms of all TLS in this server. Its first choice for the exchange of keys is
/// X25519MLKEM768, which a quantum computer of later does not break either.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// A random number, also right after a fork.
///
/// # Panics
/// If the system has no random numbers, without which no handshake is possible either.
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    ::aws_lc_rs::rand::fill(&mut bytes).expect("the system has random numbers");
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    /// AWS-LC would gather entropy from the processor's jitter, too, before the first random number
    /// of each process: tens of milliseconds of each start. `.cargo/config.toml` forbids it.
    #[test]
    fn random_numbers_come_from_the_system_alone() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let has = |name: &str| program.windows(name.len()).any(|part| part == name.as_bytes());
        assert!(has("RAND_bytes"), "this program has names");
        assert!(!has(&["jent", "read", "entropy"].join("_")));
        assert_ne!(super::random(), super::random());
    }
}
