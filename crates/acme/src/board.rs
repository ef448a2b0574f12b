//! The challenges that authorities are to find now: those of this node's order, and those of other
//! nodes, to which a balancer may send an authority as well.

use tokamak_tls::Challenge;
use tokio::sync::Mutex;

use crate::error::Error;
use crate::line::SupervisorLink;
use crate::shared::Shared;

/// The challenges of the moment.
pub struct Board<'a> {
    line: SupervisorLink,
    /// Other nodes, to which a balancer may send an authority.
    shared: Option<&'a Shared>,
    /// Locked while they are sent to the fronts, so that two changes do not overtake each other.
    shown: Mutex<Challenges>,
}

#[derive(Default)]
struct Challenges {
    own: Vec<Challenge>,
    others: Vec<Challenge>,
}

impl Board<'_> {
    /// No challenges yet. `line` sends them to the fronts.
    pub fn new(line: SupervisorLink, shared: Option<&Shared>) -> Board<'_> {
        Board { line, shared, shown: Mutex::default() }
    }

    /// Shows these challenges of this node, and no others of it. Returns when all fronts of all
    /// nodes have them, or those of a node take too long.
    ///
    /// # Errors
    /// As [`SupervisorLink::present`]; or if the other nodes cannot be reached.
    pub async fn show(&self, own: Vec<Challenge>) -> Result<(), Error> {
        {
            let mut shown = self.shown.lock().await;
            shown.own.clone_from(&own);
            self.send(&shown).await?;
        }
        let Some(shared) = self.shared else { return Ok(()) };
        let missing = shared.show(&own).await?;
        if !missing.is_empty() {
            let count = missing.len();
            let text = format!("{count} of the other nodes do not show the challenge yet");
            self.line.note(true, text).await;
        }
        Ok(())
    }

    /// The same for those of other nodes.
    ///
    /// # Errors
    /// As [`SupervisorLink::present`].
    pub async fn show_others(&self, others: Vec<Challenge>) -> Result<(), Error> {
        let mut shown = self.shown.lock().await;
        if shown.others == others {
            return Ok(());
        }
        shown.others = others;
        self.send(&shown).await
    }

    async fn send(&self, shown: &Challenges) -> Result<(), Error> {
        self.line.present([&shown.own[..], &shown.others].concat()).await
    }
}
