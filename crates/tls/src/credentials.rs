//! All that a front needs for handshakes, and the bytes by which the supervisor sends it.

use std::collections::BTreeMap;
use std::fmt;

use crate::pair::Pair;
use crate::tickets::{KEY_BYTES, TicketKey};

/// Certificates, keys, and authorities for one front.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The certificates; the first ones are for names that no other ones are for.
    pub entries: Vec<Entry>,
    /// A file with the authorities whose clients are known (PEM), if clients are asked.
    pub client_ca: Option<Vec<u8>>,
    /// The keys of session tickets. The first one encrypts, the others only decrypt.
    pub tickets: Vec<TicketKey>,
    /// What authorities are to find that ask whose names are.
    pub challenges: Vec<Challenge>,
}

/// What an authority is to find under a name (ACME).
#[derive(Clone, PartialEq, Eq)]
pub enum Challenge {
    /// This text at `/.well-known/acme-challenge/TOKEN` (RFC 8555, 8.3).
    Http {
        /// The end of the path.
        token: String,
        /// The text.
        answer: String,
    },
    /// This certificate in a handshake for the name and the protocol `acme-tls/1` (RFC 8737).
    TlsAlpn {
        /// The name, in lower case.
        name: String,
        /// The certificate.
        pair: PairFiles,
    },
}

// The answers are no secrets, but they are of no use in a log either.
impl fmt::Debug for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Challenge::Http { .. } => "Challenge::Http(…)",
            Challenge::TlsAlpn { .. } => "Challenge::TlsAlpn(…)",
        })
    }
}

/// The certificates for some host names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The host names, in lower case; with `*.` before it, a name stands for all below it.
    pub names: Vec<String>,
    /// Certificates of different kinds, of which a client gets the first one that it understands.
    /// Without any, the names are refused.
    pub pairs: Vec<PairFiles>,
    /// Whether clients that ask for another name, or for none, never get these.
    pub is_for_itself: bool,
}

/// The contents of the files of one certificate.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PairFiles {
    /// The certificate (PEM).
    pub certificate: Vec<u8>,
    /// Its key (PEM).
    pub key: Vec<u8>,
}

// Keys are not for a log.
impl fmt::Debug for PairFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PairFiles(…)")
    }
}

/// Bytes that are no credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the certificates did not arrive whole")
    }
}

impl std::error::Error for Malformed {}

impl Credentials {
    /// The credentials as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        count(&mut out, self.entries.len());
        for entry in &self.entries {
            count(&mut out, entry.names.len());
            entry.names.iter().for_each(|name| bytes(&mut out, name.as_bytes()));
            count(&mut out, entry.pairs.len());
            for pair in &entry.pairs {
                bytes(&mut out, &pair.certificate);
                bytes(&mut out, &pair.key);
            }
            out.push(u8::from(entry.is_for_itself));
        }
        count(&mut out, self.client_ca.iter().len());
        self.client_ca.iter().for_each(|file| bytes(&mut out, file));
        count(&mut out, self.tickets.len());
        self.tickets.iter().for_each(|key| out.extend_from_slice(key.bytes()));
        count(&mut out, self.challenges.len());
        self.challenges.iter().for_each(|challenge| challenge.encode(&mut out));
        out
    }

    /// When the certificates end, in seconds since 1970, by the first name in each. Of several with
    /// the same name, the one that ends first counts.
    pub fn ends(&self) -> BTreeMap<String, u64> {
        let mut ends = BTreeMap::new();
        for files in self.entries.iter().flat_map(|entry| &entry.pairs) {
            let Ok(Pair { certificate, .. }) = Pair::read(&files.certificate, &files.key) else {
                continue;
            };
            let name = certificate.names.into_iter().next().unwrap_or(certificate.subject);
            let end = ends.entry(name).or_insert(certificate.not_after);
            *end = certificate.not_after.min(*end);
        }
        ends
    }

    /// Reads what [`Credentials::encode`] wrote.
    ///
    /// # Errors
    /// Fails if the bytes are anything else.
    pub fn decode(encoded: &[u8]) -> Result<Credentials, Malformed> {
        let mut from = Reader(encoded);
        let entries = from.list(|from| {
            let names = from.list(Reader::text)?;
            let pairs = from.list(Reader::pair)?;
            let (flag, rest) = from.0.split_first().ok_or(Malformed)?;
            from.0 = rest;
            Ok(Entry { names, pairs, is_for_itself: *flag != 0 })
        })?;
        let client_ca = from.list(|from| from.bytes().map(<[u8]>::to_vec))?;
        let tickets = from.list(|from| {
            let (key, rest) = from.0.split_first_chunk::<KEY_BYTES>().ok_or(Malformed)?;
            from.0 = rest;
            Ok(TicketKey::from_bytes(*key))
        })?;
        let challenges = from.list(Challenge::decode)?;
        if client_ca.len() > 1 || !from.0.is_empty() {
            return Err(Malformed);
        }
        Ok(Credentials { entries, client_ca: client_ca.into_iter().next(), tickets, challenges })
    }
}

