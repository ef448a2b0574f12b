//! `tokamak top`: how a running server is doing, in a terminal.

use clap::Args;
use tokamak_top::Address;

use super::At;
use crate::wiring::control;

/// `tokamak top`.
#[derive(Args, Debug)]
pub struct Top {
    /// Which server is meant.
    #[command(flatten)]
    at: At,
    /// Its admin listener, 127.0.0.1:9080 or unix:PATH; without it, what the server's
    /// configuration says.
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<Address>,
    /// Print the figures of one second as plain text, as without a terminal.
    #[arg(long)]
    once: bool,
}

impl Top {
    /// Shows it.
    ///
    /// # Errors
    /// Fails if there is no server or no admin listener.
    pub fn run(self) -> Result<(), String> {
        let address = match self.admin {
            Some(address) => address,
            None => control::admin_of(self.at.target())?.parse()?,
        };
        let token = std::env::var("TOKAMAK_ADMIN_TOKEN").ok().filter(|token| !token.is_empty());
        tokamak_top::run(&address, token.as_deref(), self.once)
    }
}
