//! Asking an address whether it is well, beside the requests of clients.

use std::sync::Arc;

use super::call::Call;
use super::fault::Fault;
use super::member::Member;
use super::upstream::{Answer, Upstream};

/// One address that is to be checked.
#[derive(Debug)]
pub struct Checkup<'a> {
    upstream: &'a Upstream,
    member: Arc<Member>,
}

impl<'a> Checkup<'a> {
    pub(super) fn new(upstream: &'a Upstream, member: Arc<Member>) -> Checkup<'a> {
        Checkup { upstream, member }
    }

    /// Asks it. Nothing comes of it when all its connections are in use: that is no illness, and requests will show if it is one.
    pub async fn ask(&self, home: usize, call: &Arc<Call>) -> Option<Result<Answer, Fault>> {
        if !self.member.pool.has_room() {
            return None;
        }
        Some(self.upstream.ask_member(&self.member, home, call).await)
    }

    /// What has come of it; a bad outcome has a reason.
    pub fn conclude(&self, outcome: Result<(), &str>) {
        let name = &self.member.name;
        match (self.member.checked(outcome.is_ok()), outcome) {
            (Some(true), _) => self.upstream.tell(&format!("{name} is well again")),
            (Some(false), Err(reason)) => {
                self.upstream.tell(&format!("{name} is left out until a check is good: {reason}"));
            }
            _ => {}
        }
    }
}
