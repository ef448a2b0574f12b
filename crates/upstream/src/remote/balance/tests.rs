use std::time::Duration;

use proptest::prelude::*;

use super::health::{Health, HealthState, Rules, Severity};
use super::*;

#[derive(Clone, Debug)]
struct Address {
    identity: u64,
    weight: u32,
    busy: usize,
}

impl Candidate for Address {
    fn weight(&self) -> u32 {
        self.weight
    }

    fn identity(&self) -> u64 {
        self.identity
    }

    fn busy(&self) -> usize {
        self.busy
    }
}

fn addresses(weights: &[u32]) -> Vec<Address> {
    let address = |(number, weight): (usize, &u32)| Address {
        identity: hash::hash(format!("10.0.0.{number}:9000").as_bytes()),
        weight: *weight,
        busy: 0,
    };
    weights.iter().enumerate().map(address).collect()
}

fn of_key(addresses: &[Address], key: &str, lost: Option<usize>) -> usize {
    let rotation = Rotation::new(addresses.len());
    let is_usable =
        |one: &Address| lost.is_none_or(|lost| one.identity != addresses[lost].identity);
    choose(Balancing::RoundRobin, &rotation, addresses, Some(Key::of(key.as_bytes())), is_usable)
        .unwrap()
}

/// How often each is chosen, of so many turns.
fn turns(policy: Balancing, addresses: &[Address], count: usize) -> Vec<usize> {
    let rotation = Rotation::new(addresses.len());
    let mut chosen = vec![0; addresses.len()];
    for _ in 0..count {
        chosen[choose(policy, &rotation, addresses, None, |_| true).unwrap()] += 1;
    }
    chosen
}

#[test]
fn turns_are_smooth() {
    let addresses = addresses(&[5, 1, 1]);
    let rotation = Rotation::new(3);
    let order: Vec<usize> = (0..7).map(|_| rotation.turn(&addresses, |_| true).unwrap()).collect();
    assert_eq!(order, [0, 0, 1, 0, 2, 0, 0]);
}

#[test]
fn without_a_server_none_is_chosen() {
    for key in [None, Some(Key::of(b"a"))] {
        for policy in [Balancing::RoundRobin, Balancing::LeastBusy] {
            assert_eq!(
                choose(policy, &Rotation::new(2), &addresses(&[1, 1]), key, |_| false),
                None
            );
        }
    }
}

#[test]
fn the_least_busy_for_its_weight_is_chosen() {
    let mut all = addresses(&[1, 2, 1]);
    (all[0].busy, all[1].busy, all[2].busy) = (2, 3, 3);
    assert_eq!(turns(Balancing::LeastBusy, &all, 10), [0, 10, 0]);
    (all[0].busy, all[1].busy, all[2].busy) = (2, 4, 2);
    assert_eq!(turns(Balancing::LeastBusy, &all, 40), [10, 20, 10], "of equals each has its share");
}

/// Keys must stay where they are over versions and machines, or an update would empty all caches.
#[test]
fn hashes_do_not_change() {
    assert_eq!(hash::hash(b""), 0xf52a_15e9_a9b5_e89b);
    assert_eq!(hash::hash(b"unix:/run/app.sock"), 0x2a80_531c_15a0_e494);
}

