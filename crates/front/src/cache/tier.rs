//! The second tier: a Redis server by which several nodes share their cached responses.
//!
//! A response is stored there as bytes under its key. If it varies, the key holds its `Vary`, and
//! the response is stored under the key plus the request's values of those fields. Purges are
//! entries of a stream that every node reads. A stored response contains the position up to which
//! its node had read the stream when it asked the application. A node that finds a response checks
//! the purges after that position, and so knows without any clock whether the response is still
//! valid.
//!
//! A node that cannot read the stream does not use the tier.

mod purges;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue, VARY};
use tokamak_cache::{Entry, Key, Moment, Purge, Selection, decode, encode};
use tokamak_config as config;
use tokamak_outbound::Names;
use tokamak_outbound::redis::{Batch, Client, CommandError, Server, Value, streams};

use crate::log;
use purges::{Log, Outgoing, Position};

/// How long the server is not asked after it has failed, in nanoseconds. Ten times less, and many
/// requests would wait for the timeout of a server that hangs; ten times more, and the nodes would
/// miss the tier for ten seconds after a short failure.
const REST: u64 = 1_000_000_000;

/// How often the stream is read: a purge reaches the other nodes at most this much later.
const READ_EVERY: Duration = Duration::from_millis(200);

/// Timeout of a read of the stream, unless the operator's is longer. The first read brings the
/// whole stream: with a tenth of this a slow server might never deliver it, and the tier would stay
/// unused. Ten times more would only delay the next attempt when the server hangs.
const STREAM_PATIENCE: Duration = Duration::from_secs(5);

/// Approximate length of the stream. A node that has missed more entries purges everything, so with
/// a tenth of this a short separation during a large purge would empty its cache. Each node holds
/// the entries in memory and reads all of them when it starts, so ten times more would cost that
/// much.
const LONGEST: usize = 10_000;

/// Most purges that wait for the server. If there are more, they become one purge of everything, so
/// with a tenth of this a short outage could empty all caches; ten times more would have to pass in
/// one pipeline within the timeout when the server is back.
const MOST_OUTGOING: usize = 1000;

/// The first byte of a value: a response, or the `Vary` of several.
const ENTRY: u8 = b'E';
const VARYING: u8 = b'V';

/// Removes a key, and adds a purge to the stream only if the key existed.
const FORGET: &[u8] = b"if redis.call('DEL', KEYS[1]) == 0 then return false end \
                        return redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[1], '*', 'what', \
                        ARGV[2])";

/// The second tier, as all event loops use it.
pub struct Tier {
    /// One client for each event loop, because a connection belongs to its loop.
    clients: Vec<Client>,
    /// The client for the stream, which has a longer timeout because no request waits for it.
    follower: Client,
    prefix: Vec<u8>,
    log: Mutex<Log>,
    /// The server is not asked before this time.
    rests_until: AtomicU64,
    is_down: AtomicBool,
}

/// How far this node has read the stream when it asks an application for a response.
pub type Ticket = Option<Position>;

impl Tier {
    /// The tier, if the configuration has one.
    pub fn new(server: &config::Server) -> Option<Arc<Tier>> {
        let tier = server.cache.tier.clone()?;
        let address = tier.address()?;
        let config::Tier { password, database, prefix, timeout, .. } = tier;
        let client = |timeout| {
            let address = address.clone();
            let password = password.as_ref().map(|password| password.reveal().to_owned());
            Client::new(
                Server { address, user: None, password, database, timeout },
                Names::default(),
            )
        };
        Some(Arc::new(Tier {
            clients: (0..server.loops).map(|_| client(timeout)).collect(),
            follower: client(STREAM_PATIENCE.max(timeout)),
            prefix: prefix.into_bytes(),
            log: Mutex::default(),
            rests_until: AtomicU64::new(0),
            is_down: AtomicBool::new(false),
        }))
    }

    /// How far this node has read the stream; `None` if it cannot read it.
    pub fn ticket(&self) -> Ticket {
        self.log().position()
    }

