//! `mod_remoteip`: the proxies that name clients.

use crate::directive::Directive;
use crate::validity;

/// Why a directive is left out.
pub(super) const ADVICE: &str = "only `RemoteIPHeader X-Forwarded-For` with \
    `RemoteIPInternalProxy` and addresses, for all of the server, is translated; see \
    `trusted_proxies`";

/// Who names the clients.
#[derive(Debug, PartialEq)]
pub(super) enum Naming {
    /// No proxy: they have the addresses of their connections.
    None,
    /// These proxies, by `X-Forwarded-For`.
    Proxies(Vec<String>),
    /// Others, or these for some sites only.
    Unknown,
}

/// Who names the clients of all sites. Tokamak's proxies are those of the whole server.
pub(super) fn naming(directives: &[Directive]) -> Naming {
    let is_own = |it: &&Directive| it.name.starts_with("remoteip");
    let sites: Vec<&Directive> = directives.iter().filter(|it| it.name == "virtualhost").collect();
    let mut own: Vec<&Directive> = directives.iter().filter(is_own).collect();
    // A site that is alone is all of the server.
    let is_alone = sites.len() == 1 && directives.iter().all(|it| it.name != "documentroot");
    if let ([site], true) = (&sites[..], is_alone) {
        own.extend(site.inner().iter().filter(is_own));
    }
    match count(directives) {
        0 => Naming::None,
        all if all > own.len() => Naming::Unknown,
        _ => proxies(&own).map_or(Naming::Unknown, Naming::Proxies),
    }
}

/// How many directives there are, in all sections.
fn count(directives: &[Directive]) -> usize {
    let own = |it: &Directive| usize::from(it.name.starts_with("remoteip")) + count(it.inner());
    directives.iter().map(own).sum()
}

fn proxies(directives: &[&Directive]) -> Option<Vec<String>> {
    let (mut headers, mut proxies) = (0, Vec::new());
    for directive in directives {
        match &*directive.name {
            "remoteipheader" if directive.arg(0).eq_ignore_ascii_case("x-forwarded-for") => {
                headers += 1;
            }
            "remoteipinternalproxy" => {
                let own = directive.args.iter().map(|proxy| validity::network(proxy));
                proxies.extend(own.collect::<Option<Vec<_>>>()?);
            }
            // That of a trusted proxy is not believed if it names a private address.
            _ => return None,
        }
    }
    // Without proxies, Apache believes everybody.
    (headers > 0 && !proxies.is_empty()).then_some(proxies)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn proxies_are_those_of_the_whole_server() {
        let header = "RemoteIPHeader X-Forwarded-For\n";
        let known = format!("{header}RemoteIPInternalProxy 10.0.0.1 10.1.0.0/16\n");
        let site = "<VirtualHost *:80>\nDocumentRoot /a\n</VirtualHost>\n";
        let within = format!("<VirtualHost *:80>\n{known}</VirtualHost>\n");
        let proxies = || Naming::Proxies(vec!["10.0.0.1".into(), "10.1.0.0/16".into()]);
        for (text, expected) in [
            (String::new(), Naming::None),
            (site.to_owned(), Naming::None),
            (format!("{known}{site}{site}"), proxies()),
            (within.clone(), proxies()),
            (format!("{within}{site}"), Naming::Unknown),
            (format!("{known}{within}{site}"), Naming::Unknown),
            (format!("{within}DocumentRoot /a\n"), Naming::Unknown),
            (format!("<IfVersion > 2>\n{known}</IfVersion>\n{site}"), Naming::Unknown),
            (header.to_owned(), Naming::Unknown),
            ("RemoteIPInternalProxy 10.0.0.1\n".to_owned(), Naming::Unknown),
            (format!("{known}RemoteIPHeader X-Real-IP\n"), Naming::Unknown),
            (format!("{known}RemoteIPTrustedProxy 192.0.2.1\n"), Naming::Unknown),
            (format!("{header}RemoteIPInternalProxy proxy.test\n"), Naming::Unknown),
            (format!("{known}RemoteIPInternalProxyList a\n"), Naming::Unknown),
            (format!("{known}RemoteIPProxyProtocol On\n"), Naming::Unknown),
        ] {
            let directives = super::super::parse::parse(&text, Path::new("a")).unwrap();
            assert_eq!(naming(&directives), expected, "{text}");
        }
    }
}
