//! The page for a request that breaks a rule.

use std::sync::Arc;

use tokamak_cost::Ledger;

use crate::client::Client;
use crate::http::h1::screen::Violation;
use crate::log;
use crate::request::pipeline::Serving;
use crate::response::{Reply, RequestGuard, pages};

/// The page for a request that breaks a rule. It is not written into the access log, as one of
/// HTTP/1 is not.
pub fn refuse(client: Arc<dyn Client>, violation: Violation, now: u64) -> Serving {
    let failure = violation.failure();
    log::refused(&client.addresses().peer, failure.status().as_u16(), violation.reason());
    let guard = RequestGuard::new(Some(client), Ledger::unread(now));
    Serving::Now(Some(Reply::respond(pages::failed(failure), guard)))
}
