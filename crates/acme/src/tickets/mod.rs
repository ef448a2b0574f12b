//! Keys of session tickets that several nodes share through Redis. Without it a client that
//! a balancer sends to another node would need a whole handshake there.
//!
//! Time is cut into slots, each with a key of its own. Whichever node comes first stores one
//! (`SET NX`), all others read it. So no node is chosen, nothing is locked, and no node waits.

mod slots;

use std::os::unix::net::UnixDatagram;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokamak_config::Tier;
use tokamak_outbound::Names;
use tokamak_outbound::redis::{Batch, Client, Server, Value};
use tokamak_tls::{SharedSecret, TicketKey, TicketNews};

use slots::{KEPT_FOR, KeysBySlot, keys, valid_at};

/// Time between two looks. With a tenth, many nodes would ask Redis all the time; with ten times
/// more, a Redis that has lost its keys would give new nodes other ones for ten minutes.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Wait after the first failure. It doubles up to [`LOOK_EVERY`].
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// Fetches keys and sends them over the line, until the other side is gone. The exit status of the
/// process.
pub fn run(tier: &Tier, secret: Option<&str>, line: &UnixDatagram) -> u8 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (Ok(runtime), Some(address)) = (runtime, tier.address()) else { return 1 };
    let server = Server {
        address,
        user: None,
        password: tier.password.as_ref().map(|password| password.reveal().to_owned()),
        database: tier.database,
        timeout: tier.timeout,
    };
    let store = Store {
        client: Client::new(server, Names::default()),
        prefix: tier.prefix.clone(),
        secret: secret.map(SharedSecret::new),
    };
    runtime.block_on(follow(&store, line));
    0
}

/// Where the keys are.
struct Store {
    client: Client,
    prefix: String,
    /// What they are encrypted with.
    secret: Option<SharedSecret>,
}

impl Store {
    fn name(&self, slot: u64) -> String {
        format!("{}tls-ticket-key:{slot}", self.prefix)
    }

    fn write(&self, slot: u64, key: &TicketKey) -> Vec<u8> {
        match &self.secret {
            Some(secret) => secret.encrypt(&self.name(slot), key.bytes()),
            None => key.bytes().to_vec(),
        }
    }

    fn read(&self, slot: u64, stored: &[u8]) -> Result<TicketKey, String> {
        let name = self.name(slot);
        let key = match &self.secret {
            Some(secret) => secret.decrypt(&name, stored).as_deref().and_then(TicketKey::read),
            None => TicketKey::read(stored),
        };
        key.ok_or_else(|| {
            format!(
                "`{name}` is no key; another program uses the name, or another node has another \
                    `redis_secret`"
            )
        })
    }
}

async fn follow(store: &Store, line: &UnixDatagram) {
    let mut known = KeysBySlot::new();
    let mut wait = FIRST_WAIT;
    loop {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (news, pause) = match look(store, &mut known, now).await {
            Ok(keys) => {
                wait = FIRST_WAIT;
                (TicketNews::Keys(keys), LOOK_EVERY)
            }
            Err(problem) => {
                let pause = wait;
                wait = LOOK_EVERY.min(wait * 2);
                (TicketNews::Trouble(problem), pause)
            }
        };
        if line.send(&news.encode()).is_err() {
            return;
        }
        tokio::time::sleep(pause).await;
    }
}

/// Stores keys for the slots that begin, and reads those of all that count now.
async fn look(
    store: &Store,
    known: &mut KeysBySlot,
    now: Duration,
) -> Result<Vec<TicketKey>, String> {
    let slots = valid_at(now);
    known.retain(|slot, _| slots.all().any(|valid| valid == *slot));
    let name = |slot: u64| store.name(slot).into_bytes();
    let lifetime = KEPT_FOR.as_secs().to_string().into_bytes();
    // A Redis that was emptied gets back what this node knows.
    let set = |slot: u64| {
        let key = known.get(&slot).cloned().unwrap_or_else(TicketKey::random);
        let words = [b"SET".to_vec(), name(slot), store.write(slot, &key)];
        [&words[..], &[b"NX".to_vec(), b"EX".to_vec(), lifetime.clone()]].concat()
    };
    let mut commands: Vec<Vec<Vec<u8>>> = slots.to_store().map(set).collect();
    let read = slots.all().map(name);
    commands.push([b"MGET".to_vec()].into_iter().chain(read).collect());
    let replies = store.client.call(&commands, Batch::Pipeline).await;
    let Value::Array(mut replies) = replies.map_err(|error| error.to_string())? else {
        return Err("its reply is no list".into());
    };
    // A refusal to store, as by a replica, is one of the replies.
    if let Some(Value::ServerError(error)) =
        replies.iter().find(|reply| matches!(reply, Value::ServerError(_)))
    {
        return Err(error.to_string());
    }
    let Some(Value::Array(values)) = replies.pop() else {
        return Err("its reply is no list".into());
    };
    for (slot, value) in slots.all().zip(values) {
        match value {
            Value::BulkString(bytes) => {
                known.insert(slot, store.read(slot, &bytes)?);
            }
            _ => continue,
        }
    }
    Ok(keys(&slots, known))
}
