//! What to do when. Times are seconds since 1970; a `share` is a random number from 0 to 1, by
//! which servers that were started together do not ask an authority together.

use std::time::Duration;

/// When a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// From.
    pub begins: u64,
    /// Until.
    pub ends: u64,
}

/// When an authority wants a certificate to be renewed (ARI, RFC 9773).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// From.
    pub begins: u64,
    /// Until.
    pub ends: u64,
}

/// Why there is no certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The authority does not answer, or something of this machine does not work. Another try costs
    /// nothing.
    Unavailable,
    /// The authority has said no. It counts how often it has to.
    Refused,
    /// The authority wants to be left alone for so long.
    Limited(Duration),
}

/// Wait after a first failure that costs nothing, and the longest one. With a tenth of the first, a
/// server that starts before its network would fill the log; with ten times more, it would have no
/// certificate for a minute. The longest is what a certificate about to end can afford.
const UNAVAILABLE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));

/// Wait after a first refusal, and the longest one. Let's Encrypt accepts five failures an hour for
/// a name: with a tenth, a wrong DNS record would use them up within a minute.
const REFUSED: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(6 * 3600));

/// The longest that an authority is believed to want to be left alone; more is a mistake.
pub const LONGEST_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// Seconds between two orders for a name that both succeed, at least. With a tenth, an authority
/// that is wrong would give hundreds of certificates a day; with ten times more, certificates of a
/// few days could not be renewed in time after they were revoked.
const SHORTEST: u64 = 3600;

/// Seconds until the operator is asked again who did not allow the renewal of a certificate. With a
/// tenth, each name that is not wanted any more would be a line of the log every few minutes; with
/// ten times more, certificates of a few days would end because the operator was away for an hour.
pub const UNASKED: u64 = 3600;

/// Time between two questions for the window, at least and at most, whatever the authority says
/// (RFC 9773, 4.3.2).
const ASK_AGAIN: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(24 * 3600));

/// When to renew a certificate.
///
/// Without a window that is after two thirds of its lifetime. A window is respected, but unless all
/// of it is over (as when the authority is about to revoke), not before a third of the lifetime: an
/// authority that is wrong must not make the server order all the time. And not later than when a
/// tenth is left.
pub fn renewal(validity: Validity, window: Option<Window>, share: f64, now: u64) -> u64 {
    let Validity { begins, ends } = validity;
    // One that ends before it begins has no lifetime.
    let ends = ends.max(begins);
    let lifetime = ends - begins;
    let part = |length: u64, share: f64| (length as f64 * share) as u64;
    match window {
        Some(window) if window.ends <= now => now,
        Some(window) => {
            let length = window.ends.saturating_sub(window.begins);
            let chosen = window.begins.saturating_add(part(length, share));
            chosen.clamp(begins + lifetime / 3, ends - lifetime / 10)
        }
        None => begins + lifetime / 3 * 2 + part(lifetime / 50, share),
    }
}

