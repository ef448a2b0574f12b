//! TLS for clients.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::{Reader, tier};
use crate::model::{CertificateFiles, ClientAuth, Hsts, SiteTls, Tls};
use crate::option;
use crate::origin::{Given, Origin};
use crate::value::{Auto, Count, Text};

/// Characters of a secret that encrypts. With fewer, a thief of what it encrypts could guess it.
const SHORTEST_SECRET: usize = 16;

/// What the list of hosts that browsers bring along asks for (hstspreload.org).
const A_YEAR: Duration = Duration::from_secs(31_536_000);

impl Reader<'_> {
    /// What is set once for TLS.
    pub(super) fn tls(&mut self) -> Tls {
        let raw = self.raw;
        let (top, tls) = (&raw.top, &raw.tls);
        let certificates = self.certificates("tls", &tls.certificate, &tls.key);
        let sites = raw.sites.iter().map(|site| &site.site.certificate);
        let given = || [&tls.certificate].into_iter().chain(sites.clone());
        let is_given = |given: &Given<Vec<Text>>| !given.value.is_empty();
        if top.listen_tls.value.is_empty() {
            if let Some(unused) = given().find(|given| is_given(given)) {
                let section = if std::ptr::eq(unused, &tls.certificate) { "tls" } else { "site" };
                let problem = "is for `listen_tls`, which is not set; `listen_tls = [\":443\"]` \
                    accepts connections with TLS";
                self.report(section, "certificate", unused.origin, problem.into());
            }
        } else if !given().any(is_given) && !tls.auto.value {
            let problem = "needs a certificate; set `certificate` and `key` in `[tls]`, or in a \
                `[[site]]`, or `auto = true` in `[tls]`";
            self.report("", "listen_tls", top.listen_tls.origin, problem.into());
        }
        let client_ca = self.readable("tls", "client_ca", &tls.client_ca);
        match (tls.client_auth.value, &client_ca) {
            (ClientAuth::None, Some(_)) => {
                let problem = "is for `client_auth`, which is \"none\"; set it to \"optional\" or \
                    \"required\"";
                self.report("tls", "client_ca", tls.client_ca.origin, problem.into());
            }
            (ClientAuth::Optional | ClientAuth::Required, None) => {
                let problem = "needs `client_ca`, the file with the authorities whose clients are \
                    known";
                self.report("tls", "client_auth", tls.client_auth.origin, problem.into());
            }
            _ => {}
        }
        if let Some(secret) = &tls.redis_secret.value {
            let problem = if tls.redis.value.is_none() {
                "is for `redis`, which is not set; name the Redis server there"
            } else if secret.reveal().chars().count() < SHORTEST_SECRET {
                "is too short; take 16 characters at least, drawn at random"
            } else {
                ""
            };
            if !problem.is_empty() {
                self.report("tls", "redis_secret", tls.redis_secret.origin, problem.into());
            }
        }
        Tls {
            redis_secret: tls.redis_secret.value.clone(),
            auto: tls.auto.value,
            certificates,
            minimum: tls.minimum.value,
            client_auth: tls.client_auth.value,
            client_ca,
            unknown_name: tls.unknown_name.value,
            redis: tier(
                &tls.redis.value,
                &tls.redis_password.value,
                tls.redis_database.value,
                &tls.redis_prefix.value,
                tls.redis_timeout.value,
            ),
        }
    }

    /// What is set for TLS for one site.
    pub(super) fn site_tls(&mut self, site: &option::Site) -> SiteTls {
        SiteTls {
            certificates: self.certificates("site", &site.certificate, &site.key),
            hsts: self.hsts(site),
            redirect: site.https_redirect.value,
            port: match site.https_port.value {
                Auto::Is(Count(port)) => u16::try_from(port).ok(),
                Auto::Word => None,
            },
        }
    }

    /// Checks what the list of browsers asks for, too: a host that it refuses would say in vain
    /// that it may stand there.
    fn hsts(&mut self, site: &option::Site) -> Hsts {
        let option::Site { hsts, hsts_subdomains, hsts_preload, .. } = site;
        if hsts_subdomains.value && hsts.value.is_zero() {
            let problem = "is for `hsts`, which is not set; `hsts = \"1h\"` is good to begin with";
            self.report("site", "hsts_subdomains", hsts_subdomains.origin, problem.into());
        }
        if hsts_preload.value && !hsts_subdomains.value {
            let problem = "the list of browsers is for all names below the host, too; set \
                `hsts_subdomains`";
            self.report("site", "hsts_preload", hsts_preload.origin, problem.into());
        }
        if hsts_preload.value && hsts.value < A_YEAR {
            let problem = "the list of browsers asks for a year at least; set `hsts = \"8760h\"`";
            self.report("site", "hsts_preload", hsts_preload.origin, problem.into());
        }
        Hsts {
            lifetime: hsts.value,
            subdomains: hsts_subdomains.value,
            preload: hsts_preload.value,
        }
    }

    fn certificates(
        &mut self,
        section: &str,
        certificates: &Given<Vec<Text>>,
        keys: &Given<Vec<Text>>,
    ) -> Vec<CertificateFiles> {
        // A file may have both.
        let files = if keys.value.is_empty() { certificates } else { keys };
        if files.value.len() != certificates.value.len() {
            let (keys_count, count) = (keys.value.len(), certificates.value.len());
            let problem = format!(
                "has {keys_count} for {count} in `certificate`; each certificate needs its key, in \
                    the same order"
            );
            self.report(section, "key", keys.origin, problem);
        }
        let pairs = certificates.value.iter().zip(&files.value).map(|(certificate, key)| {
            let certificate =
                self.existing(section, "certificate", &certificate.0, certificates.origin);
            let key = self.existing(section, "key", &key.0, files.origin);
            CertificateFiles { certificate, key }
        });
        pairs.collect()
    }

    /// A file that is there.
    pub(super) fn existing(
        &mut self,
        section: &str,
        name: &str,
        path: impl AsRef<Path>,
        origin: Origin,
    ) -> std::path::PathBuf {
        let path = self.absolute(path.as_ref(), origin);
        // Of a key's folder, others than root may not even see what is in it.
        let is_missing =
            path.metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
        if is_missing || path.is_dir() {
            let problem =
                format!("{} is not a file; create it or correct the path", path.display());
            self.report(section, name, origin, problem);
        }
        path
    }

    fn readable(
        &mut self,
        section: &str,
        name: &str,
        given: &Given<Option<std::path::PathBuf>>,
    ) -> Option<std::path::PathBuf> {
        let path = given.value.as_ref()?;
        Some(self.existing(section, name, path, given.origin))
    }

    /// The addresses of both kinds.
    pub(super) fn listeners(&mut self, top: &option::Top) {
        let (plain, tls) = (&top.listen, &top.listen_tls);
        if plain.value.is_empty() && tls.value.is_empty() {
            self.report("", "listen", plain.origin, "must name at least one address".into());
        }
        let mut seen: Vec<SocketAddr> = Vec::new();
        for (name, given) in [("listen", plain), ("listen_tls", tls)] {
            for address in &given.value {
                if seen.contains(address) {
                    let problem = format!("{address} is there twice; remove one");
                    self.report("", name, given.origin, problem);
                }
                seen.push(*address);
            }
        }
    }
}
