//! Addresses that follow a name: resolved in the background, never while a request waits, again and
//! again. What was found last stays until something else is found: a name server that fails, or has
//! nothing to say, takes no address out of service.

use std::time::Duration;

use tokio::time::sleep;

use super::names::{Name, Names, Resolved};
use super::upstream::Upstream;

/// How soon a name that could not be resolved is tried again. A tenth would flood a name server
/// that is down; ten times more would leave the site without addresses for 20 s after it is back.
const AGAIN: Duration = Duration::from_secs(2);

impl Upstream {
    /// Resolves the name at this index of the sources, once.
    ///
    /// # Errors
    /// Fails with the reason if it cannot be resolved.
    pub async fn resolve(&self, source: usize, names: &Names) -> Result<(), String> {
        let Some(name) = self.source(source) else { return Ok(()) };
        let resolved = names.resolve(name).await;
        let Resolved { addresses, .. } =
            resolved.map_err(|why| format!("{} cannot be resolved: {why}", name.name))?;
        self.set_source(source, addresses);
        Ok(())
    }

    /// Follows the name at this index of the sources, as long as the result is polled. It is
    /// resolved when an answer has had its time, or at this interval.
    pub async fn follow(&self, source: usize, names: &Names, interval: Option<Duration>) {
        let Some(name) = self.source(source) else { return };
        let mut is_failing = false;
        loop {
            let pause = match names.resolve(name).await {
                Ok(Resolved { addresses, lasts }) => {
                    if is_failing {
                        self.log(&format!("{} is resolved again", name.name));
                    }
                    is_failing = false;
                    self.set_source(source, addresses);
                    interval.unwrap_or(lasts)
                }
                Err(why) => {
                    if !is_failing {
                        self.log(&format!(
                            "{} cannot be resolved, its addresses stay as they are: {why}",
                            name.name
                        ));
                    }
                    is_failing = true;
                    interval.map_or(AGAIN, |interval| interval.min(AGAIN))
                }
            };
            sleep(pause).await;
        }
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Name::Host(host, port) => write!(f, "{host}:{port}"),
            Name::Service(service) => write!(f, "srv:{service}"),
        }
    }
}
