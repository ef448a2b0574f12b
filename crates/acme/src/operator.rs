//! The operator's program, which says for which names clients may have certificates ordered.

use std::sync::Arc;
use std::time::Duration;

use tokamak_outbound::http::{Client, Limits, Request};

/// What an answer may take. Handshakes wait for it, so a program that looks into a database has to
/// be quick.
const LIMITS: Limits = Limits { time: Duration::from_secs(5), body: 64 << 10 };

/// The operator's program.
#[derive(Clone)]
pub struct Operator {
    /// Its URL, to which `domain=NAME` is added.
    url: String,
    client: Arc<Client>,
}

impl Operator {
    /// The program with this URL.
    pub fn new(url: String) -> Operator {
        Operator { url, client: Arc::default() }
    }

    /// Whether it allows a certificate for this name, which is one of a host.
    ///
    /// # Errors
    /// Fails with what is wrong if there is no answer.
    pub async fn allows(&self, name: &str) -> Result<bool, String> {
        let url = address(&self.url, name);
        let wrong = |problem: &dyn std::fmt::Display| format!("{}: {problem}", self.url);
        let request = Request::new(b"GET", url.as_bytes(), None).map_err(|error| wrong(&error))?;
        let answer = self.client.send(request, LIMITS).await.map_err(|error| wrong(&error))?;
        match answer.status {
            // It is broken, and says nothing of the name.
            500.. => Err(wrong(&format!("its answer has the status {}", answer.status))),
            status => Ok((200..300).contains(&status)),
        }
    }
}

fn address(url: &str, name: &str) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}domain={name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_added() {
        for (url, expected) in [
            ("http://a/ask", "http://a/ask?domain=b.example"),
            ("http://a/?x=1", "http://a/?x=1&domain=b.example"),
        ] {
            assert_eq!(address(url, "b.example"), expected);
        }
    }
}
