//! The second tier: a Redis server by which several nodes share what one of them has asked an
//! application for.
//!
//! A response is kept there under its key, as bytes. If it varies, what is there is its `Vary`, and
//! the response is under the key with what the request has in those fields. What is to be forgotten
//! is told in a stream that every node reads: each entry of it is one purge. A response says how
//! far in the stream its node had read when it asked for it. So a node that finds a response knows
//! by the purges behind that place whether it still counts, without any clock.
//!
//! A node that cannot read the stream does not use the tier.

mod purges;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue, VARY};
use tokamak_cache::{Entry, Key, Moment, Purge, Selection, decode, encode};
use tokamak_config::{self as config, Endpoint};
use tokamak_outbound::Names;
use tokamak_outbound::redis::{Client, CommandError, Server, Together, Value};

use crate::log;
use purges::{Log, Position};

/// How long nobody asks after the server has failed, in nanoseconds. Chosen arbitrarily.
const REST: u64 = 1_000_000_000;

/// How often the stream is read.
const READ_EVERY: Duration = Duration::from_millis(200);

/// Time for a look at the stream: the first one brings all of it. Chosen arbitrarily.
const STREAM_PATIENCE: Duration = Duration::from_secs(5);

/// Entries that the stream has, about: a node that has missed more forgets everything. Chosen
/// arbitrarily.
const LONGEST: usize = 10_000;

/// What may wait to be told. Chosen arbitrarily.
const MOST_ERRANDS: usize = 1000;

/// What bytes under a key are: a response, or the `Vary` of several.
const ENTRY: u8 = b'E';
const VARYING: u8 = b'V';

/// Removes a key, and tells the others if it was there: a purge that removes nothing is none of
/// their business.
const FORGET: &[u8] = b"if redis.call('DEL', KEYS[1]) == 0 then return false end \
                        return redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[1], '*', 'what', \
                        ARGV[2])";

/// The second tier, as all event loops use it.
pub struct Tier {
    /// By the event loops, on which their connections live.
    clients: Vec<Client>,
    /// For the stream, which nobody waits for.
    follower: Client,
    prefix: Vec<u8>,
    log: Mutex<Log>,
    /// What this node has to tell the others.
    errands: Mutex<Vec<Errand>>,
    /// Until then nobody asks.
    rests_until: AtomicU64,
    is_down: AtomicBool,
}

/// A response that a node is about to ask for: how far it has read the stream.
pub type Ticket = Option<Position>;

impl Tier {
    /// The tier that the operator wants, if any.
    pub fn new(server: &config::Server) -> Option<Arc<Tier>> {
        let config::Tier { server: endpoint, password, database, prefix, timeout } =
            server.cache.tier.clone()?;
        let place = match endpoint {
            Endpoint::Unix(path) => Err(path),
            Endpoint::Tcp(address) | Endpoint::Srv(address) => {
                let (host, port) = address.rsplit_once(':')?;
                Ok((host.to_owned(), port.parse().ok()?))
            }
        };
        let client = |timeout| {
            let (place, password) = (place.clone(), password.clone());
            Client::new(Server { place, user: None, password, database, timeout }, Names::default())
        };
        Some(Arc::new(Tier {
            clients: (0..server.loops).map(|_| client(timeout)).collect(),
            follower: client(STREAM_PATIENCE.max(timeout)),
            prefix: prefix.into_bytes(),
            log: Mutex::default(),
            errands: Mutex::default(),
            rests_until: AtomicU64::new(0),
            is_down: AtomicBool::new(false),
        }))
    }

    /// How far this node has read the stream; nothing if it cannot.
    pub fn ticket(&self) -> Ticket {
        self.log().position()
    }

    /// The response to a request, if the tier has it and it still counts.
    pub async fn find(&self, index: usize, key: &Key, headers: &HeaderMap) -> Option<Entry> {
        let none = Selection::default();
        let entry = match self.read(index, self.name(key, &none)).await? {
            Kept::Entry(entry) => entry,
            Kept::Vary(vary) => {
                let vary = HeaderMap::from_iter([(VARY, vary)]);
                let selection = Selection::of(headers, &vary)?;
                match self.read(index, self.name(key, &selection)).await? {
                    Kept::Entry(entry) => entry,
                    Kept::Vary(_) => return None,
                }
            }
        };
        let (position, entry) = *entry;
        let counts =
            entry.selection.fits(headers) && !self.log().forgets(position, key, &entry.tags);
        counts.then_some(entry)
    }

