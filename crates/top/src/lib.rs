//! `tokamak top`: the dashboard of a running server in a terminal.
//!
//! `client` asks the admin listener for the same document as the page, `figures` reads it,
//! `view` makes lines and `table` rows of it, and `screen` shows them until a key, a signal or a
//! closed terminal ends it.

mod client;
mod figures;
mod screen;
mod table;
mod text;
mod view;

use std::io::{self, IsTerminal, Write};
use std::thread::sleep;
use std::time::Duration;

pub use client::Address;
use view::{ANY, Order, View};

/// Time between two documents. With a tenth, the view itself would be seen among the figures of a
/// small machine; ten times more would look as if it hung.
const EVERY: Duration = Duration::from_secs(1);

/// Shows the server until a key ends it; once, as plain text, if `once` is set or standard output
/// is no terminal.
///
/// # Errors
/// Fails if the server does not answer at first, or the terminal cannot be used.
pub fn run(address: &Address, token: Option<&str>, once: bool) -> Result<(), String> {
    let first = client::document(address, token)?;
    if once || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        sleep(EVERY);
        let second = client::document(address, token)?;
        let (early, late) = (Some(&first), &second);
        let view = View { address, early, late, site: None, order: Order::State, room: ANY };
        let lines: String = view.lines(None).iter().map(|line| line.plain() + "\n").collect();
        return match io::stdout().lock().write_all(lines.as_bytes()) {
            // A reader that has seen enough (`| head`).
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(|error| format!("standard output: {error}")),
        };
    }
    screen::watch(address, token, first).map_err(|error| format!("the terminal: {error}"))
}
