//! Changes of the addresses of FastCGI applications, asked for while the server runs.
//! They hold until a reload makes the configuration count again; a front that starts anew by itself
//! is told them.

use tokamak_sys::control::{AddressAction, AddressChange};

/// One change, by names: places in the configuration are another generation's own business.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The upstream.
    pub upstream: String,
    /// Its address.
    pub address: String,
    /// What is done with it.
    pub action: AddressAction,
}

impl Change {
    /// For a front in whose configuration the upstream has this index.
    pub fn change(&self, upstream_index: u16) -> AddressChange {
        AddressChange {
            upstream: upstream_index,
            address: self.address.clone(),
            action: self.action,
        }
    }
}

/// The changes that hold, in their order; of each address the last one.
#[derive(Clone, Debug, Default)]
pub struct Changes(Vec<Change>);

impl Changes {
    /// Adds one, which takes the place of an earlier one of the same address.
    pub fn add(&mut self, change: Change) {
        self.0.retain(|other| {
            (&other.upstream, &other.address) != (&change.upstream, &change.address)
        });
        self.0.push(change);
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Change> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_address_the_last_change_holds() {
        let change = |upstream: &str, address: &str, action| Change {
            upstream: upstream.into(),
            address: address.into(),
            action,
        };
        let mut changes = Changes::default();
        changes.add(change("a", "unix:/1", AddressAction::Remove));
        changes.add(change("b", "unix:/1", AddressAction::Drain));
        changes.add(change("a", "unix:/2", AddressAction::Add { weight: 1 }));
        changes.add(change("a", "unix:/1", AddressAction::Add { weight: 2 }));
        let held: Vec<_> = changes.iter().cloned().collect();
        assert_eq!(
            held,
            [
                change("b", "unix:/1", AddressAction::Drain),
                change("a", "unix:/2", AddressAction::Add { weight: 1 }),
                change("a", "unix:/1", AddressAction::Add { weight: 2 }),
            ]
        );
    }
}