impl Challenge {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Challenge::Http { token, answer } => {
                out.push(1);
                bytes(out, token.as_bytes());
                bytes(out, answer.as_bytes());
            }
            Challenge::TlsAlpn { name, pair } => {
                out.push(2);
                bytes(out, name.as_bytes());
                bytes(out, &pair.certificate);
                bytes(out, &pair.key);
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Challenge, Malformed> {
        let (kind, rest) = from.0.split_first().ok_or(Malformed)?;
        from.0 = rest;
        match kind {
            1 => Ok(Challenge::Http { token: from.text()?, answer: from.text()? }),
            2 => Ok(Challenge::TlsAlpn { name: from.text()?, pair: from.pair()? }),
            _ => Err(Malformed),
        }
    }
}

fn count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&(count as u32).to_le_bytes());
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    count(out, bytes.len());
    out.extend_from_slice(bytes);
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn count(&mut self) -> Result<usize, Malformed> {
        let (count, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*count) as usize)
    }

    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let count = self.count()?;
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn text(&mut self) -> Result<String, Malformed> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| Malformed)
    }

    fn pair(&mut self) -> Result<PairFiles, Malformed> {
        let (certificate, key) = (self.bytes()?.to_vec(), self.bytes()?.to_vec());
        Ok(PairFiles { certificate, key })
    }

    /// Each item takes a byte at least, so a wrong count ends with the bytes.
    fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        (0..self.count()?).map(|_| item(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pair() -> impl Strategy<Value = PairFiles> {
        let file = || prop::collection::vec(any::<u8>(), 0..40);
        (file(), file()).prop_map(|(certificate, key)| PairFiles { certificate, key })
    }

    fn challenge() -> impl Strategy<Value = Challenge> {
        prop_oneof![
            ("[a-z]{0,9}", "[a-z]{0,9}")
                .prop_map(|(token, answer)| Challenge::Http { token, answer }),
            ("[a-z.]{0,9}", pair()).prop_map(|(name, pair)| Challenge::TlsAlpn { name, pair }),
        ]
    }

    fn credentials() -> impl Strategy<Value = Credentials> {
        let names = prop::collection::vec("[a-z*.]{0,12}", 0..3);
        let entry = (names, prop::collection::vec(pair(), 0..3), any::<bool>());
        let entry =
            entry.prop_map(|(names, pairs, is_for_itself)| Entry { names, pairs, is_for_itself });
        let client_ca = prop::option::of(prop::collection::vec(any::<u8>(), 0..20));
        let challenges = prop::collection::vec(challenge(), 0..3);
        (prop::collection::vec(entry, 0..4), client_ca, 0..4usize, challenges).prop_map(
            |(entries, client_ca, keys, challenges)| Credentials {
                entries,
                client_ca,
                tickets: (0..keys).map(|_| TicketKey::random()).collect(),
                challenges,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(credentials in credentials()) {
            prop_assert_eq!(Credentials::decode(&credentials.encode()), Ok(credentials));
        }

        #[test]
        fn a_part_is_refused(credentials in credentials(), cut in any::<prop::sample::Index>()) {
            let encoded = credentials.encode();
            let part = &encoded[..cut.index(encoded.len())];
            prop_assert_eq!(Credentials::decode(part), Err(Malformed));
        }

        #[test]
        fn invented_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Credentials::decode(&bytes);
        }
    }

    #[test]
    fn nothing_secret_is_printed() {
        let pair = PairFiles { certificate: Vec::new(), key: b"secret".to_vec() };
        let (names, pairs) = (vec!["a.example".into()], vec![pair]);
        let entry = Entry { names, pairs, is_for_itself: false };
        let tickets = vec![TicketKey::from_bytes([b'x'; KEY_BYTES])];
        let credentials = Credentials { entries: vec![entry], tickets, ..Credentials::default() };
        let printed = format!("{credentials:?}");
        assert!(printed.contains("a.example"), "{printed}");
        assert!(!printed.contains("115") && !printed.contains("120"), "no bytes: {printed}");
    }
}
