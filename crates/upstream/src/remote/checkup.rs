//! Asking an address whether it is well, beside the requests of clients.

use std::sync::Arc;

use super::attempts::ResponseStart;
use super::error::UpstreamError;
use super::member::Member;
use super::request::Call;
use super::upstream::Upstream;

/// One address that is to be checked.
#[derive(Debug)]
pub struct Checkup(Arc<Member>);

impl Upstream {
    /// The addresses that are in service, to be checked.
    pub fn checkups(&self) -> Vec<Checkup> {
        let members = self.members();
        let members = members.all().iter().filter(|member| !member.is_leaving());
        members.map(|member| Checkup(member.clone())).collect()
    }

    /// Asks an address. Nothing comes of it when all its connections are in use: that is no
    /// illness, and requests will show if it is one.
    pub async fn check(
        &self,
        checkup: &Checkup,
        loop_index: usize,
        call: &Arc<Call>,
    ) -> Option<Result<ResponseStart, UpstreamError>> {
        if !checkup.0.pool.has_room() {
            return None;
        }
        Some(self.ask_member(&checkup.0, loop_index, call, false).await)
    }

    /// What has come of it; a bad outcome has a reason.
    pub fn conclude(&self, checkup: &Checkup, outcome: Result<(), String>) {
        let Checkup(member) = checkup;
        match (member.checked(outcome.is_ok()), outcome) {
            (Some(true), _) => self.log(&format!("{} is well again", member.name)),
            (Some(false), Err(reason)) => {
                self.log(&format!("{} is left out until it is well again: {reason}", member.name));
            }
            _ => {}
        }
    }
}
