//! Receives messages of a web server until a request is complete, and passes it on.

use std::sync::Arc;

use tokamak_fastcgi::{Message, ProtocolStatus, Role, Values, ValuesQuery, encode};
use tokamak_lua::LuaState;
use tokamak_upstream::shm::{Metadata, Refused};

use super::super::answer::{self, Answer};
use super::super::gather::{GatherError, Gathering};
use super::super::script::{self, Script};
use super::{Conversation, Disconnected, Request, Stage};
use crate::failure::Failure;
use crate::fpm::Overview;
use crate::site::Handler;

/// Most requests at once on a connection. With a tenth of this, web servers that multiplex would
/// often be refused (503); ten times more would let one connection hold ten times as many
/// requests that have not come whole.
const MOST_REQUESTS: usize = 256;

impl Conversation {
    /// Handles one message. Fails if the connection must be closed.
    pub(super) fn receive(&mut self, message: Message<'_>) -> Result<(), Disconnected> {
        let (id, result) = match message {
            Message::Begin { id, role, keep } => {
                self.begin(id, role, keep);
                return Ok(());
            }
            Message::Abort { id } => {
                if let Some(at) = self.find(id) {
                    // Dropping the request removes it from the queue, or tells its worker that the
                    // response is not needed any more.
                    self.requests.swap_remove(at);
                    answer::end(&mut self.out, id);
                    self.ended();
                }
                return Ok(());
            }
            Message::GetValues(wanted) => {
                let values = self.values(wanted);
                encode::values(&mut self.out, values);
                return Ok(());
            }
            Message::Foreign(kind) => {
                encode::unknown_type(&mut self.out, kind);
                return Ok(());
            }
            Message::End { .. } | Message::Values(_) | Message::UnknownType(_) => {
                return Err(self.garbled("a record that only an application sends"));
            }
            Message::Stream { id, stream, bytes } => {
                (id, self.coming(id).map_or(Ok(()), |request| request.bytes(stream, bytes)))
            }
            Message::StreamEnd { id, stream } => {
                (id, self.coming(id).map_or(Ok(()), |request| request.end(stream)))
            }
        };
        match result {
            Ok(()) => self.submit(id),
            Err(GatherError::Records(reason)) => return Err(self.garbled(reason)),
            Err(GatherError::Codec(error)) => return Err(self.garbled(&error.to_string())),
            Err(GatherError::Request(failure, reason)) => self.refuse(id, failure, reason),
        }
        Ok(())
    }

    /// Begins a request with an id that is free.
    pub(super) fn begin(&mut self, id: u16, role: Role, keep: bool) {
        self.closing |= !keep;
        self.incoming += 1;
        if let Role::Unknown(_) = role {
            encode::end(&mut self.out, id, 0, ProtocolStatus::UnknownRole);
        } else if self.requests.len() >= MOST_REQUESTS {
            answer::fail(&mut self.out, id, Failure::QueueFull);
        } else {
            let limits = &self.context.config.limits;
            let gathering = Box::new(Gathering::new(role, limits));
            self.requests.push(Request {
                id,
                begun: tokamak_cost::now(),
                stage: Stage::Coming(gathering),
            });
        }
    }

    /// Called when another request with the id of an active one begins: the active one must have
    /// come whole.
    pub(super) fn follow(&mut self, id: u16) -> Result<(), Disconnected> {
        let Some(at) = self.find(id) else { return Ok(()) };
        if let Stage::Coming(gathering) = &self.requests[at].stage {
            if !gathering.is_sufficient(true) {
                return Err(self.garbled("a request that begins twice"));
            }
            self.pass_on(at);
        }
        Ok(())
    }

    pub(super) fn find(&self, id: u16) -> Option<usize> {
        self.requests.iter().position(|request| request.id == id)
    }

