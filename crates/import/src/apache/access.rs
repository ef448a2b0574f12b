//! `Require`, and `Order`, `Allow`, `Deny` of older versions, as rules.

use crate::directive::Directive;
use crate::validity;

use super::login::{PasswordRule, Settings};

/// Who is refused.
#[derive(Debug, PartialEq)]
pub(super) enum Access {
    /// Nothing is said of it.
    Unsaid,
    /// No client is let in.
    Open,
    /// Everybody, perhaps but some.
    Closed { but: Vec<String> },
    /// These.
    Denied(Vec<String>),
    /// Who has no password.
    Login(PasswordRule),
    /// What no rule can say, so everybody: the line, and why.
    Unknown(Directive, &'static str),
}

/// Directives that are about access, and belong to those that decide.
pub(super) const OF_ACCESS: &[&str] = &[
    "require",
    "requireany",
    "requireall",
    "requirenone",
    "order",
    "allow",
    "deny",
    "satisfy",
    "authtype",
    "authname",
    "authuserfile",
    "authgroupfile",
    "authbasicprovider",
    "limit",
    "limitexcept",
    "authmerging",
    "authdigestprovider",
];

const PASSWORD: &str = "only passwords of `AuthType Basic` with an `AuthName` and an \
    `AuthUserFile` around them are translated; everybody is refused instead";
const OTHER: &str = "no rule can say it; everybody is refused instead";

/// What the directives of a section say of access; `settings` are those of its passwords.
pub(super) fn access(directives: &[Directive], settings: &Settings) -> Access {
    let named = |name: &'static str| directives.iter().filter(move |it| it.name == name);
    if let Some(limit) = named("limitexcept").chain(named("requirenone")).next() {
        return Access::Unknown(limit.clone(), OTHER);
    }
    // What is around it holds, too, also where this section alone would decide.
    let mut merging = named("authmerging");
    if let Some(merging) = merging.find(|it| it.arg(0).eq_ignore_ascii_case("and")) {
        return Access::Unknown(merging.clone(), OTHER);
    }
    // `<Limit GET POST>` says it for some methods, and would leave others open.
    let refuses = |limit: &&Directive| {
        !matches!(access(limit.inner(), settings), Access::Unsaid | Access::Open)
    };
    if let Some(limit) = named("limit").find(refuses) {
        return Access::Unknown(limit.clone(), OTHER);
    }
    let older = older(directives);
    let newer = match named("requireall").next() {
        Some(all) => all_of(all, settings),
        None => {
            let inner = named("requireany").flat_map(|it| it.inner());
            any_of(&named("require").chain(inner).collect::<Vec<_>>(), settings)
        }
    };
    let is_any = |it: &Directive| it.name == "satisfy" && it.arg(0).eq_ignore_ascii_case("any");
    let newer = match newer {
        Access::Login(asked) if directives.iter().any(is_any) => {
            Access::Unknown(asked.require, OTHER)
        }
        newer => newer,
    };
    match (older, newer) {
        (Access::Unsaid, newer) => newer,
        (older, Access::Unsaid | Access::Open) => older,
        (Access::Open, newer @ Access::Login(_)) => newer,
        (_, newer @ Access::Unknown(..)) => newer,
        (older, newer) if older == newer => newer,
        (_, _) => match directives.iter().find(|it| it.name == "require") {
            Some(require) => Access::Unknown(require.clone(), OTHER),
            None => Access::Closed { but: Vec::new() },
        },
    }
}

/// One of several has to be true.
fn any_of(requires: &[&Directive], settings: &Settings) -> Access {
    let mut but = Vec::new();
    let mut asked: Option<PasswordRule> = None;
    for require in requires {
        let words: Vec<&str> = require.args.iter().map(String::as_str).collect();
        match &words[..] {
            ["all", "granted"] => return Access::Open,
            ["all", "denied"] => {}
            ["local"] => but.extend(["127.0.0.0/8", "::1"].map(str::to_owned)),
            ["ip", networks @ ..] => {
                for network in networks {
                    match self::network(network) {
                        Some(network) => but.push(network),
                        None => return Access::Unknown((*require).clone(), OTHER),
                    }
                }
            }
            ["valid-user"] | ["user", _, ..] => {
                let Some(own) = PasswordRule::new(require, settings) else {
                    return Access::Unknown((*require).clone(), PASSWORD);
                };
                asked = Some(match asked {
                    Some(before) => before.or(own),
                    None => own,
                });
            }
            ["group" | "ldap-user" | "ldap-group", ..] => {
                return Access::Unknown((*require).clone(), PASSWORD);
            }
            _ => return Access::Unknown((*require).clone(), OTHER),
        }
    }
    if let Some(asked) = asked {
        return Access::Login(PasswordRule { free: but, ..asked });
    }
    if requires.is_empty() { Access::Unsaid } else { Access::Closed { but } }
}

/// All have to be true: everybody but some networks, or those of some networks with a password.
fn all_of(all: &Directive, settings: &Settings) -> Access {
    if let [one, other] = all.inner() {
        match (any_of(&[one], settings), any_of(&[other], settings)) {
            (Access::Login(asked), Access::Closed { but })
            | (Access::Closed { but }, Access::Login(asked))
                if !but.is_empty() =>
            {
                return Access::Login(PasswordRule { only: but, ..asked });
            }
            _ => {}
        }
    }
    let mut denied = Vec::new();
    for require in all.inner() {
        let words: Vec<&str> = require.args.iter().map(String::as_str).collect();
        match &words[..] {
            ["all", "granted"] => {}
            ["all", "denied"] => return Access::Closed { but: Vec::new() },
            ["not", "ip", networks @ ..] => {
                for network in networks {
                    match self::network(network) {
                        Some(network) => denied.push(network),
                        None => return Access::Unknown(require.clone(), OTHER),
                    }
                }
            }
            _ if all.inner().len() == 1 => return any_of(&[require], settings),
            _ => return Access::Unknown(require.clone(), OTHER),
        }
    }
    if denied.is_empty() { Access::Open } else { Access::Denied(denied) }
}

/// `Order`, `Allow` and `Deny`.
fn older(directives: &[Directive]) -> Access {
    let who = |name: &str| -> Vec<&str> {
        let own = directives.iter().filter(|it| it.name == name);
        own.flat_map(|it| it.args.iter().skip(1).map(String::as_str)).collect()
    };
    let (allow, deny) = (who("allow"), who("deny"));
    let order = directives.iter().find(|it| it.name == "order");
    let first = match (order, allow.is_empty() && deny.is_empty()) {
        (None, true) => return Access::Unsaid,
        (Some(order), _) => order,
        (None, false) => directives
            .iter()
            .find(|it| matches!(&*it.name, "allow" | "deny"))
            .expect("one of them is there"),
    };
    let unknown = || Access::Unknown(first.clone(), OTHER);
    if directives.iter().any(|it| it.name == "satisfy" && it.arg(0).eq_ignore_ascii_case("any")) {
        return unknown();
    }
    let networks = |who: &[&str]| who.iter().map(|one| network(one)).collect::<Option<Vec<_>>>();
    let is_all = |who: &[&str]| who.iter().any(|one| one.eq_ignore_ascii_case("all"));
    let order = order.map_or("deny,allow", |order| order.arg(0)).to_ascii_lowercase();
    match (&*order, is_all(&allow), is_all(&deny)) {
        ("deny,allow", true, _) => Access::Open,
        ("deny,allow", false, true) => {
            networks(&allow).map_or_else(unknown, |but| Access::Closed { but })
        }
        ("deny,allow", false, false) if allow.is_empty() && deny.is_empty() => Access::Open,
        ("allow,deny" | "mutual-failure", _, true) => Access::Closed { but: Vec::new() },
        ("allow,deny", true, false) if deny.is_empty() => Access::Open,
        ("allow,deny", true, false) => networks(&deny).map_or_else(unknown, Access::Denied),
        ("allow,deny", false, false) if deny.is_empty() => {
            networks(&allow).map_or_else(unknown, |but| Access::Closed { but })
        }
        _ => unknown(),
    }
}

/// A network, also as the first numbers of its addresses: `10.1`.
fn network(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.trim_end_matches('.').split('.').collect();
    let is_start = parts.len() < 4 && parts.iter().all(|part| part.parse::<u8>().is_ok());
    if !is_start {
        return validity::network(text);
    }
    let zeros = ".0".repeat(4 - parts.len());
    Some(format!("{}{zeros}/{}", parts.join("."), parts.len() * 8))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn of(text: &str) -> Access {
        let directives = super::super::parse::parse(text, Path::new("a")).unwrap();
        let settings = Settings::default().with(&directives);
        access(&directives, &settings)
    }

    #[test]
    fn passwords_are_known_with_addresses_beside_them() {
        let settings = "AuthType Basic\nAuthName \"The staff\"\nAuthUserFile users\n";
        for (text, users, free, only) in [
            ("Require valid-user", None, &[][..], &[][..]),
            ("AuthBasicProvider file\nRequire valid-user", None, &[], &[]),
            ("Order allow,deny\nAllow from all\nRequire valid-user", None, &[], &[]),
            ("Require valid-user\n<Limit GET>\nAllow from all\n</Limit>", None, &[], &[]),
            ("Require user max ann", Some(&["max", "ann"][..]), &[], &[]),
            ("Require user max\nRequire user ann", Some(&["max", "ann"]), &[], &[]),
            ("Require user max\nRequire valid-user", None, &[], &[]),
            ("Require ip 10.1\nRequire valid-user", None, &["10.1.0.0/16"], &[]),
            (
                "<RequireAny>\nRequire valid-user\nRequire ip 10.0.0.1\n</RequireAny>",
                None,
                &["10.0.0.1"],
                &[],
            ),
            (
                "<RequireAll>\nRequire valid-user\nRequire ip 10.0.0.1\n</RequireAll>",
                None,
                &[],
                &["10.0.0.1"],
            ),
        ] {
            let Access::Login(asked) = of(&format!("{settings}{text}")) else {
                panic!("{text}: {:?}", of(text));
            };
            assert_eq!((&*asked.realm, &*asked.file), ("The staff", "users"), "{text}");
            let texts = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
            assert_eq!(asked.users, users.map(texts), "{text}");
            assert_eq!((asked.free, asked.only), (texts(free), texts(only)), "{text}");
        }
    }

    #[test]
    fn require_and_order_are_both_understood() {
        let closed =
            |but: &[&str]| Access::Closed { but: but.iter().map(|it| (*it).to_owned()).collect() };
        for (text, expected) in [
            ("", Access::Unsaid),
            ("Require all denied", closed(&[])),
            ("Require all granted", Access::Open),
            ("Require ip 10.1 192.0.2.1", closed(&["10.1.0.0/16", "192.0.2.1"])),
            ("Order deny,allow\nDeny from all", closed(&[])),
            ("Order allow,deny\nAllow from all", Access::Open),
            ("Order allow,deny\nDeny from all", closed(&[])),
            ("Order deny,allow\nDeny from all\nAllow from 10.0.0.0/8", closed(&["10.0.0.0/8"])),
            ("Deny from all", closed(&[])),
            (
                "Order allow,deny\nAllow from all\nDeny from 10.0.0.1",
                Access::Denied(vec!["10.0.0.1".into()]),
            ),
            (
                "<RequireAll>\nRequire all granted\nRequire not ip 10.0.0.1\n</RequireAll>",
                Access::Denied(vec!["10.0.0.1".into()]),
            ),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
        for text in [
            "Require valid-user",
            "Require ip 10.0.0.0/8\nRequire valid-user",
            "Require user max",
            "AuthType Digest\nAuthName A\nAuthUserFile a\nRequire valid-user",
            "AuthType Basic\nAuthUserFile a\nRequire valid-user",
            "AuthType Basic\nAuthName A\nRequire valid-user",
            "AuthType Basic\nAuthName A\nAuthUserFile a\nRequire group staff",
            "AuthType Basic\nAuthName A\nAuthUserFile a\nRequire valid-user\nSatisfy Any",
            "AuthType Basic\nAuthName A\nAuthUserFile a\nRequire valid-user\nDeny from 10.0.0.1",
            "AuthType Basic\nAuthName A\nAuthUserFile ${A}/a\nRequire valid-user",
            "AuthType Basic\nAuthName A\nAuthUserFile a\nRequire user %{B}",
            "AuthType Basic\nAuthName A\nAuthUserFile a\nAuthMerging And\nRequire valid-user",
            "AuthType Basic\nAuthName A\nAuthUserFile a\n<RequireAll>\nRequire valid-user\n\
                Require not ip 10.0.0.1\n</RequireAll>",
            "AuthType Basic\nAuthName A\nAuthUserFile a\n<RequireAny>\n<RequireAll>\n\
                Require valid-user\n</RequireAll>\n</RequireAny>",
            "Require valid-user\n<Limit GET>\nAllow from all\n</Limit>",
            "Require host a.test",
            "Require expr true",
            "<RequireAll>\nRequire ip 10.0.0.1\nRequire valid-user\n</RequireAll>",
            "<LimitExcept GET>\nRequire all denied\n</LimitExcept>",
            "Order deny,allow\nDeny from all\nAllow from a.test",
            "Order allow,deny\nAllow from all\nDeny from env=bad",
        ] {
            assert!(matches!(of(text), Access::Unknown(..)), "{text}: {:?}", of(text));
        }
    }
}
