//! The content cache: what it may take, and which responses it keeps.

use std::path::PathBuf;
use std::time::Duration;

use super::{Endpoint, Secret};

/// What responses may take that are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    /// Bytes of all of them.
    pub memory: usize,
    /// Bytes of one.
    pub largest: usize,
    /// How long a request waits for the response that another one has asked for.
    pub wait: Duration,
    /// What several nodes share, if they do.
    pub tier: Option<Tier>,
}

/// A Redis server by which several nodes share something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tier {
    /// Where it is; never a service's name.
    pub server: Endpoint,
    /// Its password, if it asks for one.
    pub password: Option<Secret>,
    /// The database.
    pub database: u32,
    /// What the names of everything begin with that is stored there.
    pub prefix: String,
    /// How long is waited for it.
    pub timeout: Duration,
}

impl Tier {
    /// Its host and port, or its Unix socket.
    pub fn address(&self) -> Option<Result<(String, u16), PathBuf>> {
        match &self.server {
            Endpoint::Unix(path) => Some(Err(path.clone())),
            Endpoint::Tcp(address) | Endpoint::Srv(address) => {
                let (host, port) = address.rsplit_once(':')?;
                Some(Ok((host.to_owned(), port.parse().ok()?)))
            }
        }
    }
}

/// Which responses of a site, or of a part of it, are kept and how long.
#[derive(Clone, Debug, PartialEq)]
pub struct Caching {
    /// Whether any are.
    pub is_on: bool,
    /// How long one is fresh that says nothing of it; zero: it is not kept.
    pub lifetime: Duration,
    /// How long a stale response that does not say may be used while it is fetched anew.
    pub while_revalidate: Duration,
    /// How long a stale response that does not say may be used if it cannot be fetched.
    pub if_error: Duration,
    /// What does not count.
    pub ignore: Vec<Ignored>,
    /// Names of query parameters that make no difference; with `*` at its end one stands for all
    /// that begin so.
    pub ignore_query: Vec<String>,
}

/// Fields of requests and responses that a cache may be set to ignore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// Cookies of requests.
    Cookie,
    /// Cookies that responses set: they are left out.
    SetCookie,
    /// What requests say of the cache.
    Request,
    /// What responses say of their lifetime.
    Response,
}
