//! What several nodes share through a Redis server: certificates, accounts, waits, and the
//! challenges of the moment, since a balancer may send an authority to any of them. A lock lets one
//! node at a time order a name. All values are encrypted.
//!
//! ```text
//! acme:certificate:NAME@AUTHORITIES   certificate, chain and key
//! acme:versions:AUTHORITIES           when the certificate of each name ends, to see that there is
//!                                     a new one
//! acme:account:URL        the account at an authority
//! acme:tries:NAME@AUTHORITIES         how the tries to get a certificate have gone
//! acme:turn:NAME@AUTHORITIES          which node orders a certificate for the name
//! acme:nodes, acme:node:NODE      the nodes; a node that is away has no value
//! acme:challenges         by nodes, what authorities are to find
//! acme:shown:NODE:NUMBER  the nodes that have certain challenges of a node
//! acme:news               a number that grows when certificates or challenges have changed
//! ```
//!
//! AUTHORITIES stands for the directories in the settings: a node that tries another authority must
//! not give its certificates to the others.

mod news;
mod order_lock;

use std::collections::BTreeSet;
use std::time::Duration;

use tokamak_config::Tier;
use tokamak_outbound::Names;
use tokamak_outbound::redis::{Batch, Client, Server, Value};
use tokamak_tls::{Challenge, SharedSecret};
use tokio::time::{Instant, sleep};

use crate::error::Error;

pub use news::NodeUpdates;

/// How long the other nodes have to show a challenge before the authority is asked to look for it.
/// They look once a second. With a tenth, a slow node would have the authority refuse; with ten
/// times more, a node that hangs would hold up all names.
const SHOWN_WITHIN: Duration = Duration::from_secs(15);

/// Pause between two looks whether they do.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Seconds for which a node counts as there after it was last heard of. Ten looks.
const NODE_LASTS: u64 = 10;

/// Seconds for which challenges count. Longer than an order may take.
const CHALLENGES_LAST: u64 = 3600;

/// Seconds for which waits are kept: longer than the longest of them.
const TRIES_LAST: u64 = 7 * 24 * 3600;

/// What several nodes share.
pub struct Shared {
    client: Client,
    prefix: String,
    secret: SharedSecret,
    /// This node: a number that no other one has.
    node: String,
    /// What the directories in the settings have as their number.
    authorities: String,
}