/// How long to wait after so many failures in a row.
pub fn retry(failures: u32, cause: Cause, share: f64) -> Duration {
    let (first, longest) = match cause {
        Cause::Limited(wait) => {
            let wait = wait.min(LONGEST_LIMIT);
            return wait + wait.min(REFUSED.0).mul_f64(share / 4.0);
        }
        Cause::Unavailable => UNAVAILABLE,
        Cause::Refused => REFUSED,
    };
    let doubled = 2_u32.checked_pow(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    let wait = first.saturating_mul(doubled).min(longest);
    wait.mul_f64(1.0 + share / 4.0)
}

/// Whether something is due now that was planned for then. Nothing is planned for later than
/// [`LONGEST_LIMIT`], so what is further away was planned while the clock was wrong.
pub fn is_due(then: u64, now: u64) -> bool {
    then <= now || then - now > 2 * LONGEST_LIMIT.as_secs()
}

/// Before when a certificate that was got now is not renewed, whatever the authority and the clock
/// say: one of them may be wrong, and would have the server order all the time.
pub fn floor(validity: Validity, now: u64) -> u64 {
    now + ((validity.ends.saturating_sub(validity.begins)) / 100).max(SHORTEST)
}

/// When to ask for the window again, if the authority wants to be asked after so long.
pub fn ask_again(wait: Option<Duration>) -> Duration {
    wait.unwrap_or(ASK_AGAIN.1 / 4).clamp(ASK_AGAIN.0, ASK_AGAIN.1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: u64 = 24 * 3600;
    const NINETY: Validity = Validity { begins: 1000 * DAY, ends: 1090 * DAY };

    #[test]
    fn renewals() {
        let window =
            |begins: u64, ends: u64| Some(Window { begins: begins * DAY, ends: ends * DAY });
        let at = |window, share, now: u64| renewal(NINETY, window, share, now * DAY) / DAY;
        for (window, share, now, expected) in [
            (None, 0.0, 1000, 1060),
            (None, 1.0, 1000, 1061),
            (window(1050, 1060), 0.0, 1000, 1050),
            (window(1050, 1060), 0.5, 1000, 1055),
            // One that is over means at once; one that began long ago does not.
            (window(990, 1001), 0.5, 1001, 1001),
            (window(900, 1100), 0.0, 1001, 1030),
            // Too late is too late.
            (window(1089, 1200), 0.9, 1000, 1081),
            (window(1060, 1050), 0.5, 1000, 1060),
        ] {
            assert_eq!(at(window, share, now), expected, "{window:?} {share} {now}");
        }
        let reversed = Validity { begins: 2, ends: 1 };
        assert_eq!(renewal(reversed, window(1, 2), 0.5, 0), 2);
    }

    #[test]
    fn waits() {
        let of = |cause| (1..=9).map(move |failures| retry(failures, cause, 0.0).as_secs());
        assert_eq!(of(Cause::Unavailable).collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 64, 128, 256]);
        let refused: Vec<u64> = of(Cause::Refused).collect();
        assert_eq!(refused, [60, 120, 240, 480, 960, 1920, 3840, 7680, 15360]);
        let limited = Cause::Limited(Duration::from_secs(7));
        assert_eq!(retry(5, limited, 0.0).as_secs(), 7);
        let absurd = Cause::Limited(Duration::MAX);
        assert_eq!(retry(1, absurd, 0.0).as_secs(), 24 * 3600);
        assert_eq!(ask_again(None).as_secs(), 6 * 3600);
        assert_eq!(ask_again(Some(Duration::ZERO)).as_secs(), 60);
    }

    #[test]
    fn a_clock_that_was_ahead_plans_nothing() {
        for (then, expected) in [(0, true), (1000, true), (1001, false), (1002, false)] {
            assert_eq!(is_due(then * DAY, 1000 * DAY), expected, "{then}");
        }
        assert!(is_due(1003 * DAY, 1000 * DAY) && is_due(u64::MAX, 0));
    }

    #[test]
    fn a_certificate_is_not_replaced_at_once() {
        assert_eq!(floor(NINETY, 0), 90 * DAY / 100);
        assert_eq!(floor(Validity { begins: 0, ends: DAY }, 7), 7 + 3600);
    }

    proptest! {
        #[test]
        fn a_renewal_is_before_the_end(
            begins in 0..u64::MAX / 4,
            lifetime in 1..u64::MAX / 4,
            window in any::<Option<(u64, u64)>>(),
            share in 0.0..=1.0,
            now in 0..u64::MAX / 4,
        ) {
            let validity = Validity { begins, ends: begins + lifetime };
            let window = window.map(|(begins, ends)| Window { begins, ends });
            let at = renewal(validity, window, share, now);
            prop_assert!(at <= validity.ends || at == now);
        }

        #[test]
        fn an_authority_is_left_alone_for_as_long_as_it_wants(
            seconds in 0..24 * 3600_u64, share in 0.0..=1.0, failures: u32,
        ) {
            let wait = Duration::from_secs(seconds);
            prop_assert!(retry(failures, Cause::Limited(wait), share) >= wait);
            prop_assert!(retry(failures, Cause::Refused, share) <= Duration::from_secs(8 * 3600));
        }
    }
}
