//! Which content codings a client accepts (RFC 9110 section 12.5.3).

use http::HeaderMap;
use http::header::ACCEPT_ENCODING;
use tokamak_config::Coding;

/// The weights of a client's codings, in thousandths; 0: it refuses the coding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weights {
    /// By [`Coding`], where the client names it.
    codings: [Option<u16>; Coding::ALL.len()],
    /// Of the body as it is, where the client names that.
    identity: Option<u16>,
    /// Of codings that the client does not name.
    others: u16,
}

impl Weights {
    /// Reads `Accept-Encoding`. Items that are malformed count as refused.
    pub fn read(headers: &HeaderMap) -> Weights {
        let mut weights = Weights::default();
        let values = headers.get_all(ACCEPT_ENCODING).iter();
        for item in values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')) {
            let mut parts = item.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let name = parts.next().unwrap_or_default();
            let weight = parts.next().map_or(Some(1000), weight).unwrap_or(0);
            if name == b"*" {
                weights.others = weight;
            } else if name.eq_ignore_ascii_case(b"identity") {
                weights.identity = Some(weight);
            } else if let Some(coding) = coding(name) {
                weights.codings[coding as usize] = Some(weight);
            }
        }
        weights
    }

    fn of(&self, coding: Coding) -> u16 {
        self.codings[coding as usize].unwrap_or(self.others)
    }

    /// The codings of `ours` that the client accepts, in its order of preference; those with equal
    /// weights in our order.
    pub fn preferred(&self, ours: [Coding; 3]) -> impl Iterator<Item = Coding> {
        let mut order = ours.map(|coding| (self.of(coding), coding));
        // Stable, so equal weights keep our order.
        order.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        order.into_iter().filter(|(weight, _)| *weight > 0).map(|(_, coding)| coding)
    }
}

/// The coding of `ours` that the client prefers, the first of them if it does not care. `None`: the
/// body should be sent as it is. That is also the answer to a client that refuses everything: a
/// body that it can read if it wants to helps more than a 406.
pub fn choose(headers: &HeaderMap, ours: &[Coding]) -> Option<Coding> {
    if !is_accepted(headers) {
        return None;
    }
    let weights = Weights::read(headers);
    // A coding with the same weight as `identity` is better than it.
    let least = weights.identity.unwrap_or(0).max(1);
    let accepted = ours.iter().copied().filter(|coding| weights.of(*coding) >= least);
    // Of equal ones `max_by_key` takes the last.
    accepted.rev().max_by_key(|coding| weights.of(*coding))
}

/// Whether a client may accept any coding: a program that takes none says so, or says nothing.
pub fn is_accepted(headers: &HeaderMap) -> bool {
    headers.get(ACCEPT_ENCODING).is_some_and(|first| first != "identity")
}

fn coding(name: &[u8]) -> Option<Coding> {
    let name = if name.eq_ignore_ascii_case(b"x-gzip") { b"gzip" } else { name };
    Coding::ALL.into_iter().find(|coding| coding.name().as_bytes().eq_ignore_ascii_case(name))
}

