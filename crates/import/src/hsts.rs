//! `Strict-Transport-Security`: a header that a site has for all of its paths is a setting of the
//! site, so that it is sent over TLS alone, and so that mounted sites have it, too.

use crate::model::{Headers, Hsts, Site};

/// The longest time of `hsts`, in seconds.
const LONGEST: u64 = 17_520 * 3600;

/// What `tokamak check` asks for before the host may stand on the list of browsers.
const A_YEAR: u64 = 31_536_000;

/// What a value of the header says; `None` if no setting says it.
fn read(value: &str) -> Option<Hsts> {
    let (mut lifetime, mut subdomains, mut preload) = (None, false, false);
    for directive in value.split(';').map(str::trim).filter(|it| !it.is_empty()) {
        let directive = directive.to_ascii_lowercase();
        let (name, argument) = match directive.split_once('=') {
            Some((name, argument)) => (name.trim_end(), argument.trim_matches([' ', '"'])),
            None => (&*directive, ""),
        };
        match name {
            "max-age" if lifetime.is_none() => lifetime = Some(argument.parse().ok()?),
            "includesubdomains" => subdomains = true,
            "preload" => preload = true,
            _ => return None,
        }
    }
    let lifetime = lifetime.filter(|it| (1..=LONGEST).contains(it))?;
    let is_good = !preload || (subdomains && lifetime >= A_YEAR);
    is_good.then_some(Hsts { lifetime, subdomains, preload })
}

/// Takes the header out of the rules for all of a site with TLS. A value that no setting says stays
/// a header like any other.
pub(crate) fn take_from_headers(site: &mut Site) {
    if site.listen.iter().all(|listen| !listen.tls) {
        return;
    }
    let rules = site.rules.iter_mut();
    for rule in rules.filter(|it| it.scope.is_all() && it.content_types.is_empty() && !it.of_answer)
    {
        let Headers { set, add, .. } = &mut rule.headers;
        for fields in [set, add] {
            fields.retain(|name, value| {
                let is_it = name.eq_ignore_ascii_case("strict-transport-security");
                let found = read(value).filter(|_| is_it);
                site.hsts = found.or(site.hsts);
                found.is_none()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_a_setting_if_that_says_the_same() {
        let hsts = |lifetime, subdomains, preload| Some(Hsts { lifetime, subdomains, preload });
        for (value, expected) in [
            ("max-age=3600", hsts(3600, false, false)),
            (" Max-Age = \"63072000\" ; includeSubdomains;", hsts(63_072_000, true, false)),
            ("max-age=31536000; includeSubDomains; preload", hsts(31_536_000, true, true)),
            ("preload;includeSubDomains;max-age=31536000", hsts(31_536_000, true, true)),
            ("max-age=31535999; includeSubDomains; preload", None),
            ("max-age=31536000; preload", None),
            ("max-age=0", None),
            ("max-age=63072001", None),
            ("max-age=1; max-age=2", None),
            ("includeSubDomains", None),
            ("max-age=x", None),
            ("max-age=3600; other", None),
            ("", None),
        ] {
            assert_eq!(read(value), expected, "{value}");
        }
        let duration = |lifetime| Hsts { lifetime, subdomains: false, preload: false }.duration();
        assert_eq!((duration(31_536_000), duration(100)), ("8760h".to_owned(), "100s".to_owned()));
    }
}
