//! `Server-Timing`: the ledger of a request, as a header for its client.
//!
//! The client gets the phases that are over when the head of its response is sent, to the
//! nanosecond as the access log has them. Whom that concerns is configured for paths; others ask
//! with a header that only those can make who know the secret:
//!
//! ```text
//! Tokamak-Timing: SECONDS:HMAC    seconds since 1970, and HMAC-SHA256 of their digits
//! ```

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use hmac::{Hmac, Mac};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use sha2::Sha256;
use tokamak_config as config;
use tokamak_cost::{CallKind, Ledger};

/// Asks for the phases of one request.
const ASKING: HeaderName = HeaderName::from_static("tokamak-timing");
/// Tells them.
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");
/// Seconds that a signature may be old, or that clocks may differ. A stolen one is of use for so
/// long; with a tenth of it, machines without a synchronised clock could not ask.
const PATIENCE: u64 = 300;

/// Which responses have `Server-Timing`.
pub struct Timing {
    sites: Vec<SiteTiming>,
    secret: Option<Hmac<Sha256>>,
}

struct SiteTiming {
    is_on: bool,
    /// By the routes' indexes.
    routes: Vec<bool>,
}

impl Timing {
    /// What the configuration asks for; `None`: no response has the header.
    pub fn new(config: &config::Server) -> Option<Timing> {
        let of_site = |site: &config::Site| SiteTiming {
            is_on: site.server_timing,
            routes: site.routes.iter().map(|it| it.server_timing).collect(),
        };
        let sites: Vec<SiteTiming> = config.sites.iter().map(of_site).collect();
        let secret = config.trace.timing_secret.as_ref().map(|secret| {
            Hmac::new_from_slice(secret.reveal().as_bytes())
                .unwrap_or_else(|_| unreachable!("a key may have any length"))
        });
        let is_used = secret.is_some() || sites.iter().any(SiteTiming::is_used);
        is_used.then_some(Timing { sites, secret })
    }

    /// Whether the response to a request of this route, of the site with this index, has it.
    pub fn is_shown(&self, site_index: usize, route: Option<usize>, headers: &HeaderMap) -> bool {
        let site = &self.sites[site_index];
        route.map_or(site.is_on, |route| site.routes[route])
            || self.is_signed(headers, SystemTime::now())
    }

    fn is_signed(&self, headers: &HeaderMap, now: SystemTime) -> bool {
        let mut values = headers.get_all(ASKING).iter();
        let (Some(secret), Some(value), None) = (&self.secret, values.next(), values.next()) else {
            return false;
        };
        let Some((seconds, digits)) = value.to_str().ok().and_then(|it| it.split_once(':')) else {
            return false;
        };
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let is_now = seconds.bytes().all(|byte| byte.is_ascii_digit())
            && seconds.parse().is_ok_and(|seconds| now.abs_diff(seconds) <= PATIENCE);
        let mut code = secret.clone();
        code.update(seconds.as_bytes());
        is_now && code_of(digits).is_some_and(|given| code.verify_slice(&given).is_ok())
    }
}

impl SiteTiming {
    fn is_used(&self) -> bool {
        self.is_on || self.routes.contains(&true)
    }
}

/// The 32 bytes of hexadecimal digits.
fn code_of(digits: &str) -> Option<[u8; 32]> {
    let mut code = [0; 32];
    if digits.len() != 64 || !digits.is_ascii() {
        return None;
    }
    for (at, byte) in code.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(code)
}

/// Adds the phases that are over, in milliseconds, and the calls that were made in them. What an
/// application says of itself stays.
pub fn add_header(ledger: &Ledger, headers: &mut HeaderMap) {
    let mut value = Vec::with_capacity(128);
    for (name, nanos) in ledger.phases() {
        put(&mut value, name, nanos);
    }
    if let Some(calls) = ledger.calls() {
        for kind in CallKind::ALL {
            let sum = calls.of(kind);
            put(&mut value, kind.name(), sum.nanos);
            // Writing to memory cannot fail.
            let _ = write!(value, ";desc=\"calls: {}\"", sum.count);
        }
    }
    if let Ok(value) = HeaderValue::from_bytes(&value) {
        headers.append(SERVER_TIMING, value);
    }
}

