//! One hub on several nodes: an update goes into a stream of a Redis server, and each node gives
//! out what it reads there, its own updates, too. So all subscribers get the updates in one order,
//! and a node that begins knows the last ones.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokamak_config as config;
use tokamak_mercure::{Draft, Hub, Update, draft};
use tokamak_outbound::Names;
use tokamak_outbound::redis::{Batch, Client, CommandError, Server, Value, streams};
use tokamak_sys::hub::{fields, put};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::log;

/// How long the Redis server is to hold back its answer when there is nothing new. A tenth would
/// ask it all the time; ten times more would be longer than what is between keeps a silent
/// connection.
const HOLD: Duration = Duration::from_secs(10);

/// How long is waited beyond that, and for a part of the stream, before the connection counts as
/// lost.
const GRACE: Duration = Duration::from_secs(5);

/// After how long it is asked again when it has failed. Ten times less would be many attempts, ten
/// times more would hold updates back that long after a short failure.
const REST: Duration = Duration::from_secs(1);

/// Entries that are taken at once. A tenth would take ten times the calls after an outage; ten
/// times more could be hundreds of megabytes.
const AT_ONCE: &[u8] = b"100";

/// Updates that the stream keeps at least, about, for nodes that were away for a moment. A tenth
/// would not last for a burst; ten times more would be memory of the server for nothing.
const LEAST: usize = 1000;

/// The field of an entry that has the update.
const FIELD: &[u8] = b"update";

/// The stream of one hub.
pub struct Nodes {
    /// One for each event loop, since a connection belongs to its loop, and one for others.
    clients: Box<[Client]>,
    /// The one that waits for updates.
    follower: Client,
    stream: Vec<u8>,
    /// Updates that the hub keeps, and bytes of them.
    history: usize,
    history_size: usize,
    is_down: AtomicBool,
    /// Whether the stream has been read to its end once.
    is_read: watch::Sender<bool>,
    /// How long is waited for that.
    patience: Duration,
}

/// A command of these words.
fn words(words: &[&[u8]]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.to_vec()).collect()
}

impl Nodes {
    /// The stream of this site's hub, if it is shared.
    pub fn new(site: &str, config: &config::Mercure, loops: usize) -> Option<Nodes> {
        let redis = config.nodes.as_ref()?;
        let address = redis.address()?;
        let client = || {
            let server = Server {
                address: address.clone(),
                user: None,
                password: redis.password.as_ref().map(|password| password.reveal().to_owned()),
                database: redis.database,
                timeout: redis.timeout,
            };
            Client::new(server, Names::default())
        };
        Some(Nodes {
            clients: (0..=loops).map(|_| client()).collect(),
            follower: client(),
            stream: format!("{}hub:{site}", redis.prefix).into_bytes(),
            history: config.history,
            history_size: config.history_size,
            is_down: AtomicBool::new(false),
            is_read: watch::Sender::new(false),
            patience: redis.timeout,
        })
    }

    /// Waits until the stream has been read once, but not for long: what is read then is history,
    /// and not news for those who have come before.
    pub async fn ready(&self) {
        let mut is_read = self.is_read.subscribe();
        let _ = timeout(self.patience, is_read.wait_for(|is_read| *is_read)).await;
    }

    /// Gives an update, which has a name, to all nodes. `index` is that of the caller's event loop.
    ///
    /// # Errors
    /// Fails with the reason if the Redis server does not take it.
    pub async fn publish(&self, index: usize, draft: &Draft) -> Result<(), String> {
        let (update, length) = (encoded(draft), self.history.max(LEAST).to_string());
        let length = length.as_bytes();
        let command =
            words(&[b"XADD", &self.stream, b"MAXLEN", b"~", length, b"*", FIELD, &update]);
        let added = self.clients[index].call(&[command], Batch::Single).await;
        added.and_then(good).map(drop).map_err(|error| format!("Redis: {error}"))
    }

    /// Gives out what comes, for as long as this runs.
    pub async fn follow(&self, hub: &Hub) {
        let mut last: Option<Vec<u8>> = None;
        loop {
            let read = match &last {
                None => self.read_all(hub).await,
                Some(last) => self.read_on(hub, last).await,
            };
            match read {
                Ok(position) => last = Some(position),
                Err(error) => {
                    if !self.is_down.swap(true, Ordering::Relaxed) {
                        log::server(&format!("hub: without the Redis server: {error}"));
                    }
                    sleep(REST).await;
                    continue;
                }
            }
            if self.is_down.swap(false, Ordering::Relaxed) {
                log::server("hub: the Redis server answers again");
            }
        }
    }

