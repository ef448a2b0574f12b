//! A request that looks for an address that answers it.

use std::sync::Arc;

use tokamak_fastcgi::ProtocolStatus;

use super::balance::Key;
use super::balance::health::Severity;
use super::error::UpstreamError;
use super::event::Event;
use super::exchange::Exchange;
use super::exclusive::ExclusiveStream;
use super::member::{Admission, Member};
use super::mux_connection::STRANGE_REQUEST;
use super::pool::Permit;
use super::request::Call;
use super::settings::Settings;
use super::upstream::Upstream;

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

impl Upstream {
    /// A request that is to be answered by one of the addresses. `loop_index` is that of the
    /// caller's event loop. Requests with the same `key` go to the same address as long as it is in
    /// service.
    pub fn attempts(&self, loop_index: usize, call: Arc<Call>, key: Option<Key>) -> Attempts<'_> {
        Attempts::new(self, loop_index, call, key)
    }

    /// Asks one address. A kept connection may be closed by the application at any time. So a
    /// request that may not be repeated gets a new one. Another one is asked again on a new
    /// connection if that happens. `avoid_kept`: it gets a new one from the beginning.
    pub(super) async fn ask_member(
        &self,
        member: &Member,
        loop_index: usize,
        call: &Arc<Call>,
        mut avoid_kept: bool,
    ) -> Result<ResponseStart, UpstreamError> {
        let (pool, bounds) = (&member.pool, self.settings.bounds);
        let is_at_risk = !call.is_repeatable && !bounds.reuse_for_all;
        let mut was_refused = false;
        loop {
            let tell = |news: &str| self.log(&format!("{} {news}", member.name));
            member.learn(tell).await.map_err(UpstreamError::Unreachable)?;
            let permit = pool.permit(loop_index, call.flow).await?;
            // It may have been found while the request waited.
            let is_shared = member.mux_connections.is_shared();
            if pool.has_news() {
                self.log(&format!(
                    "{} closes each connection after its response, though it is asked to keep it: \
                     each request gets a new one from now on",
                    member.name
                ));
            }
            let permitted = tokamak_cost::now();
            let wants_new = is_at_risk || avoid_kept;
            let (mut exchange, is_reused) = if let Some(limits) = bounds.http2 {
                let begun = member.http2.begin(limits, permit, call, wants_new).await;
                let (stream, is_reused) = begun.map_err(UpstreamError::Unreachable)?;
                (Exchange::http2(stream), is_reused && !avoid_kept)
            } else {
                self.connect(member, permit, call, is_shared, wants_new, avoid_kept).await?
            };
            let connected = tokamak_cost::now();
            match exchange.next().await {
                Ok(event) => return Ok(ResponseStart { exchange, event, permitted, connected }),
                Err(UpstreamError::Closed { answered: false })
                    if is_reused
                        && (call.is_repeatable || !exchange.has_written())
                        && call.can_begin_again() =>
                {
                    avoid_kept = true;
                }
                // It was on its way when the application said that it takes no more on this
                // connection. The next one may have room.
                Err(UpstreamError::NotTaken) if !was_refused && call.can_begin_again() => {
                    was_refused = true;
                }
                Err(fault) => {
                    if exchange.is_shared() && is_of_sharing(&fault) && member.stop_sharing() {
                        self.log(&format!(
                            "{} cannot have several requests on a connection, though it says so: \
                             each has one from now on: {fault}",
                            member.name
                        ));
                    }
                    // It has not been served (§5.5).
                    let is_unserved =
                        matches!(fault, UpstreamError::Refused(ProtocolStatus::CannotMultiplex));
                    if !(exchange.is_shared() && is_unserved && !member.mux_connections.is_shared())
                    {
                        return Err(fault);
                    }
                }
            }
        }
    }

    /// A connection for a request, which begins on it, in FastCGI or HTTP/1.1. `true`: it had one
    /// before.
    async fn connect(
        &self,
        member: &Member,
        permit: Permit,
        call: &Arc<Call>,
        is_shared: bool,
        wants_new: bool,
        avoid_kept: bool,
    ) -> Result<(Exchange, bool), UpstreamError> {
        let (pool, mux) = (&member.pool, &member.mux_connections);
        // Where connections are shared, a new one is for this request alone.
        let place = if is_shared && wants_new { mux.place() } else { None };
        if is_shared && place.is_none() {
            let begun = mux.begin(permit, call, wants_new).await;
            let (stream, is_reused) = begun.map_err(UpstreamError::Unreachable)?;
            // The lost one is not used again; once more is enough, though, whatever becomes of the
            // next.
            return Ok((Exchange::shared(stream), is_reused && !avoid_kept));
        }
        let reused = if wants_new { Err(permit) } else { pool.reuse(permit, !call.is_repeatable) };
        let lease = match reused {
            Ok(lease) => lease,
            Err(permit) => {
                pool.connect(permit).await.map_err(UpstreamError::Unreachable)?.apart(place)
            }
        };
        let is_reused = lease.is_reused();
        let stream = ExclusiveStream::new(lease, call.clone(), self.settings.bounds);
        Ok((Exchange::exclusive(stream), is_reused))
    }

    /// What a fault says about an address.
    pub(super) fn note_failure(&self, member: &Member, fault: &UpstreamError) {
        let severity = match fault {
            UpstreamError::Unreachable(_) => Severity::Unreachable,
            UpstreamError::Closed { .. }
            | UpstreamError::SendSlow
            | UpstreamError::Silent
            | UpstreamError::Stalled
            | UpstreamError::Malformed(_)
            | UpstreamError::NotHttp(_)
            | UpstreamError::NotHttp2(_)
            | UpstreamError::Unexpected(_) => Severity::Unanswered,
            // It is busy, or it is not its fault.
            UpstreamError::Full
            | UpstreamError::Waited
            | UpstreamError::Withdrawn
            | UpstreamError::NoAddress
            | UpstreamError::Refused(_)
            | UpstreamError::NotTaken
            | UpstreamError::Cancelled(_)
            | UpstreamError::Spool
            | UpstreamError::Cut
            | UpstreamError::Impatient => return,
        };
        let pause = member.failed(severity);
        if let Some(pause) = pause.filter(|_| self.members().all().len() > 1) {
            self.log(&format!(
                "{} is left out for {} s: {fault}",
                member.name,
                pause.as_secs_f32()
            ));
        }
    }
}

/// A request, and what it has tried already.
#[derive(Debug)]
pub struct Attempts<'a> {
    upstream: &'a Upstream,
    loop_index: usize,
    call: Arc<Call>,
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
    fn new(
        upstream: &'a Upstream,
        loop_index: usize,
        call: Arc<Call>,
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
                        self.upstream.log(&format!("{} answers again", member.name));
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
            // What the client has sent of the body is gone.
            fault if !self.call.can_begin_again() => return Err(fault),
            UpstreamError::Closed { .. } if self.call.is_repeatable => self.lost += 1,
            // It has not been served (§5.5), so another address may be asked.
            UpstreamError::Refused(
                ProtocolStatus::Overloaded | ProtocolStatus::CannotMultiplex,
            )
            | UpstreamError::NotTaken
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

/// Whether a fault of a request that shared its connection may come from that.
fn is_of_sharing(fault: &UpstreamError) -> bool {
    matches!(
        fault,
        UpstreamError::Malformed(_)
            | UpstreamError::Unexpected(STRANGE_REQUEST)
            | UpstreamError::Refused(ProtocolStatus::CannotMultiplex)
    )
}