/// A number for these directories, whatever their order (FNV-1a): the same for each build.
fn number_of(directories: &[String]) -> u64 {
    let mut sorted: Vec<&str> = directories.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    let bytes = sorted.iter().flat_map(|url| url.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Shared {
    /// What is at this server, encrypted with this secret, among nodes that ask these authorities.
    /// [`None`] if the server has no address.
    pub fn new(tier: &Tier, secret: &str, directories: &[String]) -> Option<Shared> {
        let server = Server {
            address: tier.address()?,
            user: None,
            password: tier.password.as_ref().map(|password| password.reveal().to_owned()),
            database: tier.database,
            timeout: tier.timeout,
        };
        Some(Shared {
            client: Client::new(server, Names::default()),
            prefix: tier.prefix.clone(),
            secret: SharedSecret::new(secret),
            node: format!("{:016x}", tokamak_tls::random()),
            authorities: format!("{:016x}", number_of(directories)),
        })
    }

    /// The certificate for a name, with its key, if a node has one.
    ///
    /// # Errors
    /// Fails if the server cannot be asked, or what it has cannot be read.
    pub async fn certificate(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.read(&self.of_name("certificate", name)).await
    }

    /// Gives the certificate for a name, which ends then, to the other nodes.
    ///
    /// # Errors
    /// Fails if the server does not take it.
    pub async fn keep_certificate(&self, name: &str, file: &[u8], ends: u64) -> Result<(), Error> {
        let key = self.of_name("certificate", name);
        let sealed = self.secret.encrypt(&key, file);
        let (versions, tries) = (self.versions(), self.of_name("tries", name));
        let lasts = ends.saturating_sub(crate::now()).max(1).to_string();
        let set = words(&[b"SET", key.as_bytes(), &sealed, b"EX", lasts.as_bytes()]);
        let version = ends.to_string();
        let version = [b"HSET", versions.as_bytes(), name.as_bytes(), version.as_bytes()];
        let commands = [
            set,
            words(&version),
            words(&[b"DEL", tries.as_bytes()]),
            words(&[b"INCR", self.plain("news").as_bytes()]),
        ];
        self.all(&commands, Batch::Transaction).await.map(drop)
    }

    /// The account at the authority with this directory, if a node has made one.
    ///
    /// # Errors
    /// As [`Shared::certificate`].
    pub async fn account(&self, directory: &str) -> Result<Option<Vec<u8>>, Error> {
        self.read(&self.key("account", directory)).await
    }

    /// Gives the account at an authority to the other nodes, unless one of them was quicker.
    ///
    /// # Errors
    /// As [`Shared::keep_certificate`].
    pub async fn keep_account(&self, directory: &str, file: &[u8]) -> Result<(), Error> {
        let key = self.key("account", directory);
        let sealed = self.secret.encrypt(&key, file);
        self.one(words(&[b"SET", key.as_bytes(), &sealed, b"NX"])).await.map(drop)
    }

    /// How the tries to get a certificate for a name have gone, if another node made the last one.
    ///
    /// # Errors
    /// As [`Shared::certificate`].
    pub async fn tries(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let kept = self.read(&self.of_name("tries", name)).await?;
        let file = kept.as_deref().and_then(|kept| kept.split_at_checked(self.node.len()));
        let file = file.filter(|(node, _)| *node != self.node.as_bytes());
        Ok(file.map(|(_, file)| file.to_vec()))
    }

    /// Tells the other nodes how they have gone.
    ///
    /// # Errors
    /// As [`Shared::keep_certificate`].
    pub async fn keep_tries(&self, name: &str, file: &[u8]) -> Result<(), Error> {
        let key = self.of_name("tries", name);
        let sealed = self.secret.encrypt(&key, &[self.node.as_bytes(), file].concat());
        let seconds = TRIES_LAST.to_string();
        let set = words(&[b"SET", key.as_bytes(), &sealed, b"EX", seconds.as_bytes()]);
        self.one(set).await.map(drop)
    }

    /// Lets the other nodes try without a wait.
    ///
    /// # Errors
    /// As [`Shared::keep_certificate`].
    pub async fn forget_tries(&self, name: &str) -> Result<(), Error> {
        let key = self.of_name("tries", name);
        self.one(words(&[b"DEL", key.as_bytes()])).await.map(drop)
    }

    /// Has the other nodes show these challenges of this node, and no others of it. Returns those
    /// that do not within some time.
    ///
    /// # Errors
    /// As [`Shared::keep_certificate`].
    pub async fn show(&self, challenges: &[Challenge]) -> Result<BTreeSet<String>, Error> {
        let key = self.plain("challenges");
        let number = tokamak_tls::random();
        let change = if challenges.is_empty() {
            words(&[b"HDEL", key.as_bytes(), self.node.as_bytes()])
        } else {
            let sealed = self.seal(number, challenges);
            words(&[b"HSET", key.as_bytes(), self.node.as_bytes(), &sealed])
        };
        let news = words(&[b"INCR", self.plain("news").as_bytes()]);
        self.all(&[change, news], Batch::Transaction).await?;
        if challenges.is_empty() {
            return Ok(BTreeSet::new());
        }
        let until = Instant::now() + SHOWN_WITHIN;
        loop {
            let missing = self.missing(number).await?;
            if missing.is_empty() || Instant::now() >= until {
                return Ok(missing);
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    /// The other nodes that do not show the challenges with this number.
    async fn missing(&self, number: u64) -> Result<BTreeSet<String>, Error> {
        let nodes = self.plain("nodes");
        let shown = self.shown_by(&self.node, number);
        let commands =
            [words(&[b"SMEMBERS", nodes.as_bytes()]), words(&[b"SMEMBERS", shown.as_bytes()])];
        let mut replies = self.all(&commands, Batch::Pipeline).await?.into_iter();
        let mut nodes = texts(replies.next());
        let shown = texts(replies.next());
        nodes.remove(&self.node);
        nodes.retain(|node| !shown.contains(node));
        if nodes.is_empty() {
            return Ok(nodes);
        }
        // Of those that do not, some may be no more.
        let keys: Vec<String> = nodes.iter().map(|node| self.key("node", node)).collect();
        let keys = keys.iter().map(|key| key.as_bytes().to_vec());
        let read = [b"MGET".to_vec()].into_iter().chain(keys).collect();
        let Value::Array(values) = self.one(read).await? else { return Ok(BTreeSet::new()) };
        let is_there = |value: &Value| !matches!(value, Value::Nil);
        let (here, gone): (Vec<_>, Vec<_>) =
            nodes.into_iter().zip(&values).partition(|(_, value)| is_there(value));
        if !gone.is_empty() {
            let gone = gone.iter().map(|(node, _)| node.as_bytes());
            let nodes = self.plain("nodes");
            let challenges = self.plain("challenges");
            let remove = |order: &'static [u8], key: &str| {
                let first = [order.to_vec(), key.as_bytes().to_vec()];
                first.into_iter().chain(gone.clone().map(<[u8]>::to_vec)).collect::<Vec<_>>()
            };
            let commands = [remove(b"SREM", &nodes), remove(b"HDEL", &challenges)];
            self.all(&commands, Batch::Pipeline).await?;
        }
        Ok(here.into_iter().map(|(node, _)| node).collect())
    }

    fn plain(&self, name: &str) -> String {
        format!("{}acme:{name}", self.prefix)
    }

    fn key(&self, kind: &str, name: &str) -> String {
        self.plain(&format!("{kind}:{name}"))
    }

    fn of_name(&self, kind: &str, name: &str) -> String {
        self.key(kind, &format!("{name}@{}", self.authorities))
    }

    fn versions(&self) -> String {
        self.key("versions", &self.authorities)
    }

    fn shown_by(&self, node: &str, number: u64) -> String {
        self.plain(&format!("shown:{node}:{number}"))
    }

    async fn read(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        match self.one(words(&[b"GET", key.as_bytes()])).await? {
            Value::BulkString(stored) => match self.secret.decrypt(key, &stored) {
                Some(bytes) => Ok(Some(bytes)),
                None => {
                    let why = "another node has another `redis_secret`, or another program uses \
                               the name";
                    Err(Error::here(format!("Redis: `{key}` cannot be decrypted: {why}")))
                }
            },
            _ => Ok(None),
        }
    }

    async fn one(&self, command: Vec<Vec<u8>>) -> Result<Value, Error> {
        let reply = self.client.call(&[command], Batch::Single).await;
        match reply.map_err(|error| Error::here(format!("Redis: {error}")))? {
            Value::ServerError(error) => Err(Error::here(format!("Redis: {error}"))),
            reply => Ok(reply),
        }
    }

    async fn all(&self, commands: &[Vec<Vec<u8>>], batch: Batch) -> Result<Vec<Value>, Error> {
        let replies = self.client.call(commands, batch).await;
        let replies = replies.map_err(|error| Error::here(format!("Redis: {error}")))?;
        let Value::Array(replies) = replies else {
            return Err(Error::here("Redis: its reply is no list"));
        };
        let is_error = |reply: &&Value| matches!(reply, Value::ServerError(_));
        match replies.iter().find(is_error) {
            Some(Value::ServerError(error)) => Err(Error::here(format!("Redis: {error}"))),
            _ => Ok(replies),
        }
    }
}

fn words(words: &[&[u8]]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.to_vec()).collect()
}

fn texts(reply: Option<Value>) -> BTreeSet<String> {
    let values = match reply {
        Some(Value::Array(values) | Value::Set(values)) => values,
        _ => Vec::new(),
    };
    let text = |value| match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    };
    values.into_iter().filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_with_the_same_authorities_have_the_same_number() {
        let of = |urls: &[&str]| {
            number_of(&urls.iter().map(|url| (*url).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(of(&["https://a/", "https://b/"]), of(&["https://b/", "https://a/"]));
        assert_ne!(of(&["https://a/", "https://b/"]), of(&["https://a/"]));
        assert_ne!(of(&["https://a/", "b"]), of(&["https://a/b"]));
    }
}
