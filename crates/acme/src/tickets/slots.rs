//! Which keys of session tickets are valid at a time. A slot is a period of rotation, by its number
//! since 1970; each has one key, which all nodes share.

use std::collections::BTreeMap;
use std::time::Duration;

use tokamak_tls::{ROTATE_AFTER, TICKET_KEYS, TicketKey};

/// The keys that this node knows, by their slots.
pub type KeysBySlot = BTreeMap<u64, TicketKey>;

/// A key is known this long before it encrypts, so that nodes whose clocks are ahead give out no
/// tickets that the others cannot read. Clocks that are synchronised differ by
/// far less.
const AHEAD: Duration = Duration::from_secs(15 * 60);

/// How long a key is stored: until it decrypts no longer, and for one more slot.
pub const KEPT_FOR: Duration =
    Duration::from_secs((TICKET_KEYS as u64 + 1) * ROTATE_AFTER.as_secs());

/// The slots whose keys are valid at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidSlots {
    current: u64,
    /// Whether the next slot begins soon, so that its key is valid already.
    has_next: bool,
}

/// The valid slots at this time since 1970.
pub fn valid_at(now: Duration) -> ValidSlots {
    let slot = |time: Duration| time.as_secs() / ROTATE_AFTER.as_secs();
    ValidSlots { current: slot(now), has_next: slot(now + AHEAD) != slot(now) }
}

impl ValidSlots {
    /// The slots whose keys must exist in Redis: the current one, and the next one if it is near.
    pub fn to_store(self) -> impl Iterator<Item = u64> {
        self.current..=self.current + u64::from(self.has_next)
    }

    /// All valid slots: those of `to_store`, the one that encrypts first, and the earlier ones
    /// whose tickets can still be decrypted.
    pub fn all(self) -> impl Iterator<Item = u64> {
        let before = (1..TICKET_KEYS as u64).map(move |ago| self.current.saturating_sub(ago));
        self.to_store().chain(before)
    }
}

/// The keys of these slots; those that this node does not know are left out.
pub fn keys(slots: &ValidSlots, known: &KeysBySlot) -> Vec<TicketKey> {
    slots.all().filter_map(|slot| known.get(&slot).cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_before_it_encrypts_and_after() {
        let slot = ROTATE_AFTER.as_secs();
        let begin = Duration::from_secs(1000 * slot);
        let all = |now| valid_at(now).all().collect::<Vec<u64>>();
        assert_eq!(all(begin), [1000, 999, 998]);
        assert_eq!(all(begin + ROTATE_AFTER - AHEAD - Duration::from_secs(1)), [1000, 999, 998]);
        assert_eq!(all(begin + ROTATE_AFTER - AHEAD), [1000, 1001, 999, 998]);
        assert_eq!(all(begin + ROTATE_AFTER), [1001, 1000, 999]);
        let stored = |now| valid_at(now).to_store().collect::<Vec<u64>>();
        assert_eq!(stored(begin), [1000]);
        assert_eq!(stored(begin + ROTATE_AFTER - AHEAD), [1000, 1001]);
    }

    #[test]
    fn the_key_of_the_current_slot_encrypts() {
        let slots = valid_at(Duration::from_secs(1000 * ROTATE_AFTER.as_secs()));
        let known: KeysBySlot = [998, 1000, 1001].map(|slot| (slot, TicketKey::random())).into();
        assert_eq!(keys(&slots, &known), [known[&1000].clone(), known[&998].clone()]);
    }
}
