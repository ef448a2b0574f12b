//! A request that looks for an address that answers it.

use std::sync::Arc;

use tokamak_fastcgi::ProtocolStatus;

use super::balance::Key;
use super::error::UpstreamError;
use super::exchange::{Event, Exchange};
use super::member::{Admission, Member};
use super::request::FcgiRequest;
use super::upstream::{Settings, Upstream};

/// Most answers that are lost before a request is given up, but for kept connections that were
/// closed without any. Each may have been the end of a process.
const MOST_LOST: usize = 2;

/// The beginning of a response.
#[derive(Debug)]
pub struct ResponseStart {
    /// The rest of it.
    pub exchange: Exchange,
    /// The first that the application said.
    pub event: Event,
    /// When there was a connection to use or the right to open one, in nanoseconds.
    pub permitted: u64,
    /// When there was a connection.
    pub connected: u64,
}

/// A request, and what it has tried already.
#[derive(Debug)]
pub struct Attempts<'a> {
    upstream: &'a Upstream,
    loop_index: usize,
    call: Arc<FcgiRequest>,
    key: Option<Key>,
    /// Whose answer was the last.
    answering: Option<Arc<Member>>,
    tried: Vec<Arc<Member>>,
    /// Answers that were lost, on new connections or after their beginning.
    lost: usize,
    /// Why there is no answer yet.
    fault: Option<UpstreamError>,
}

impl<'a> Attempts<'a> {
    pub(super) fn new(
        upstream: &'a Upstream,
        loop_index: usize,
        call: Arc<FcgiRequest>,
        key: Option<Key>,
    ) -> Attempts<'a> {
        Attempts {
            upstream,
            loop_index,
            call,
            key,
            answering: None,
            tried: Vec::new(),
            lost: 0,
            fault: None,
        }
    }

    /// Asks, on a kept connection if there is one, until something comes back.
    ///
    /// An address that cannot be reached, whose queue is full, or which refuses, is passed over for
    /// the next one, since it cannot have acted on the request. A connection may also be closed by
    /// the application at any time: see `ask_member` for kept ones. A request that is lost on a new
    /// one is asked once more if it may be, and then perhaps again, at other addresses if there are
    /// any: a process may have been killed.
    ///
    /// # Errors
    /// [`UpstreamError`].
    pub async fn answer(&mut self) -> Result<ResponseStart, UpstreamError> {
        loop {
            let admission = match self.choose() {
                Err(UpstreamError::NoAddress) if self.upstream.wait_for_names().await => continue,
                chosen => chosen?,
            };
            let member = &admission.member;
            match self.upstream.ask_member(member, self.loop_index, &self.call, self.lost > 0).await
            {
                Ok(answer) => {
                    if member.succeeded() {
                        self.upstream.tell(&format!("{} answers again", member.name));
                    }
                    self.answering = Some(member.clone());
                    return Ok(answer);
                }
                Err(fault) => self.pass_over(member.clone(), fault)?,
            }
        }
    }

    /// The last answer broke off before anybody had seen any of it: if the request may be asked
    /// again, there may be another [`answer`](Attempts::answer).
    ///
    /// # Errors
    /// Fails if it may not be asked again.
    pub fn lost(&mut self, fault: UpstreamError) -> Result<(), UpstreamError> {
        match (self.answering.take(), fault) {
            (Some(member), fault @ UpstreamError::Closed { .. }) => self.pass_over(member, fault),
            // Whatever it says, it has heard the request.
            (Some(member), fault) => {
                self.upstream.note_failure(&member, &fault);
                Err(fault)
            }
            (None, fault) => Err(fault),
        }
    }

    /// Books what is wrong with an address; an error if no other may be asked.
    fn pass_over(
        &mut self,
        member: Arc<Member>,
        fault: UpstreamError,
    ) -> Result<(), UpstreamError> {
        self.upstream.note_failure(&member, &fault);
        match fault {
            UpstreamError::Closed { .. } if self.call.is_repeatable => self.lost += 1,
            // It has not been served (§5.5), so another address may be asked.
            UpstreamError::Refused(
                ProtocolStatus::Overloaded | ProtocolStatus::CannotMultiplex,
            )
            | UpstreamError::Unreachable(_)
            | UpstreamError::Full
            | UpstreamError::Withdrawn => {}
            fault => return Err(fault),
        }
        self.tried.push(member);
        self.fault = Some(fault);
        Ok(())
    }

    /// The address to ask next.
    fn choose(&mut self) -> Result<Admission, UpstreamError> {
        let Settings { policy, stays, .. } = self.upstream.settings;
        let members = self.upstream.members();
        let now = tokamak_cost::now();
        let was_lost = matches!(self.fault, Some(UpstreamError::Closed { .. }));
        let may_go_on = !was_lost || self.lost <= members.all().len().min(MOST_LOST);
        let mut chosen = None;
        if may_go_on {
            chosen = members.choose(policy, self.key, stays, &self.tried, now);
            // The address that lost it may have another process, and is the only one left to ask.
            if chosen.is_none() && was_lost {
                self.tried.clear();
                chosen = members.choose(policy, self.key, stays, &[], now);
            }
        }
        chosen.ok_or_else(|| self.fault.take().unwrap_or(UpstreamError::NoAddress))
    }
}
