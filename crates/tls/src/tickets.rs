//! Session tickets (RFC 8446 section 4.6.1, RFC 5077): a client that comes again shows one, and
//! the handshake is shorter. Their keys come from outside, so that another front accepts them too.

use std::fmt;
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use rustls::server::ProducesTickets;

/// A new key is used after this time. A thief of a key can read each recorded connection of TLS 1.2
/// whose client was given a ticket of it, resumed or not, because the ticket has the secret of the
/// connection in it. Connections of TLS 1.3 agree on a new secret each time. With a tenth, clients
/// that come back after an hour would need a whole handshake; with ten times more, a stolen key
/// would be of use for days.
pub const ROTATE_AFTER: Duration = Duration::from_secs(6 * 3600);

/// Keys that are kept: the one that encrypts, and two that tickets were encrypted with before.
pub const TICKET_KEYS: usize = 3;

/// Seconds for which a client may use a ticket: its key is kept for at least that long.
const LIFETIME: u32 = (TICKET_KEYS as u32 - 1) * ROTATE_AFTER.as_secs() as u32;

/// Bytes of the name of its key in a ticket.
const NAME: usize = 16;

/// Bytes of a key with its name.
pub(crate) const KEY_BYTES: usize = NAME + 32;

/// A key of session tickets, with its name.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketKey([u8; KEY_BYTES]);

impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketKey(…)")
    }
}

impl TicketKey {
    /// A new key.
    ///
    /// # Panics
    /// If the system has no random numbers, without which no handshake is possible either.
    pub fn random() -> TicketKey {
        let mut key = [0; KEY_BYTES];
        aws_lc_rs::rand::fill(&mut key).expect("the system has random numbers");
        TicketKey(key)
    }

    /// The key with these bytes, if they are as many as a key has.
    pub fn read(bytes: &[u8]) -> Option<TicketKey> {
        bytes.try_into().ok().map(TicketKey)
    }

    pub(crate) fn from_bytes(bytes: [u8; KEY_BYTES]) -> TicketKey {
        TicketKey(bytes)
    }

    /// Its bytes, which are secret.
    pub fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

/// Encrypts and decrypts tickets: the name of the key, a nonce, the encrypted session.
pub struct Tickets {
    keys: Vec<([u8; NAME], RandomizedNonceKey)>,
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

impl Tickets {
    /// Tickets with these keys, of which the first one encrypts.
    pub fn new(keys: &[TicketKey]) -> Tickets {
        let keys = keys.iter().filter_map(|TicketKey(bytes)| {
            let (name, key) = bytes.split_first_chunk()?;
            Some((*name, RandomizedNonceKey::new(&AES_256_GCM, key).ok()?))
        });
        Tickets { keys: keys.collect() }
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        !self.keys.is_empty()
    }

    fn lifetime(&self) -> u32 {
        LIFETIME
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let (name, key) = self.keys.first()?;
        let mut sealed = plain.to_vec();
        let nonce = key.seal_in_place_append_tag(Aad::empty(), &mut sealed).ok()?;
        Some([&name[..], nonce.as_ref(), &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let (_, key) = self.keys.iter().find(|(other, _)| other == name)?;
        let mut session = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = key.open_in_place(nonce, Aad::empty(), &mut session).ok()?.len();
        session.truncate(length);
        Some(session)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_ticket_is_good_as_long_as_its_key_is_kept() {
        let keys: Vec<TicketKey> = (0..3).map(|_| TicketKey::random()).collect();
        let ticket = Tickets::new(&keys[..1]).encrypt(b"session").unwrap();
        let later = [keys[1].clone(), keys[0].clone()];
        assert_eq!(Tickets::new(&later).decrypt(&ticket).unwrap(), b"session");
        assert_eq!(Tickets::new(&keys[1..]).decrypt(&ticket), None, "the key is gone");
        let again = Tickets::new(&keys[..1]).encrypt(b"session").unwrap();
        assert_ne!(ticket, again, "a nonce is used once");
    }

    #[test]
    fn without_keys_there_are_no_tickets() {
        let none = Tickets::new(&[]);
        assert!(!none.enabled());
        assert_eq!(none.encrypt(b"session"), None);
    }

    proptest! {
        #[test]
        fn a_changed_ticket_is_refused(at in any::<prop::sample::Index>(), bit in 0..8u8) {
            let tickets = Tickets::new(&[TicketKey::random()]);
            let mut ticket = tickets.encrypt(b"session").unwrap();
            let at = at.index(ticket.len());
            ticket[at] ^= 1 << bit;
            prop_assert_eq!(tickets.decrypt(&ticket), None);
        }

        #[test]
        fn invented_tickets_are_refused(ticket in prop::collection::vec(any::<u8>(), 0..100)) {
            let tickets = Tickets::new(&[TicketKey::random()]);
            prop_assert_eq!(tickets.decrypt(&ticket), None);
        }
    }
}
