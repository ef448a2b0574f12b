//! What several nodes encrypt with what they share through a server that others may read.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};

/// What makes keys of this kind differ from those that others derive of the same secret.
const SALT: &[u8] = b"tokamak: what nodes share for TLS";

/// A secret that several nodes have.
pub struct SharedSecret(RandomizedNonceKey);

impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedSecret(…)")
    }
}

impl SharedSecret {
    /// The secret that these characters stand for (HKDF, RFC 5869). A thief may try many a second,
    /// so they have to be drawn at random.
    ///
    /// # Panics
    /// Never: the key has the length of the algorithm.
    pub fn new(secret: &str) -> SharedSecret {
        let mut key = [0; 32];
        Salt::new(HKDF_SHA256, SALT)
            .extract(secret.as_bytes())
            .expand(&[b"AES-256-GCM"], &AES_256_GCM)
            .and_then(|derived| derived.fill(&mut key))
            .expect("a key of 32 bytes can be derived");
        SharedSecret(RandomizedNonceKey::new(&AES_256_GCM, &key).expect("it has 32 bytes"))
    }

    /// Encrypts what is stored under this name: a nonce, then the bytes with their tag.
    ///
    /// # Panics
    /// If the system has no random numbers, without which no handshake is possible either.
    pub fn encrypt(&self, name: &str, bytes: &[u8]) -> Vec<u8> {
        let mut sealed = bytes.to_vec();
        let nonce = self.0.seal_in_place_append_tag(Aad::from(name), &mut sealed);
        let nonce = nonce.expect("the system has random numbers");
        [&nonce.as_ref()[..], &sealed].concat()
    }

    /// Decrypts it; [`None`] if another secret, or another name, encrypted it.
    pub fn decrypt(&self, name: &str, stored: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = stored.split_first_chunk::<NONCE_LEN>()?;
        let mut bytes = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = self.0.open_in_place(nonce, Aad::from(name), &mut bytes).ok()?.len();
        bytes.truncate(length);
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nodes_with_the_same_secret_understand_each_other() {
        let (one, other) = (SharedSecret::new("0123456789abcdef"), SharedSecret::new("x"));
        let stored = one.encrypt("name", b"key");
        let again = SharedSecret::new("0123456789abcdef");
        assert_eq!(again.decrypt("name", &stored).unwrap(), b"key");
        assert_eq!(again.decrypt("another name", &stored), None);
        assert_eq!(other.decrypt("name", &stored), None);
        assert_ne!(one.encrypt("name", b"key"), stored, "a nonce is used once");
        assert!(!stored.windows(3).any(|part| part == b"key"));
    }

    proptest! {
        #[test]
        fn what_was_changed_is_refused(at in any::<prop::sample::Index>(), bit in 0..8u8) {
            let secret = SharedSecret::new("0123456789abcdef");
            let mut stored = secret.encrypt("name", b"key");
            let at = at.index(stored.len());
            stored[at] ^= 1 << bit;
            prop_assert_eq!(secret.decrypt("name", &stored), None);
        }

        #[test]
        fn invented_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(SharedSecret::new("x").decrypt("name", &bytes), None);
        }
    }
}