    /// Keeps a response that was asked for with this ticket. Nobody waits for it.
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
        tokio::spawn(async move {
            tier.ask(tier.clients.get(index)?, commands, Together::Pipeline).await
        });
    }

    /// Tells the other nodes to forget what is under a key, if the tier has it; soon.
    pub fn invalidate(&self, key: &[u8]) {
        self.put(Errand::Invalidate(key.to_vec()));
    }

    /// Tells the other nodes to forget something; soon.
    pub fn purge(&self, what: &Purge) {
        self.put(Errand::Purge(what.clone()));
    }

    fn put(&self, errand: Errand) {
        let mut errands = lock(&self.errands);
        if errands.len() < MOST_ERRANDS {
            errands.push(errand);
        } else {
            // While the server is away they are kept; so many are as good as all.
            *errands = vec![Errand::Purge(Purge::All)];
        }
    }

    /// Tells what there is to tell; if the server is away, the next time.
    async fn run_errands(&self) {
        let errands = std::mem::take(&mut *lock(&self.errands));
        if errands.is_empty() {
            return;
        }
        let commands = errands.iter().map(|errand| self.command(errand)).collect();
        let Some(Value::Array(replies)) =
            self.ask(&self.follower, commands, Together::Pipeline).await
        else {
            lock(&self.errands).splice(..0, errands);
            return;
        };
        let mut log = self.log();
        for reply in replies {
            if let Value::BulkString(id) = reply
                && let Some(id) = Position::parse(&id)
            {
                log.note_own(id);
            }
        }
    }

    fn command(&self, errand: &Errand) -> Vec<Vec<u8>> {
        let (stream, longest) = (self.stream(), LONGEST.to_string());
        let longest = longest.as_bytes();
        match errand {
            Errand::Invalidate(key) => {
                let name = [&self.prefix[..], b"e:", key].concat();
                let what = purges::to_bytes(&Purge::Key(key.clone()));
                [b"EVAL", FORGET, b"2", &name, &stream, longest, &what].map(<[u8]>::to_vec).into()
            }
            Errand::Purge(what) => {
                let what = purges::to_bytes(what);
                [b"XADD", &stream[..], b"MAXLEN", b"~", longest, b"*", b"what", &what]
                    .map(<[u8]>::to_vec)
                    .into()
            }
        }
    }

    /// Adds to the stream what this node has to tell and reads it, for ever, and has `forget` do
    /// what others say.
    pub async fn follow(self: Arc<Tier>, forget: impl Fn(&Purge)) {
        let mut tick = tokio::time::interval(READ_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            self.run_errands().await;
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
                // All of it, from the newest on.
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
            let Some(reply) = self.ask(&self.follower, vec![command], Together::Single).await
            else {
                self.log().lose();
                continue;
            };
            let news = match position {
                Some(_) => purges::of_streams(reply),
                None => purges::of_range(reply),
            };
            let due = match position {
                Some(_) => self.log().append(news, LONGEST),
                None => self.log().load(news, LONGEST),
            };
            due.iter().for_each(&forget);
        }
    }

    async fn read(&self, index: usize, name: Vec<u8>) -> Option<Kept> {
        self.log().position()?;
        let get = vec![vec![b"GET".to_vec(), name]];
        let reply = self.ask(self.clients.get(index)?, get, Together::Single).await?;
        let Value::BulkString(bytes) = reply else { return None };
        let mut bytes = Bytes::from(bytes);
        if bytes.is_empty() {
            return None;
        }
        match bytes.split_to(1)[0] {
            VARYING => Some(Kept::Vary(HeaderValue::from_maybe_shared(bytes).ok()?)),
            ENTRY if bytes.len() >= Position::SIZE => {
                let position = Position::from_bytes(&bytes.split_to(Position::SIZE))?;
                Some(Kept::Entry(Box::new((position, decode(bytes, moment())?))))
            }
            _ => None,
        }
    }

    /// Asks the server, unless it has just failed.
    async fn ask(
        &self,
        client: &Client,
        commands: Vec<Vec<Vec<u8>>>,
        together: Together,
    ) -> Option<Value> {
        let now = tokamak_cost::now();
        if now < self.rests_until.load(Ordering::Relaxed) {
            return None;
        }
        match client.call(&commands, together).await {
            Ok(value) => {
                if self.is_down.swap(false, Ordering::Relaxed) {
                    log::server("cache: the Redis server answers again");
                }
                Some(value)
            }
            Err(fault) => {
                self.rests_until.store(now + REST, Ordering::Relaxed);
                self.complain(&fault);
                None
            }
        }
    }

    /// Says once that something is wrong.
    fn complain(&self, fault: &CommandError) {
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
    // Poisoned by a panic that has been reported: each change is a single call.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the other nodes are told.
enum Errand {
    /// A request has changed what is under this key.
    Invalidate(Vec<u8>),
    /// Somebody wants this forgotten.
    Purge(Purge),
}

/// What the tier has under a name.
enum Kept {
    Entry(Box<(Position, Entry)>),
    Vary(HeaderValue),
}

fn moment() -> Moment {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment { now: tokamak_cost::now(), wall: wall.as_millis() as u64 }
}
