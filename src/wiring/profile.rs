//! Has a running server take a profile: one command for each site, all at once.

use std::path::Path;
use std::thread;
use std::time::Duration;

use tokamak_profile::{Profile, Taken, gather, read};
use tokamak_supervisor::client::{self, Target};

/// For finding the workers at the beginning, and writing the profile at the end.
const BESIDES: Duration = Duration::from_secs(30);

/// What is to be sampled.
pub struct ProfileOrder {
    /// Which site; all if absent.
    pub site: Option<String>,
    /// Samples a second.
    pub rate: u16,
    /// For how long.
    pub length: Duration,
    /// Only of requests whose path begins so.
    pub prefix: String,
}

/// Waits until the profile is taken.
///
/// # Errors
/// Fails if the server gives none, or none of the sites.
pub fn profile(target: Target, order: &ProfileOrder) -> Result<Taken, String> {
    let socket = target.socket()?;
    let sites = match &order.site {
        Some(site) => vec![site.clone()],
        None => client::sites(&socket)?,
    };
    let parts = thread::scope(|scope| {
        let threads: Vec<_> =
            sites.iter().map(|site| scope.spawn(|| of_site(&socket, site, order))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|part| part.unwrap_or_else(|_| Err("a thread failed".into())))
            .collect::<Vec<_>>()
    });
    gather(sites.into_iter().zip(parts))
}

fn of_site(socket: &Path, site: &str, order: &ProfileOrder) -> Result<Profile, String> {
    let ProfileOrder { rate, length, prefix, .. } = order;
    let command = format!("profile\t{site}\t{rate}\t{}\t{prefix}", length.as_millis());
    let text = client::ask(socket, &command, *length + BESIDES)?;
    read(site, &text)
}
