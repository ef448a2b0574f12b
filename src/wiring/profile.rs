//! Has a running server take a profile: one command for each site, all at once.

use std::path::Path;
use std::thread;
use std::time::Duration;

use tokamak_profile::{Profile, read};
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

/// A profile of the sites that gave one, and why the others did not.
pub struct Taken {
    /// All samples together.
    pub profile: Profile,
    /// A line for each site that gave none.
    pub refusals: Vec<String>,
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
    let mut taken = Taken { profile: Profile::default(), refusals: Vec::new() };
    for (part, site) in parts.into_iter().zip(&sites) {
        match part {
            Ok(part) => taken.profile.join(part),
            Err(why) => taken.refusals.push(format!("no profile of site {site}: {why}")),
        }
    }
    if !sites.is_empty() && taken.refusals.len() == sites.len() {
        return Err(taken.refusals.join("; "));
    }
    Ok(taken)
}

fn of_site(socket: &Path, site: &str, order: &ProfileOrder) -> Result<Profile, String> {
    let ProfileOrder { rate, length, prefix, .. } = order;
    let command = format!("profile\t{site}\t{rate}\t{}\t{prefix}", length.as_millis());
    let text = client::ask(socket, &command, *length + BESIDES)?;
    read(site, &text)
}
