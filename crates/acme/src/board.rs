//! The challenges that authorities are to find now: those of this node's order, and those of other
//! nodes, to which a balancer may send an authority as well.

use tokamak_tls::Challenge;
use tokio::sync::Mutex;

use crate::error::Error;
use crate::line::Line;
use crate::shared::Shared;

/// The challenges of the moment.
pub struct Board<'a> {
    line: Line,
    /// Other nodes, to which a balancer may send an authority.
    shared: Option<&'a Shared>,
    /// Locked while the fronts are told, so that they are told in turn.
    shown: Mutex<Shown>,
}

#[derive(Default)]
struct Shown {
    own: Vec<Challenge>,
    others: Vec<Challenge>,
}

impl Board<'_> {
    /// None so far. The fronts are told over this line.
    pub fn new(line: Line, shared: Option<&Shared>) -> Board<'_> {
        Board { line, shared, shown: Mutex::default() }
    }

    /// Shows these challenges of this node, and no others of it. Returns when all fronts of all
    /// nodes have them, or those of a node take too long.
    ///
    /// # Errors
    /// As [`Line::present`]; or if the other nodes cannot be told.
    pub async fn show(&self, own: Vec<Challenge>) -> Result<(), Error> {
        {
            let mut shown = self.shown.lock().await;
            shown.own.clone_from(&own);
            self.tell(&shown).await?;
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
    /// As [`Line::present`].
    pub async fn show_others(&self, others: Vec<Challenge>) -> Result<(), Error> {
        let mut shown = self.shown.lock().await;
        if shown.others == others {
            return Ok(());
        }
        shown.others = others;
        self.tell(&shown).await
    }

    async fn tell(&self, shown: &Shown) -> Result<(), Error> {
        self.line.present([&shown.own[..], &shown.others].concat()).await
    }
}