fn put(value: &mut Vec<u8>, name: &str, nanos: u64) {
    let separator = if value.is_empty() { "" } else { ", " };
    let (whole, part) = (nanos / 1_000_000, nanos % 1_000_000);
    // Writing to memory cannot fail.
    let _ = write!(value, "{separator}{name};dur={whole}.{part:06}");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokamak_cost::{CallSum, Calls, Phase};

    use super::*;

    /// Of `1795176000` with `a secret of sixteen`; made with `openssl dgst -sha256 -hmac`.
    const SECONDS: u64 = 1_795_176_000;
    const CODE: &str = "fd6bbcfdde43061f220cab8927edacf0e2a7298850011e24d276ab6ea45148a6";

    fn timing() -> Timing {
        let secret = Hmac::new_from_slice(b"a secret of sixteen").unwrap();
        let site = SiteTiming { is_on: false, routes: vec![false, true] };
        Timing { sites: vec![site], secret: Some(secret) }
    }

    fn is_signed(values: &[&str], after: i64) -> bool {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(ASKING, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let now = UNIX_EPOCH + Duration::from_secs(SECONDS.saturating_add_signed(after));
        timing().is_signed(&headers, now)
    }

    #[test]
    fn a_signature_holds_for_a_while() {
        let good = format!("{SECONDS}:{CODE}");
        for (after, holds) in [(0, true), (300, true), (-300, true), (301, false), (-301, false)] {
            assert_eq!(is_signed(&[&good], after), holds, "{after}");
        }
        assert!(is_signed(&[&good.to_uppercase()], 0));
    }

    #[test]
    fn nothing_else_is_a_signature() {
        let good = format!("{SECONDS}:{CODE}");
        for value in [
            String::new(),
            ":".into(),
            format!("{SECONDS}:"),
            format!("{SECONDS}{CODE}"),
            format!("0{good}"),
            format!("+{good}"),
            format!("{}:{CODE}", SECONDS + 1),
            format!("{SECONDS}:{}", "0".repeat(64)),
            format!("{SECONDS}:{}", "+1".repeat(32)),
            format!("{SECONDS}:{}", "\u{e9}".repeat(32)),
            format!("{}:{CODE}", "9".repeat(30)),
            format!("{good}0"),
        ] {
            assert!(!is_signed(&[&value], 0), "{value}");
        }
        assert!(!is_signed(&[&good, &good], 0) && !is_signed(&[], 0));
    }

    #[test]
    fn a_route_decides_for_its_requests() {
        for (route, expected) in [(None, false), (Some(0), false), (Some(1), true)] {
            assert_eq!(timing().is_shown(0, route, &HeaderMap::new()), expected, "{route:?}");
        }
    }

    #[test]
    fn phases_are_written_to_the_nanosecond() {
        let mut ledger = Ledger::begin(1_000);
        ledger.stamp(Phase::Head, 1_017);
        ledger.stamp(Phase::Php, 12_345_678);
        let mut headers = HeaderMap::new();
        headers.append(SERVER_TIMING, HeaderValue::from_static("db;dur=1"));
        add_header(&ledger, &mut headers);
        let fields: Vec<_> = headers.get_all(SERVER_TIMING).iter().collect();
        assert_eq!(fields, ["db;dur=1", "head;dur=0.000017, php;dur=12.344661"]);
    }

    #[test]
    fn calls_are_written_with_their_number() {
        let mut ledger = Ledger::begin(0);
        let sums = [CallSum { count: 2, nanos: 3_000_001 }, CallSum::default()];
        ledger.add_calls(&Calls { sums });
        let mut headers = HeaderMap::new();
        add_header(&ledger, &mut headers);
        let field = headers.get(SERVER_TIMING).unwrap();
        assert_eq!(
            field,
            "sql;dur=3.000001;desc=\"calls: 2\", http;dur=0.000000;desc=\"calls: 0\""
        );
    }
}
