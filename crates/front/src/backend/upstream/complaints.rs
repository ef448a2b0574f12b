//! Writes what an application sends on FCGI_STDERR into the error log, line by line, with the URL
//! of the request.

use std::sync::Arc;

use http::Request;
use tokamak_config::Site;

use crate::log::LogContext;

/// Most bytes that one request may write into the error log. Ten times more, and a script that
/// warns in a loop fills the disk ten times as fast; ten times less could cut off one long stack
/// trace.
const MOST: usize = 64 * 1024;

/// Most bytes of one line; a longer line is written in parts. A request holds an unfinished line in
/// memory, so ten times more would cost that much for each; ten times less would split stack
/// traces.
const LINE: usize = 8 * 1024;

/// The standard error of one request.
#[derive(Debug)]
pub struct Complaints {
    /// The request.
    pub context: LogContext,
    line: Vec<u8>,
    logged: usize,
}

impl Complaints {
    /// Begins with no output.
    pub fn new<B>(site: &Arc<Site>, request: &Request<B>) -> Complaints {
        Complaints { context: LogContext::new(site, request), line: Vec::new(), logged: 0 }
    }

    /// Receives the next bytes.
    pub fn receive(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if self.line.len() >= LINE || piece.ends_with(b"\n") {
                self.log_line();
            }
        }
    }

    fn log_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let text = line.trim_ascii();
        if text.is_empty() || self.logged > MOST {
            return;
        }
        self.logged += text.len();
        self.context.complained(text);
        if self.logged > MOST {
            self.context.complained(b"(more is left out)");
        }
    }
}

/// Writes the last line, which may lack its line feed.
impl Drop for Complaints {
    fn drop(&mut self) {
        self.log_line();
    }
}
