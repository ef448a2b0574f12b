//! What an application complains about (FCGI_STDERR), as lines of the error log with the URL of the
//! request.

use std::sync::Arc;

use http::Request;
use tokamak_config::Site;

use crate::log::LogContext;

/// Most bytes of complaints about one request that are told. Chosen arbitrarily; above what PHP
/// says in a bad hour.
const MOST: usize = 64 * 1024;

/// Most bytes of one line; a longer one is told in parts. Chosen arbitrarily.
const LINE: usize = 8 * 1024;

/// The complaints about one request.
#[derive(Debug)]
pub struct Complaints {
    /// The request.
    pub context: LogContext,
    line: Vec<u8>,
    told: usize,
}

impl Complaints {
    /// None yet.
    pub fn new<B>(site: &Arc<Site>, request: &Request<B>) -> Complaints {
        Complaints { context: LogContext::new(site, request), line: Vec::new(), told: 0 }
    }

    /// The next bytes.
    pub fn hear(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if self.line.len() >= LINE || piece.ends_with(b"\n") {
                self.tell();
            }
        }
    }

    fn tell(&mut self) {
        let line = std::mem::take(&mut self.line);
        let text = line.trim_ascii();
        if text.is_empty() || self.told > MOST {
            return;
        }
        self.told += text.len();
        self.context.complained(text);
        if self.told > MOST {
            self.context.complained(b"(more is left out)");
        }
    }
}

/// The last line may have no end.
impl Drop for Complaints {
    fn drop(&mut self) {
        self.tell();
    }
}