    /// The response to a request, if the tier has it and no purge is for it.
    pub async fn find(&self, index: usize, key: &Key, headers: &HeaderMap) -> Option<Entry> {
        let none = Selection::default();
        let entry = match self.read(index, self.name(key, &none)).await? {
            StoredValue::Entry(entry) => entry,
            StoredValue::Vary(vary) => {
                let vary = HeaderMap::from_iter([(VARY, vary)]);
                let selection = Selection::of(headers, &vary)?;
                match self.read(index, self.name(key, &selection)).await? {
                    StoredValue::Entry(entry) => entry,
                    StoredValue::Vary(_) => return None,
                }
            }
        };
        let (position, entry) = *entry;
        let counts =
            entry.selection.fits(headers) && !self.log().has_purged(position, key, &entry.tags);
        counts.then_some(entry)
    }

    /// Stores a response that was asked for with this ticket, in the background.
    pub fn keep(self: &Arc<Tier>, index: usize, key: &Key, entry: &Arc<Entry>, ticket: Ticket) {
        let moment = moment();
        let (Some(position), seconds @ 1..) = (ticket, entry.ttl(moment.now)) else { return };
        let name = self.name(key, &entry.selection);
        let expiry = (seconds * 1000).to_string().into_bytes();
        let set = |name: Vec<u8>, bytes: Vec<u8>| {
            vec![b"SET".to_vec(), name, bytes, b"PX".to_vec(), expiry.clone()]
        };
        let bytes = [&[ENTRY], &position.to_bytes()[..], &encode(entry, moment)].concat();
        let mut commands = vec![set(name, bytes)];
        if !entry.selection.is_empty() {
            let vary = [&[VARYING], &entry.selection.vary()[..]].concat();
            commands.push(set(self.name(key, &Selection::default()), vary));
        }
        let tier = self.clone();
        tokio::spawn(
            async move { tier.ask(tier.clients.get(index)?, commands, Batch::Pipeline).await },
        );
    }

    /// Queues a purge of a key for the other nodes. It is sent only if the tier has the key.
    pub fn invalidate(&self, key: &[u8]) {
        self.put(Outgoing::Invalidate(key.to_vec()));
    }

    /// Queues a purge for the other nodes.
    pub fn purge(&self, what: &Purge) {
        self.put(Outgoing::Purge(what.clone()));
    }

    fn put(&self, outgoing: Outgoing) {
        self.log().announce(outgoing, MOST_OUTGOING);
    }

    /// Sends the queued purges. If the server is away, they stay queued.
    async fn send_own(&self) {
        let unsent: Vec<_> = self.log().unsent().cloned().collect();
        if unsent.is_empty() {
            return;
        }
        let commands = unsent.iter().map(|own| self.command(&own.outgoing)).collect();
        let Some(Value::Array(replies)) = self.ask(&self.follower, commands, Batch::Pipeline).await
        else {
            return;
        };
        let mut log = self.log();
        for (own, reply) in unsent.iter().zip(replies) {
            let id = match reply {
                Value::BulkString(id) => Position::parse(&id),
                _ => None,
            };
            log.sent(own, id);
        }
    }

    fn command(&self, outgoing: &Outgoing) -> Vec<Vec<u8>> {
        let (stream, longest) = (self.stream(), LONGEST.to_string());
        let longest = longest.as_bytes();
        match outgoing {
            Outgoing::Invalidate(key) => {
                let name = [&self.prefix[..], b"e:", key].concat();
                let what = purges::to_bytes(&Purge::Key(key.clone()));
                [b"EVAL", FORGET, b"2", &name, &stream, longest, &what].map(<[u8]>::to_vec).into()
            }
            Outgoing::Purge(what) => {
                let what = purges::to_bytes(what);
                [b"XADD", &stream[..], b"MAXLEN", b"~", longest, b"*", b"what", &what]
                    .map(<[u8]>::to_vec)
                    .into()
            }
        }
    }