    /// Has the hub take over the last updates of the stream. Returns the position of the last one.
    async fn read_all(&self, hub: &Hub) -> Result<Vec<u8>, CommandError> {
        let (mut entries, mut bytes, mut before) = (Vec::new(), 0, b"+".to_vec());
        while entries.len() < self.history && bytes < self.history_size {
            let words = words(&[b"XREVRANGE", &self.stream, &before, b"-", b"COUNT", AT_ONCE]);
            let reply = self.follower.wait(words, GRACE).await.and_then(good)?;
            // The newest first.
            let more: Vec<_> = streams::of_range(reply).into_iter().rev().collect();
            let Some(oldest) = more.last() else { break };
            before = [b"(", &oldest.id[..]].concat();
            bytes += more.iter().map(weight).sum::<usize>();
            entries.extend(more);
        }
        let newest = entries.first().map_or(b"0-0".to_vec(), |entry| entry.id.clone());
        let updates: Vec<_> = entries.iter().rev().filter_map(|it| decoded(it, hub)).collect();
        hub.load(updates);
        self.is_read.send_replace(true);
        Ok(newest)
    }

    /// Waits for what comes after this position, and gives it out. Returns the position behind it.
    async fn read_on(&self, hub: &Hub, last: &[u8]) -> Result<Vec<u8>, CommandError> {
        let hold = HOLD.as_millis().to_string();
        let options: [&[u8]; 5] = [b"XREAD", b"COUNT", AT_ONCE, b"BLOCK", hold.as_bytes()];
        let command = words(&[&options[..], &[b"STREAMS", &self.stream, last]].concat());
        let reply = self.follower.wait(command, HOLD + GRACE).await.and_then(good)?;
        let entries = streams::of_streams(reply);
        entries.iter().filter_map(|entry| decoded(entry, hub)).for_each(|it| hub.publish(it));
        Ok(entries.last().map_or(last, |entry| &entry.id).to_vec())
    }
}

/// A reply that is no error.
fn good(reply: Value) -> Result<Value, CommandError> {
    reply.extract_error().map_err(CommandError::Failed)
}

/// Bytes of an entry.
fn weight(entry: &streams::StreamEntry) -> usize {
    entry.fields.iter().map(|(name, value)| name.len() + value.len()).sum()
}

/// An update as the stream has it.
fn encoded(draft: &Draft) -> Vec<u8> {
    let mut update = Vec::with_capacity(draft.data.len() + 256);
    draft.topics.iter().for_each(|topic| put(&mut update, "topic", topic));
    put(&mut update, "data", &draft.data);
    if draft.is_private {
        put(&mut update, "private", "");
    }
    let retry = draft.retry.map(|retry| retry.to_string());
    for (name, value) in [("id", &draft.id), ("type", &draft.kind), ("retry", &retry)] {
        if let Some(value) = value {
            put(&mut update, name, value);
        }
    }
    update
}

/// The update of an entry; `None`: it is none that this hub takes.
fn decoded(entry: &streams::StreamEntry, hub: &Hub) -> Option<Update> {
    let (_, update) = entry.fields.iter().find(|(name, _)| name == FIELD)?;
    let fields = fields(update)?.into_iter();
    let fields = fields.map(|(name, value)| (name.into(), value.into()));
    let draft = draft(fields, hub.limits()).ok()?;
    // Our nodes give each update a name. Another program that writes into the stream may not: all
    // nodes then call its update by the id of the entry, which is the same for all of them.
    let name = || String::from_utf8_lossy(&entry.id).into_owned();
    Some(Update::new(draft, name))
}

#[cfg(test)]
mod tests {
    use tokamak_mercure::Limits;

    use super::*;

    #[test]
    fn updates_are_written_and_read() {
        let full = Draft {
            topics: vec!["/a".into(), "/b".into()],
            data: "one\ntwo".into(),
            is_private: true,
            id: Some("urn:1".into()),
            kind: Some("news".into()),
            retry: Some(700),
        };
        let least = Draft { topics: vec!["/a".into()], ..Draft::default() };
        let hub = Hub::new(Limits::default(), 1);
        for draft in [full, least] {
            let fields = vec![(FIELD.to_vec(), encoded(&draft))];
            let entry = streams::StreamEntry { id: b"7-1".to_vec(), fields };
            let expected = Update::new(draft, || "7-1".into());
            assert_eq!(decoded(&entry, &hub), Some(expected));
        }
        for strange in [Vec::new(), vec![(FIELD.to_vec(), b"topic".to_vec())]] {
            let entry = streams::StreamEntry { id: b"7-1".to_vec(), fields: strange };
            assert_eq!(decoded(&entry, &hub), None);
        }
    }
}
