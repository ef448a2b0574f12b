//! The addresses of an application that are in service now.

use std::sync::Arc;

use super::balance::{self, Balancing, Key, Rotation};
use super::member::{Address, Admission, Member};
use super::stream::Endpoint;

/// All addresses, and whose turn it is.
#[derive(Debug, Default)]
pub(super) struct Members {
    members: Vec<Arc<Member>>,
    rotation: Rotation,
}

impl Members {
    /// Those that are in service or leaving it.
    pub fn all(&self) -> &[Arc<Member>] {
        &self.members
    }

    /// Puts an address into service, again if it is leaving; one that is there gets this weight.
    pub fn add(&mut self, address: Address, new: impl FnOnce(Address) -> Member) {
        match self.position(&address.endpoint) {
            Some(index) if !self.members[index].is_leaving() => {
                self.members[index].set_weight(address.weight)
            }
            Some(index) => self.members[index] = Arc::new(new(address)),
            None => self.members.push(Arc::new(new(address))),
        }
        self.rotation = Rotation::new(self.members.len());
    }

    /// Lets an address leave: it gets no more requests. `false`: it is not there.
    pub fn drain(&mut self, endpoint: &Endpoint) -> bool {
        let Some(index) = self.position(endpoint) else { return false };
        self.members[index].leave();
        true
    }

    /// The same, and forgets it; but not one of a source, which would only bring it back. `false`:
    /// it is not there.
    pub fn remove(&mut self, endpoint: &Endpoint) -> bool {
        let Some(index) = self.position(endpoint) else { return false };
        self.members[index].leave();
        if self.members[index].source.is_none() {
            self.members.remove(index);
            self.rotation = Rotation::new(self.members.len());
        }
        true
    }

    /// A source has these addresses from now on, and no others. What is there for another reason is
    /// not its business, and what was told to leave is not brought back.
    pub fn set_source(
        &mut self,
        source: usize,
        addresses: Vec<Address>,
        new: impl Fn(Address) -> Member,
    ) {
        let is_gone = |member: &Arc<Member>| {
            member.source == Some(source)
                && addresses.iter().all(|one| one.endpoint != member.endpoint)
        };
        self.members.extract_if(.., |member| is_gone(member)).for_each(|member| member.leave());
        for address in addresses {
            match self.position(&address.endpoint) {
                Some(index) if self.members[index].source == Some(source) => {
                    self.members[index].set_weight(address.weight);
                }
                Some(_) => {}
                None => self.members.push(Arc::new(new(address))),
            }
        }
        self.rotation = Rotation::new(self.members.len());
    }

    fn position(&self, endpoint: &Endpoint) -> Option<usize> {
        self.members.iter().position(|member| member.endpoint == *endpoint)
    }

    /// The address for a request that has not been at any of `tried`. `stays`: one with a key waits
    /// for its address rather than go to another one that is free.
    pub fn choose(
        &self,
        policy: Balancing,
        key: Option<Key>,
        stays: bool,
        tried: &[Arc<Member>],
        now: u64,
    ) -> Option<Admission> {
        let choose = |is_usable: &dyn Fn(&Arc<Member>) -> bool| {
            let is_new = |member: &Arc<Member>| {
                !member.is_leaving() && !tried.iter().any(|other| Arc::ptr_eq(other, member))
            };
            let usable = |member: &Arc<Member>| is_new(member) && is_usable(member);
            let index = balance::choose(policy, &self.rotation, &self.members, key, usable)?;
            Some(&self.members[index])
        };
        let waits = stays && key.is_some();
        loop {
            let free = || choose(&|member| member.is_due(now) && (waits || member.pool.has_room()));
            let Some(member) = free().or_else(|| choose(&|member| member.is_due(now))) else {
                // The last hope: better to ask an address that failed than to give up.
                return choose(&|_| true).map(|member| Admission::of_last_hope(member.clone()));
            };
            // Another request may have come first to an address on trial; then it is not due any
            // more.
            if let Some(admission) = member.admit(now) {
                return Some(admission);
            }
        }
    }
}
