//! Certificates that the server gets by itself.

use std::os::unix::fs::PermissionsExt;

use super::{Reader, text};
use crate::model::{Acme, AcmeChallenge, OnDemand, is_local, is_public};
use crate::value::Text;

impl Reader<'_> {
    /// Whom the server asks for certificates.
    pub(super) fn acme(&mut self) -> Acme {
        let raw = self.raw;
        let acme = &raw.acme;
        let directories: Vec<String> =
            acme.directory.value.iter().map(|url| url.0.clone()).collect();
        for url in directories.iter().filter(|url| !url.starts_with("https://")) {
            let problem = format!("`{url}` is not the URL of a directory; it begins with https://");
            self.report("acme", "directory", acme.directory.origin, problem);
        }
        for (url, key) in &acme.eab.value {
            let problem = if !directories.contains(url) {
                format!("`{url}` is not in `directory`; correct the URL, or add it there")
            } else if !key.reveal().split_once(':').is_some_and(|(id, key)| is_eab(id, key)) {
                format!("the value for `{url}` is not KEY-ID:HMAC-KEY, the key in base64url")
            } else {
                continue;
            };
            self.report("acme", "eab", acme.eab.origin, problem);
        }
        let dns_hook = self.optional_path(&acme.dns_hook);
        if let Some(path) = &dns_hook {
            let is_program = |about: std::fs::Metadata| {
                about.is_file() && about.permissions().mode() & 0o111 != 0
            };
            if !path.metadata().is_ok_and(is_program) {
                let problem =
                    format!("{} is not a program; name an executable file", path.display());
                self.report("acme", "dns_hook", acme.dns_hook.origin, problem);
            }
        }
        let challenges = acme.challenge.value.clone();
        if raw.tls.auto.value {
            let problem = if directories.is_empty() {
                Some(("directory", acme.directory.origin, "must name at least one authority"))
            } else if challenges.is_empty() {
                Some(("challenge", acme.challenge.origin, "must name at least one way"))
            } else {
                None
            };
            if let Some((name, origin, problem)) = problem {
                self.report("acme", name, origin, problem.into());
            }
            self.automatic(dns_hook.is_some());
        }
        if let Some(url) = &acme.ask.value
            && !["http://", "https://"].iter().any(|scheme| url.0.starts_with(scheme))
        {
            let problem = format!("`{}` is not a URL; it begins with http:// or https://", url.0);
            self.report("acme", "ask", acme.ask.origin, problem);
        }
        if challenges.contains(&AcmeChallenge::Dns) && dns_hook.is_none() {
            let problem = "\"dns-01\" needs `dns_hook`, a program that changes the zone";
            self.report("acme", "challenge", acme.challenge.origin, problem.into());
        }
        Acme {
            email: text(&acme.email),
            directories,
            eab: acme.eab.value.clone(),
            challenges,
            dns_hook,
            on_demand: text(&acme.ask)
                .map(|url| OnDemand { url, names: acme.ask_names.value.0 as usize }),
        }
    }

    /// The names for which certificates are wanted.
    fn automatic(&mut self, has_dns_hook: bool) {
        let raw = self.raw;
        if raw.top.listen_tls.value.is_empty() {
            let problem = "is for `listen_tls`, which is not set; `listen_tls = [\":443\"]` accepts \
                connections with TLS";
            self.report("tls", "auto", raw.tls.auto.origin, problem.into());
        }
        let sites = raw.sites.iter().map(|site| &site.site);
        let sites = sites.filter(|site| site.certificate.value.is_empty());
        let asks = raw.acme.ask.value.is_some();
        if !asks && sites.clone().all(|site| site.host.value.is_empty()) {
            let problem = "finds no name to get a certificate for; set `host` in a `[[site]]`, or \
                `ask` in `[acme]`";
            self.report("tls", "auto", raw.tls.auto.origin, problem.into());
        }
        for (site, Text(host)) in
            sites.flat_map(|site| site.host.value.iter().map(move |host| (site, host)))
        {
            let name = host.to_ascii_lowercase();
            let problem = if is_local(&name) {
                continue;
            } else if !is_public(&name) {
                format!(
                    "no authority gives a certificate for `{host}`, which only this network knows; \
                        set `certificate` and `key` here"
                )
            } else if name.starts_with("*.") && !has_dns_hook && !asks {
                format!(
                    "`{host}` needs a certificate that authorities give by \"dns-01\" only; set \
                        `dns_hook` in `[acme]`, or `ask` there for a certificate of each name, or \
                        `certificate` and `key` here"
                )
            } else {
                continue;
            };
            self.report("site", "host", site.host.origin, problem);
        }
    }
}

fn is_eab(id: &str, key: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let key = key.trim_end_matches('=');
    !id.is_empty() && !key.is_empty() && key.len() % 4 != 1 && key.bytes().all(is_digit)
}