proptest! {
    #[test]
    fn turns_are_exact_after_each_round(weights in prop::collection::vec(1_u32..20, 1..12), rounds in 1_usize..4) {
        let total: u32 = weights.iter().sum();
        let chosen = turns(Balancing::RoundRobin, &addresses(&weights), total as usize * rounds);
        prop_assert_eq!(chosen, weights.iter().map(|weight| *weight as usize * rounds).collect::<Vec<_>>());
    }

    #[test]
    fn an_unusable_server_has_no_turn(weights in prop::collection::vec(1_u32..9, 2..12), lost in 0_usize..100) {
        let all = addresses(&weights);
        let lost = lost % all.len();
        let rotation = Rotation::new(all.len());
        let identity = all[lost].identity;
        let total: u32 = weights.iter().sum::<u32>() - weights[lost];
        let mut chosen = vec![0; all.len()];
        for _ in 0..total {
            chosen[rotation.turn(&all, |one| one.identity != identity).unwrap()] += 1;
        }
        prop_assert_eq!(chosen[lost], 0);
        chosen[lost] = weights[lost];
        prop_assert_eq!(chosen, weights);
    }

    #[test]
    fn keys_are_spread_by_weight(weights in prop::collection::vec(1_u32..6, 1..10), seed in any::<u32>()) {
        let all = addresses(&weights);
        let count = 20_000_usize;
        let mut chosen = vec![0_usize; all.len()];
        for number in 0..count {
            chosen[of_key(&all, &format!("{seed}-{number}"), None)] += 1;
        }
        let total: u32 = weights.iter().sum();
        for (chosen, weight) in chosen.iter().zip(&weights) {
            let share = f64::from(*weight) / f64::from(total);
            let expected = share * count as f64;
            // Six standard deviations of a binomial distribution: by chance once in 500 million.
            let most = 6.0 * (expected * (1.0 - share)).sqrt() + 1.0;
            prop_assert!((*chosen as f64 - expected).abs() <= most, "{chosen} instead of {expected} ± {most}");
        }
    }

    #[test]
    fn only_the_keys_of_a_lost_address_move(weights in prop::collection::vec(1_u32..6, 2..12), lost in 0_usize..100) {
        let all = addresses(&weights);
        let lost = lost % all.len();
        let mut heirs = std::collections::BTreeSet::new();
        for number in 0..2000 {
            let key = number.to_string();
            let (before, after) = (of_key(&all, &key, None), of_key(&all, &key, Some(lost)));
            if before == lost {
                prop_assert_ne!(after, lost);
                heirs.insert(after);
            } else {
                prop_assert_eq!(before, after);
            }
        }
        prop_assert!(heirs.len() >= (all.len() - 1).min(2), "they have more than one heir: {:?}", heirs);
    }

    #[test]
    fn the_order_of_addresses_does_not_matter(weights in prop::collection::vec(1_u32..6, 1..12), turn in 0_usize..100, key in ".{0,20}") {
        let all = addresses(&weights);
        let mut turned = all.clone();
        turned.rotate_left(turn % all.len());
        turned.reverse();
        let (one, other) = (of_key(&all, &key, None), of_key(&turned, &key, None));
        prop_assert_eq!(all[one].identity, turned[other].identity);
    }

    /// Whatever happens: what is due may be asked, one trial at a time, and an answer ends every
    /// pause.
    #[test]
    fn health_is_consistent(events in prop::collection::vec((0_u8..7, 0_u64..3_000_000_000), 1..200)) {
        let mut health = Health::new(RULES, 0);
        let mut now = 0;
        for (event, later) in events {
            now += later;
            let due = health.due();
            match event {
                0 | 1 => prop_assert_eq!(health.admit(now), due <= now),
                2 => {
                    health.succeeded(now);
                    prop_assert!(matches!(health.state().0, HealthState::Up | HealthState::Down));
                }
                3 => drop(health.failed(Severity::Unreachable, now)),
                4 => drop(health.failed(Severity::Unanswered, now)),
                5 => drop(health.checked(now % 2 == 0, now)),
                _ => health.trial_abandoned(now),
            }
            let (state, since) = health.state();
            prop_assert!(since <= now);
            if let HealthState::Out { until } = state {
                prop_assert!(until <= now + 60 * SECOND);
            }
        }
    }
}

const SECOND: u64 = 1_000_000_000;
const RULES: Rules = Rules {
    failures: 3,
    window: Duration::from_secs(10),
    pause: Duration::from_secs(1),
    rise: 2,
    fall: 3,
};

#[test]
fn failures_in_a_window_take_an_address_out() {
    let mut health = Health::new(RULES, 0);
    for at in [0, 6, 12, 18, 24, 30] {
        assert_eq!(
            health.failed(Severity::Unanswered, at * SECOND),
            None,
            "two in ten seconds are no three"
        );
    }
    assert_eq!(health.failed(Severity::Unanswered, 31 * SECOND), Some(RULES.pause));
    assert_eq!(health.state(), (HealthState::Out { until: 32 * SECOND }, 31 * SECOND));
    assert!(!health.admit(31 * SECOND));
}

#[test]
fn pauses_grow_until_a_trial_is_answered() {
    let mut health = Health::new(RULES, 0);
    let mut now = 0;
    let mut pauses = vec![health.failed(Severity::Unreachable, now).unwrap()];
    for _ in 0..8 {
        now = health.due();
        assert!(!health.admit(now - 1));
        assert!(health.admit(now));
        assert!(!health.admit(now), "one at a time");
        assert_eq!(health.state(), (HealthState::Trial, 0));
        pauses.push(health.failed(Severity::Unanswered, now).unwrap());
        now += 1;
        assert_eq!(
            health.failed(Severity::Unreachable, now),
            None,
            "one that was on its way already"
        );
    }
    assert_eq!(
        pauses.iter().map(Duration::as_secs).collect::<Vec<_>>(),
        [1, 2, 4, 8, 16, 32, 60, 60, 60]
    );
    now = health.due();
    assert!(health.admit(now));
    health.trial_abandoned(now);
    assert!(health.admit(now), "nothing was shown, so the next one tries");
    assert!(health.succeeded(now));
    assert!(!health.succeeded(now));
    assert_eq!(health.state(), (HealthState::Up, now));
    assert_eq!(health.failed(Severity::Unreachable, now), Some(RULES.pause));
}

#[test]
fn checks_have_a_say_of_their_own() {
    let mut health = Health::new(RULES, 0);
    assert_eq!([false, false, true, false, false].map(|good| health.checked(good, 1)), [None; 5]);
    assert_eq!(health.checked(false, 2), Some(false));
    assert_eq!(health.state(), (HealthState::Down, 2));
    assert!(!health.succeeded(3) && !health.admit(3), "an answer to an old request is no check");
    assert_eq!([true, false, true].map(|good| health.checked(good, 4)), [None; 3]);
    assert_eq!(health.checked(true, 5), Some(true));
    assert!(health.admit(5));
    health.failed(Severity::Unreachable, 6);
    assert_eq!(health.checked(true, 7), Some(true), "a pause is over with a good check");
    assert!(health.admit(7));
}

#[test]
fn without_rules_nothing_is_left_out() {
    let mut health = Health::new(Rules { failures: 0, ..RULES }, 0);
    for _ in 0..100 {
        assert_eq!(health.failed(Severity::Unreachable, 1), None);
    }
    assert!(health.admit(1));
}