    /// The request with this id, if it is still coming. Records of inactive requests are ignored
    /// (§3.3).
    fn coming(&mut self, id: u16) -> Option<&mut Gathering> {
        let at = self.find(id)?;
        match &mut self.requests[at].stage {
            Stage::Coming(gathering) => Some(gathering),
            Stage::Answered(..) | Stage::Scripted(_) => None,
        }
    }

    fn values(&self, query: ValuesQuery) -> Values {
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let pool = &self.site().config.pool;
        Values {
            max_conns: query.max_conns.then(|| number(self.context.config.limits.connections)),
            max_reqs: query.max_reqs.then(|| number(pool.queue.saturating_add(pool.size.max()))),
            mpxs_conns: query.mpxs_conns.then_some(true),
        }
    }

    /// Passes on the requests of which nothing more is needed, though their streams have not ended
    /// with the bytes that have come. `ended`: nothing comes any more.
    pub(super) fn submit_sufficient(&mut self, ended: bool) {
        let is_sufficient = |request: &Request| match &request.stage {
            Stage::Coming(gathering) => gathering.is_sufficient(ended),
            Stage::Answered(..) | Stage::Scripted(_) => false,
        };
        while let Some(at) = self.requests.iter().position(is_sufficient) {
            self.pass_on(at);
        }
    }

    /// Passes a request on if it is complete.
    fn submit(&mut self, id: u16) {
        let Some(at) = self.find(id) else { return };
        let Stage::Coming(gathering) = &self.requests[at].stage else { return };
        if gathering.is_complete() {
            if !gathering.may_go_on() {
                self.incoming -= 1;
            }
            self.pass_on(at);
        }
    }

    /// Passes a request to the workers.
    fn pass_on(&mut self, at: usize) {
        let context = self.context.clone();
        let id = self.requests[at].id;
        let Stage::Coming(gathering) = &mut self.requests[at].stage else { return };
        let overview = context.sites[self.site_index].overview.as_ref();
        if let Some(overview) = overview {
            overview.accept();
            if let Some(page) = overview.page(&gathering.record) {
                return self.show(at, overview, &page);
            }
        }
        if self.is_for_status {
            return self.refuse(id, Failure::NotFound, "this socket serves only the status page");
        }
        let gate = match &context.sites[self.site_index].handler {
            Handler::Workers(gate) => gate,
            Handler::Scripts(lua) => return self.launch(at, lua),
            Handler::Upstream(_) | Handler::None => {
                return self.refuse(id, Failure::Internal, "the pool has no workers");
            }
        };
        let length = gathering.body_len();
        let body = gathering.take_body();
        match gate.submit(gathering.record.bytes(), body, Metadata::default()) {
            Ok(exchange) => {
                let record = std::mem::take(&mut gathering.record);
                let running = overview.map(Overview::run);
                self.requests[at].stage =
                    Stage::Answered(Box::new(Answer::new(exchange, running)), record, length);
            }
            Err((Refused::TooLarge, _)) => {
                self.refuse(id, Failure::HeadTooLarge, "the parameters do not fit the queue");
            }
            Err((Refused::Barren, _)) => {
                self.refuse(id, Failure::NoWorkers, "no worker is left, and none boots");
            }
            // Not `FCGI_OVERLOADED`: Apache makes an empty 200 of it, and others wait for output.
            Err((Refused::Full, _)) => {
                self.refuse(id, Failure::QueueFull, Failure::QueueFull.text());
            }
        }
    }

    /// Passes a complete request to its script.
    fn launch(&mut self, at: usize, lua: &Arc<LuaState>) {
        let Request { id, stage, .. } = &mut self.requests[at];
        let Stage::Coming(gathering) = stage else { return };
        let (record, body) = (std::mem::take(&mut gathering.record), gathering.take_body());
        match Script::new(lua, &self.context, self.site_index, record, body) {
            Ok(script) => *stage = Stage::Scripted(Box::new(script)),
            Err((record, absent)) => {
                gathering.record = record;
                let id = *id;
                let (failure, reason) = script::failure(absent);
                self.refuse(id, failure, reason);
            }
        }
    }
}
