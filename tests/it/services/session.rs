//! A client of a database that stays connected, and so keeps what it has locked.

use std::io::Write;
use std::process::{Child, Command, Stdio};

/// A database's own client program. Dropping it closes its connection.
pub struct Session {
    child: Child,
}

impl Session {
    /// Starts the client and hands it a statement. Whether that has happened is for the database to
    /// say.
    pub(super) fn start(client: &mut Command, sql: &str) -> Session {
        let child = client.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let mut session = Session { child: child.expect("the client program runs") };
        let input = session.child.stdin.as_mut().expect("it is a pipe");
        writeln!(input, "{sql};").expect("the client reads");
        session
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // At the end of its input the client ends.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
