//! Which certificates a client gets, by the name that it asks for (SNI).

use std::collections::HashMap;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::pair::Pair;

/// Certificates of different kinds for the same names.
type Kinds = Arc<[Arc<CertifiedKey>]>;

/// Certificates, and the names that they are given for.
pub struct NamedPairs<'a> {
    /// The names, as [`crate::Entry::names`].
    pub names: &'a [String],
    /// Certificates of different kinds.
    pub pairs: Vec<Pair>,
    /// As [`crate::Entry::is_for_itself`].
    pub is_for_itself: bool,
}

/// The certificates by their names.
#[derive(Debug, Default)]
pub struct Names {
    exact: HashMap<String, Kinds>,
    /// For all names below these.
    below: HashMap<String, Kinds>,
    /// For the names that have one label more than these, as certificates have them.
    one_label: HashMap<String, Kinds>,
    /// For all other names, and for clients that send none.
    other: Option<Kinds>,
}

impl Names {
    /// The names of these entries: those that an entry is given, then those in its certificates.
    /// The first entry with a name has it. If no certificate is for a name, the client gets that
    /// of the first entry that has one, unless `refuses_others` is set. The names of an entry
    /// without certificates are refused.
    /// Those of entries that are for themselves are for no other names.
    pub fn new(entries: &[NamedPairs<'_>], refuses_others: bool) -> Names {
        let mut names = Names::default();
        for NamedPairs { names: given, pairs, is_for_itself } in entries {
            for name in *given {
                let whole = name;
                let (map, name) = match name.strip_prefix("*.") {
                    Some(above) => (&mut names.below, above),
                    None => (&mut names.exact, &**name),
                };
                map.entry(name.to_owned()).or_insert_with(|| kinds(pairs, Some(whole)));
            }
            let is_for_others = !refuses_others && !is_for_itself && !pairs.is_empty();
            if is_for_others && names.other.is_none() {
                names.other = Some(kinds(pairs, None));
            }
        }
        for NamedPairs { pairs, .. } in entries {
            for name in pairs.iter().flat_map(|pair| &pair.certificate.names) {
                let whole = name;
                let (map, name) = match name.strip_prefix("*.") {
                    Some(above) => (&mut names.one_label, above),
                    None => (&mut names.exact, &**name),
                };
                map.entry(name.to_owned()).or_insert_with(|| kinds(pairs, Some(whole)));
            }
        }
        names
    }

    /// Whether an entry is for this name, which is in lower case: one with certificates for it, or
    /// one that refuses it.
    pub fn knows(&self, name: &str) -> bool {
        self.own(name).is_some()
    }

    /// The certificates for this name, which is in lower case.
    fn find(&self, name: Option<&str>) -> Option<&Kinds> {
        name.and_then(|name| self.own(name)).or(self.other.as_ref())
    }

    /// The same without those for all other names.
    fn own(&self, name: &str) -> Option<&Kinds> {
        let above = |name: &str| name.split_once('.').map(|(_, above)| above.to_owned());
        let longest_first = || std::iter::successors(above(name), |name| above(name));
        let below = || longest_first().find_map(|name| self.below.get(&name));
        let one_label = || self.one_label.get(&above(name)?);
        self.exact.get(name).or_else(below).or_else(one_label)
    }
}

/// The certificates of an entry for this name, those for it first: the others are for clients that
/// understand none of these.
fn kinds(pairs: &[Pair], name: Option<&String>) -> Kinds {
    let is_for = |pair: &&Pair| {
        let certificate = &pair.certificate;
        name.is_none_or(|name| certificate.is_for(name) || certificate.names.contains(name))
    };
    let (fitting, others): (Vec<_>, Vec<_>) = pairs.iter().partition(is_for);
    fitting.into_iter().chain(others).map(|pair| pair.key.clone()).collect()
}

impl ResolvesServerCert for Names {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let kinds = self.find(hello.server_name())?;
        let understood =
            kinds.iter().find(|kind| kind.key.choose_scheme(hello.signature_schemes()).is_some());
        // If it understands none, the library sends an alert.
        understood.or(kinds.first()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(names: &[&str]) -> Pair {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let key = made.signing_key.serialize_pem();
        Pair::read(made.cert.pem().as_bytes(), key.as_bytes()).unwrap()
    }

    #[test]
    fn table() {
        let first = pair(&["first.example", "*.example.net", "both.example"]);
        let second = pair(&["second.example"]);
        let beside = pair(&["beside.example", "*.beside.example", "second.example"]);
        let third = pair(&["deep.wild.example"]);
        let own = |names: &[&str]| names.iter().map(|name| (*name).into()).collect::<Vec<String>>();
        let given = [own(&[]), own(&["second.example", "both.example"]), own(&["*.wild.example"])];
        let awaited = own(&["awaited.example"]);
        let customer = pair(&["customer.example"]);
        let own_name = own(&["customer.example"]);
        let entries = [
            (&awaited[..], Vec::new()),
            (&own_name[..], vec![customer.clone()]),
            (&given[0][..], vec![first.clone()]),
            (&given[1][..], vec![second.clone(), beside.clone()]),
            (&given[2][..], vec![third.clone()]),
        ];
        let entries = entries.map(|(names, pairs)| {
            let is_for_itself = names == own_name;
            NamedPairs { names, pairs, is_for_itself }
        });
        for refuses in [false, true] {
            let names = Names::new(&entries, refuses);
            let other = (!refuses).then_some(&first);
            for name in ["first.example", "a.example.net", "a.b.wild.example", "awaited.example"] {
                assert!(names.knows(name), "{name}");
            }
            for name in ["wild.example", "a.b.example.net", "unknown.example"] {
                assert!(!names.knows(name), "{name}");
            }
            let found = names.find(Some("awaited.example")).map(|kinds| kinds.len());
            assert_eq!(found, Some(0), "refused, whatever others get");
            for (name, expected) in [
                (Some("first.example"), Some(&first)),
                (Some("customer.example"), Some(&customer)),
                (Some("second.example"), Some(&second)),
                (Some("both.example"), Some(&second)),
                (Some("beside.example"), Some(&beside)),
                (Some("a.beside.example"), Some(&beside)),
                (Some("a.wild.example"), Some(&third)),
                (Some("a.b.wild.example"), Some(&third)),
                (Some("wild.example"), other),
                (Some("deep.wild.example"), Some(&third)),
                (Some("a.example.net"), Some(&first)),
                (Some("a.b.example.net"), other),
                (Some("unknown.example"), other),
                (Some("com"), other),
                (None, other),
            ] {
                let found = names.find(name).map(|kinds| Arc::as_ptr(&kinds[0]));
                let expected = expected.map(|pair| Arc::as_ptr(&pair.key));
                assert_eq!(found, expected, "{name:?}, refuses: {refuses}");
            }
        }
    }
}
