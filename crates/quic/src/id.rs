//! Connection ids that say who serves a connection, to those who know the secret.

use std::hash::Hasher;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand;
use quinn::{ConnectionId, ConnectionIdGenerator};
use siphasher::sip::SipHasher13;

/// Bytes of a connection id: random ones, and as many as a [`Route`] and the proof that the id is
/// one of ours take. RFC 9000 allows 20.
pub const LENGTH: usize = NONCE + MASK;
const NONCE: usize = 8;
const MASK: usize = 4;

/// Which event loop of which front serves a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The number of the front: the supervisor counts them, and begins anew after 255.
    pub front: u8,
    /// The index of its event loop.
    pub event_loop: u8,
}

/// What all fronts of a server know, and nobody else: with it they read each other's connection ids
/// and tokens.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// A new one.
    ///
    /// # Errors
    /// Fails if the system has no random numbers.
    pub fn random() -> std::io::Result<Secret> {
        let mut bytes = [0; 32];
        rand::fill(&mut bytes).map_err(|_| std::io::Error::other("no random numbers"))?;
        Ok(Secret(bytes))
    }

    /// The one with these bytes.
    pub fn of(bytes: [u8; 32]) -> Secret {
        Secret(bytes)
    }

    /// Its bytes, for another process of the same server.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Who serves the connection with this id. `None`: the id is not one of ours, as the one that a
    /// client makes up for its first packet.
    pub fn route(&self, id: &[u8]) -> Option<Route> {
        let (nonce, hidden) = id.split_at_checked(NONCE)?;
        let hidden: [u8; MASK] = hidden.try_into().ok()?;
        let mask = self.mask(nonce);
        let shown: [u8; MASK] = std::array::from_fn(|at| hidden[at] ^ mask[at]);
        let [front, event_loop, proof @ ..] = shown;
        (proof == [0; MASK - 2]).then_some(Route { front, event_loop })
    }

    /// The id of a connection that this one serves, with these random bytes.
    fn id(&self, route: Route, nonce: [u8; NONCE]) -> [u8; LENGTH] {
        let mask = self.mask(&nonce);
        let shown: [u8; MASK] = [route.front, route.event_loop, 0, 0];
        std::array::from_fn(|at| match at.checked_sub(NONCE) {
            None => nonce[at],
            Some(at) => shown[at] ^ mask[at],
        })
    }

    /// What hides the route in an id. Without the secret nobody sees which ids are of one
    /// connection.
    fn mask(&self, nonce: &[u8]) -> [u8; MASK] {
        let (key, _) = self.0.split_first_chunk::<16>().unwrap_or((&[0; 16], &[]));
        let mut hasher = SipHasher13::new_with_key(key);
        hasher.write(nonce);
        let [a, b, c, d, ..] = hasher.finish().to_le_bytes();
        [a, b, c, d]
    }

    /// A number in place of a client's own connection id, by which first packets are spread over
    /// event loops: nobody outside can choose the loop.
    pub fn spread(&self, id: &[u8]) -> usize {
        let (_, key) = self.0.split_last_chunk::<16>().unwrap_or((&[], &[0; 16]));
        let mut hasher = SipHasher13::new_with_key(key);
        hasher.write(id);
        hasher.finish() as usize
    }
}

/// Makes the connection ids of an event loop.
pub struct Ids {
    secret: Arc<Secret>,
    route: Route,
}

impl Ids {
    /// Those of this event loop.
    pub fn new(secret: Arc<Secret>, route: Route) -> Ids {
        Ids { secret, route }
    }
}

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut nonce = [0; NONCE];
        // It has worked when the secret was drawn, and does not fail later.
        let _ = rand::fill(&mut nonce);
        ConnectionId::new(&self.secret.id(self.route, nonce))
    }

    fn cid_len(&self) -> usize {
        LENGTH
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_who_serves_it_to_those_who_know_the_secret() {
        let secret = Arc::new(Secret::random().unwrap());
        let other = Secret::random().unwrap();
        let route = Route { front: 7, event_loop: 3 };
        let mut ids = Ids::new(secret.clone(), route);
        let (one, two) = (ids.generate_cid(), ids.generate_cid());
        assert_ne!(one, two);
        assert_ne!(one[NONCE..], two[NONCE..], "the same route does not look the same");
        for id in [one, two] {
            assert_eq!(id.len(), LENGTH);
            assert_eq!(secret.route(&id), Some(route));
            assert_eq!(other.route(&id), None);
            assert_eq!(secret.route(&id[1..]), None);
        }
        assert_eq!(secret.route(&[]), None);
        assert_eq!(Secret::of(*secret.bytes()).route(&one), Some(route));
    }
}
