//! What other nodes have stored since the last look.

use std::collections::BTreeMap;

use tokamak_outbound::redis::{Batch, Value};
use tokamak_tls::{Challenge, Credentials};

use super::{CHALLENGES_LAST, NODE_LASTS, Shared, words};
use crate::error::Error;

/// What other nodes have stored.
pub struct NodeUpdates {
    /// What grows when there are others.
    pub number: Vec<u8>,
    /// When the certificate of each name ends, in seconds since 1970.
    pub versions: BTreeMap<String, u64>,
    /// What authorities are to find.
    pub challenges: Vec<NodeChallenges>,
}

/// What authorities are to find for another node.
#[derive(Debug, PartialEq, Eq)]
pub struct NodeChallenges {
    /// The node.
    pub node: String,
    /// A number that its other challenges do not have.
    pub number: u64,
    /// The challenges.
    pub challenges: Vec<Challenge>,
}

impl Shared {
    /// Says that this node is there.
    ///
    /// # Errors
    /// Fails if the server cannot be reached.
    pub async fn beat(&self) -> Result<(), Error> {
        let (node, nodes) = (self.key("node", &self.node), self.plain("nodes"));
        let lasts = NODE_LASTS.to_string();
        let commands = [
            words(&[b"SET", node.as_bytes(), b"1", b"EX", lasts.as_bytes()]),
            words(&[b"SADD", nodes.as_bytes(), self.node.as_bytes()]),
        ];
        self.all(&commands, Batch::Pipeline).await.map(drop)
    }

    /// The news, if there are any since `seen`.
    ///
    /// # Errors
    /// Fails if the server cannot be asked.
    pub async fn news(&self, seen: Option<&[u8]>) -> Result<Option<NodeUpdates>, Error> {
        let news = self.plain("news");
        let number = match self.one(words(&[b"GET", news.as_bytes()])).await? {
            Value::BulkString(number) => number,
            _ => Vec::new(),
        };
        if seen == Some(&number) {
            return Ok(None);
        }
        let (versions, challenges) = (self.versions(), self.plain("challenges"));
        let commands = [&versions, &challenges].map(|key| words(&[b"HGETALL", key.as_bytes()]));
        let mut replies = self.all(&commands, Batch::Pipeline).await?.into_iter();
        let versions = pairs(replies.next()).into_iter().filter_map(|(name, ends)| {
            Some((name, std::str::from_utf8(&ends).ok()?.parse().ok()?))
        });
        let versions: BTreeMap<String, u64> = versions.collect();
        self.forget_ended(&versions).await?;
        let challenges = pairs(replies.next());
        let others = challenges.into_iter().filter(|(node, _)| *node != self.node);
        let challenges = others.filter_map(|(node, sealed)| {
            let bytes = self.secret.decrypt(&name(&node), &sealed)?;
            decode(node, &bytes, crate::now())
        });
        Ok(Some(NodeUpdates { number, versions, challenges: challenges.collect() }))
    }

    /// Removes the versions of certificates that have ended.
    async fn forget_ended(&self, versions: &BTreeMap<String, u64>) -> Result<(), Error> {
        let now = crate::now();
        let ended = versions.iter().filter(|(_, ends)| **ends < now);
        let ended: Vec<Vec<u8>> = ended.map(|(name, _)| name.as_bytes().to_vec()).collect();
        if ended.is_empty() {
            return Ok(());
        }
        let first = [b"HDEL".to_vec(), self.versions().into_bytes()];
        self.one(first.into_iter().chain(ended).collect()).await.map(drop)
    }

    /// Says that this node shows the challenges of another one with this number.
    ///
    /// # Errors
    /// Fails if the server cannot be reached.
    pub async fn confirm(&self, node: &str, number: u64) -> Result<(), Error> {
        let key = self.shown_by(node, number);
        let lasts = CHALLENGES_LAST.to_string();
        let commands = [
            words(&[b"SADD", key.as_bytes(), self.node.as_bytes()]),
            words(&[b"EXPIRE", key.as_bytes(), lasts.as_bytes()]),
        ];
        self.all(&commands, Batch::Pipeline).await.map(drop)
    }

    /// Challenges of this node as the others get them.
    pub(super) fn seal(&self, number: u64, challenges: &[Challenge]) -> Vec<u8> {
        self.secret.encrypt(&name(&self.node), &encode(number, challenges, crate::now()))
    }
}

/// The name under which the challenges of a node are encrypted.
fn name(node: &str) -> String {
    format!("challenges:{node}")
}

/// Their number, when they were shown, and what they are.
fn encode(number: u64, challenges: &[Challenge], at: u64) -> Vec<u8> {
    let credentials = Credentials { challenges: challenges.to_vec(), ..Credentials::default() };
    [&number.to_le_bytes()[..], &at.to_le_bytes(), &credentials.encode()].concat()
}

/// Reads what [`encode`] wrote. Nothing that a node has left long ago, which died in an order.
fn decode(node: String, bytes: &[u8], now: u64) -> Option<NodeChallenges> {
    let (number, rest) = bytes.split_first_chunk()?;
    let (at, rest) = rest.split_first_chunk()?;
    let challenges = Credentials::decode(rest).ok()?.challenges;
    let is_new = now.saturating_sub(u64::from_le_bytes(*at)) <= CHALLENGES_LAST;
    is_new.then_some(NodeChallenges { node, number: u64::from_le_bytes(*number), challenges })
}

/// The fields of a hash.
fn pairs(reply: Option<Value>) -> Vec<(String, Vec<u8>)> {
    let pair = |name, value| match (name, value) {
        (Value::BulkString(name), Value::BulkString(value)) => {
            Some((String::from_utf8(name).ok()?, value))
        }
        _ => None,
    };
    match reply {
        Some(Value::Map(pairs)) => {
            pairs.into_iter().filter_map(|(name, value)| pair(name, value)).collect()
        }
        Some(Value::Array(values)) => {
            let mut values = values.into_iter();
            let mut pairs = Vec::new();
            while let (Some(name), Some(value)) = (values.next(), values.next()) {
                pairs.extend(pair(name, value));
            }
            pairs
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_of_another_node() {
        let challenges = vec![Challenge::Http { token: "t".into(), answer: "a".into() }];
        let encoded = encode(7, &challenges, 1000);
        let decoded = |now| decode("n".into(), &encoded, now);
        let shown = NodeChallenges { node: "n".into(), number: 7, challenges };
        assert_eq!(decoded(1000 + CHALLENGES_LAST), Some(shown));
        assert_eq!(decoded(1001 + CHALLENGES_LAST), None);
        assert!(decoded(0).is_some(), "its clock is ahead");
        for length in 0..encoded.len() {
            assert!(decode("n".into(), &encoded[..length], 1000).is_none());
        }
    }

    #[test]
    fn both_forms_of_a_hash() {
        let text = |text: &str| Value::BulkString(text.into());
        let expected = vec![("a".to_owned(), b"1".to_vec())];
        assert_eq!(pairs(Some(Value::Map(vec![(text("a"), text("1"))]))), expected);
        assert_eq!(pairs(Some(Value::Array(vec![text("a"), text("1"), text("b")]))), expected);
        assert!(pairs(Some(Value::Nil)).is_empty() && pairs(None).is_empty());
    }
}