    /// Runs for ever: sends this node's purges, reads the stream, and calls `forget` for the purges
    /// of other nodes.
    pub async fn follow(self: Arc<Tier>, forget: impl Fn(&Purge)) {
        let mut tick = tokio::time::interval(READ_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            self.send_own().await;
            let position = self.log().position();
            let stream = self.stream();
            let command = match position {
                Some(position) => {
                    let last = position.text();
                    vec![
                        b"XREAD".to_vec(),
                        b"COUNT".into(),
                        b"1000".into(),
                        b"STREAMS".into(),
                        stream,
                        last,
                    ]
                }
                // The whole stream, the newest entry first.
                None => {
                    let count = LONGEST.to_string().into_bytes();
                    vec![
                        b"XREVRANGE".to_vec(),
                        stream,
                        b"+".into(),
                        b"-".into(),
                        b"COUNT".into(),
                        count,
                    ]
                }
            };
            let Some(reply) = self.ask(&self.follower, vec![command], Batch::Single).await else {
                self.log().lose();
                continue;
            };
            let entries = match position {
                Some(_) => streams::of_streams(reply),
                None => streams::of_range(reply),
            };
            let entries = purges::of_entries(entries);
            let due = match position {
                Some(_) => self.log().append(entries, LONGEST),
                None => self.log().load(entries, LONGEST),
            };
            due.iter().for_each(&forget);
        }
    }

    async fn read(&self, index: usize, name: Vec<u8>) -> Option<StoredValue> {
        self.log().position()?;
        let get = vec![vec![b"GET".to_vec(), name]];
        let reply = self.ask(self.clients.get(index)?, get, Batch::Single).await?;
        let Value::BulkString(bytes) = reply else { return None };
        let mut bytes = Bytes::from(bytes);
        if bytes.is_empty() {
            return None;
        }
        match bytes.split_to(1)[0] {
            VARYING => Some(StoredValue::Vary(HeaderValue::from_maybe_shared(bytes).ok()?)),
            ENTRY if bytes.len() >= Position::SIZE => {
                let position = Position::from_bytes(&bytes.split_to(Position::SIZE))?;
                Some(StoredValue::Entry(Box::new((position, decode(bytes, moment())?))))
            }
            _ => None,
        }
    }

    /// Asks the server, unless it has failed within the last [`REST`].
    async fn ask(
        &self,
        client: &Client,
        commands: Vec<Vec<Vec<u8>>>,
        batch: Batch,
    ) -> Option<Value> {
        let now = tokamak_cost::now();
        if now < self.rests_until.load(Ordering::Relaxed) {
            return None;
        }
        match client.call(&commands, batch).await {
            Ok(value) => {
                if self.is_down.swap(false, Ordering::Relaxed) {
                    log::server("cache: the Redis server answers again");
                }
                Some(value)
            }
            Err(fault) => {
                self.rests_until.store(now + REST, Ordering::Relaxed);
                self.log_outage(&fault);
                None
            }
        }
    }

    /// Logs the first failure of an outage.
    fn log_outage(&self, fault: &CommandError) {
        if !self.is_down.swap(true, Ordering::Relaxed) {
            log::server(&format!("cache: without the Redis server: {fault}"));
        }
    }

    fn name(&self, key: &Key, selection: &Selection) -> Vec<u8> {
        let name = [&self.prefix[..], b"e:", key.bytes()].concat();
        if selection.is_empty() { name } else { [&name[..], b"\0", &selection.to_bytes()].concat() }
    }

    fn stream(&self) -> Vec<u8> {
        [&self.prefix[..], b"purges"].concat()
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        lock(&self.log)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // If a panic has poisoned the lock, it has been reported. Each change is a single call, so the
    // data are intact.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A value in the tier.
enum StoredValue {
    Entry(Box<(Position, Entry)>),
    Vary(HeaderValue),
}

fn moment() -> Moment {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment { now: tokamak_cost::now(), wall: wall.as_millis() as u64 }
}
