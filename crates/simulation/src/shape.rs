//! What is simulated: how large, with which limits.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use tokamak_config::{Mode, PoolSize, Request, Server};

use crate::random::Random;

/// A configuration of two sites, as it is without a file; read once.
fn plain() -> &'static Server {
    static PLAIN: OnceLock<Server> = OnceLock::new();
    PLAIN.get_or_init(|| {
        let request = Request {
            path: None,
            config: None,
            flags: Vec::new(),
            environment: Vec::new(),
            directory: PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/site")),
        };
        request.load_for(2).expect("a server without a file")
    })
}

/// The configuration of a seed.
pub fn server(random: &mut Random) -> Server {
    let mut server = plain().clone();
    server.loops = random.between(1, 2) as usize;
    server.timeouts.drain = Duration::from_secs(2);
    server.timeouts.watchdog = Duration::from_secs(2);
    server.lua.time = Duration::from_millis(100);
    let sites = random.between(1, 2);
    let first = server.sites[0].clone();
    server.sites = (0..sites)
        .map(|number| {
            let mut site = first.clone();
            site.name = format!("site{number}");
            site.mode = random.pick(&[Mode::Classic, Mode::Sealed, Mode::Async]);
            if site.mode == Mode::Async {
                site.concurrency = random.between(1, 5) as usize;
            }
            let most = random.between(1, 4) as usize;
            site.pool.size = match random.below(3) {
                0 => PoolSize::Static { workers: most },
                1 => {
                    PoolSize::Dynamic { start: 1, min_spare: 1, max_spare: most.min(2), max: most }
                }
                _ => PoolSize::Ondemand { max: most, idle: Duration::from_secs(1) },
            };
            site.pool.queue = random.between(2, 12) as usize;
            site.pool.queue_timeout = Duration::from_millis(1500);
            site.pool.request_timeout = Duration::from_secs(1);
            site.pool.slow = Duration::ZERO;
            site.pool.max_memory = 0;
            site.pool.max_requests = random.pick(&[0, 0, 5, 20]);
            site
        })
        .collect();
    set_version(&mut server, 1);
    server
}

/// Marks the configuration, so that each response shows of which one it is.
pub fn set_version(server: &mut Server, version: u64) {
    for site in &mut server.sites {
        site.root = PathBuf::from(format!("/srv/{version}"));
    }
}