/// Thousandths of a `q=` parameter.
fn weight(parameter: &[u8]) -> Option<u16> {
    let (b'q' | b'Q', rest) = parameter.split_first()? else { return None };
    let (whole, fraction) = match rest.strip_prefix(b"=")? {
        [whole] => (whole, &[][..]),
        [whole, b'.', fraction @ ..] if fraction.len() <= 3 => (whole, fraction),
        _ => return None,
    };
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |nth: usize| fraction.get(nth).map_or(0, |digit| u16::from(digit - b'0'));
    let thousandths = digit(0) * 100 + digit(1) * 10 + digit(2);
    match whole {
        b'0' => Some(thousandths),
        b'1' if thousandths == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headers(value: &[u8]) -> HeaderMap {
        HeaderMap::from_iter([(ACCEPT_ENCODING, http::HeaderValue::from_bytes(value).unwrap())])
    }

    #[test]
    fn clients_say_what_they_take() {
        for (value, expected) in [
            ("", ""),
            ("identity", ""),
            ("gzip", "gzip"),
            ("GZIP", "gzip"),
            ("x-gzip", "gzip"),
            ("gzip, deflate, br, zstd", "br zstd gzip"),
            ("gzip;q=1.0, br;q=0.5", "gzip br"),
            ("gzip ; q=0.8 , zstd;q=0.801", "zstd gzip"),
            ("br;q=0, gzip", "gzip"),
            ("br;q=0.000, gzip;q=0.001", "gzip"),
            ("*", "br zstd gzip"),
            ("*;q=0.5, gzip", "gzip br zstd"),
            ("br;q=0, *", "zstd gzip"),
            ("*;q=0, gzip", "gzip"),
            ("br;q=2, gzip;q=1.001, zstd;q=x", ""),
            ("br;q=, gzip;q=0.1234, zstd;q=.5", ""),
            ("br;x=1", ""),
            (",,gzip,", "gzip"),
        ] {
            let order = [Coding::Br, Coding::Zstd, Coding::Gzip];
            let found: Vec<_> =
                Weights::read(&headers(value.as_bytes())).preferred(order).collect();
            let found: Vec<_> = found.into_iter().map(Coding::name).collect();
            assert_eq!(found.join(" "), expected, "{value}");
        }
        assert_eq!(Weights::read(&HeaderMap::new()).preferred(Coding::ALL).count(), 0);
    }

    #[test]
    fn one_of_ours_is_chosen() {
        use Coding::{Br, Gzip, Zstd};
        for (value, ours, expected) in [
            ("gzip, deflate, br, zstd", &Coding::ALL[..], Some(Zstd)),
            ("gzip, deflate, br", &Coding::ALL, Some(Br)),
            ("gzip, deflate, br, zstd", &[Gzip, Br], Some(Gzip)),
            ("gzip;q=0.9, br;q=0.5", &Coding::ALL, Some(Gzip)),
            ("gzip", &[Br], None),
            ("gzip", &[], None),
            ("*", &[Gzip], Some(Gzip)),
            ("identity", &Coding::ALL, None),
            ("identity, gzip", &Coding::ALL, Some(Gzip)),
            ("identity;q=1, gzip;q=0.5", &Coding::ALL, None),
            ("identity;q=0.5, gzip", &Coding::ALL, Some(Gzip)),
            ("identity;q=0, gzip;q=0.001", &Coding::ALL, Some(Gzip)),
            ("identity;q=0", &Coding::ALL, None),
            ("*;q=0", &Coding::ALL, None),
        ] {
            assert_eq!(choose(&headers(value.as_bytes()), ours), expected, "{value}");
        }
    }

    /// One item of a list, with what it means.
    fn item() -> impl Strategy<Value = (String, &'static str, u16)> {
        let name = prop::sample::select(vec!["zstd", "br", "gzip", "identity", "*", "deflate"]);
        (name, 0u16..=1000, any::<bool>()).prop_map(|(name, weight, is_plain)| match is_plain {
            true => (name.to_owned(), name, 1000),
            false if weight == 1000 => (format!("{name};q=1"), name, 1000),
            false => (format!("{name} ;q=0.{weight:03}"), name, weight),
        })
    }

    proptest! {
        #[test]
        fn no_value_makes_it_panic(value in prop::collection::vec(32u8..127, 0..60)) {
            choose(&headers(&value), &Coding::ALL);
        }

        #[test]
        fn the_choice_is_that_of_a_simple_model(items in prop::collection::vec(item(), 0..6)) {
            let line: Vec<_> = items.iter().map(|(text, ..)| text.as_str()).collect();
            let last = |name| items.iter().rev().find(|item| item.1 == name).map(|item| item.2);
            let weight = |name| last(name).or(last("*")).unwrap_or(0);
            let most = Coding::ALL.into_iter().map(|coding| weight(coding.name())).max();
            let expected = Coding::ALL.into_iter().find(|coding| {
                let weight = weight(coding.name());
                weight > 0 && Some(weight) == most && weight >= last("identity").unwrap_or(0)
            });
            prop_assert_eq!(choose(&headers(line.join(", ").as_bytes()), &Coding::ALL), expected);
        }
    }
}
