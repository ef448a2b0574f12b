//! What an application complains about (FCGI_STDERR), as lines of the error log with the URL of the request.

use std::sync::Arc;

use http::{Method, Request, Uri};
use tokamak_config::Site;
use tokamak_upstream::fcgi::Fault;

use crate::access;

/// Most bytes of complaints about one request that are told. Chosen arbitrarily; above what PHP says in a bad hour.
const MOST: usize = 64 * 1024;

/// Most bytes of one line; a longer one is told in parts. Chosen arbitrarily.
const LINE: usize = 8 * 1024;

/// Which request the log's lines are about. Nothing in it is copied from the request.
#[derive(Clone, Debug)]
pub struct Story {
    site: Arc<Site>,
    method: Method,
    uri: Uri,
}

impl Story {
    /// The response cannot be completed.
    pub fn breaks_off(&self, fault: &Fault) {
        let failure = super::failure(fault);
        access::broken_off(&self.site.name, failure, &fault.to_string(), self.method.as_str(), self.target());
    }

    fn target(&self) -> &str {
        self.uri.path_and_query().map_or("", |target| target.as_str())
    }
}

/// The complaints about one request.
#[derive(Debug)]
pub struct Complaints {
    /// The request.
    pub story: Story,
    line: Vec<u8>,
    told: usize,
}

impl Complaints {
    /// None yet.
    pub fn new<B>(site: &Arc<Site>, request: &Request<B>) -> Complaints {
        let (site, method, uri) = (site.clone(), request.method().clone(), request.uri().clone());
        Complaints { story: Story { site, method, uri }, line: Vec::new(), told: 0 }
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
        let Story { site, method, .. } = &self.story;
        access::complained(&site.name, text, method.as_str(), self.story.target());
        if self.told > MOST {
            access::complained(&site.name, b"(more is left out)", method.as_str(), self.story.target());
        }
    }
}

/// The last line may have no end.
impl Drop for Complaints {
    fn drop(&mut self) {
        self.tell();
    }
}
