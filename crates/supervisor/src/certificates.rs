//! The certificates and keys of the server: read here, because the front may not, and given to each
//! front. When a file changes, it is read again; a broken one leaves the old one in use.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokamak_config::{CertificateFiles, Server};
use tokamak_sys::memory_file;
use tokamak_tls::{
    Challenge, Credentials, Entry, Pair, PairFiles, ROTATE_AFTER, TICKET_KEYS, TicketKey,
};

use crate::automatic::{Automatic, Lookup};
use crate::local::{self, Local};
use crate::log::{self, Level};
use crate::watch::since;
use crate::watched::{Watched, mark, read};

/// Time between two looks at the files. With a tenth, a server with hundreds of certificates would
/// do little else; with ten times more, the wait after a renewal would be felt.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Time for which a client may use a ticket. For that long a key is kept that encrypts no longer.
const TICKETS_LAST: Duration = ROTATE_AFTER.saturating_mul(TICKET_KEYS as u32 - 1);

/// A certificate that expires within this time is worth a warning: programs that renew do so 30
/// days before.
const SOON: Duration = Duration::from_secs(7 * 24 * 3600);

/// The certificates of a server.
#[derive(Debug, Default)]
pub struct Certificates {
    pairs: BTreeMap<CertificateFiles, Watched<PairFiles>>,
    authorities: BTreeMap<PathBuf, Watched<Vec<u8>>>,
    local: Local,
    /// Those that the server has got by itself.
    automatic: Automatic,
    /// What authorities are to find now.
    challenges: Vec<Challenge>,
    /// The first one encrypts.
    tickets: Vec<TicketKey>,
    /// Keys that encrypted before, with the time when each was replaced, the last one first.
    /// Clients have tickets of them.
    replaced: Vec<(TicketKey, u64)>,
    rotated: u64,
    looked: u64,
    /// Whether something has changed that fronts do not know yet.
    changed: bool,
}

impl Certificates {
    /// Those of a server that starts now.
    pub fn new(state_dir: &Path, now: u64) -> Certificates {
        Certificates {
            tickets: vec![TicketKey::random()],
            rotated: now,
            automatic: Automatic::below(state_dir),
            ..Certificates::default()
        }
    }

    /// Reads all certificates of a configuration.
    ///
    /// # Errors
    /// Fails with the first file that cannot be used. Then nothing has changed.
    pub fn load(&mut self, server: &Server) -> Result<(), String> {
        self.local.prepare(server, clock()).map_err(|problem| format!("tls.auto: {problem}"))?;
        let mut pairs = Vec::new();
        for (place, files) in pairs_of(server).chain(local_pairs(server)) {
            let marks = vec![mark(&files.certificate), mark(&files.key)];
            let pair = read_pair(&files).map_err(|problem| format!("{place}: {problem}"))?;
            pairs.push((files, pair, marks));
        }
        let mut authorities = Vec::new();
        for path in server.tls.client_ca.iter().filter(|_| is_served(server)) {
            let marks = vec![mark(path)];
            let file = read_authorities(path).map_err(|problem| format!("tls: {problem}"))?;
            authorities.push((path.clone(), file, marks));
        }
        for (files, pair, marks) in pairs {
            self.changed |= self.pairs.get(&files).is_none_or(|old| old.value != pair);
            warn_of(&files, &pair);
            self.pairs.insert(files, Watched::new(pair, marks));
        }
        self.changed |= self.automatic.load(server);
        for (path, file, marks) in authorities {
            self.changed |= self.authorities.get(&path).is_none_or(|old| old.value != file);
            self.authorities.insert(path, Watched::new(file, marks));
        }
        Ok(())
    }

    /// Forgets the certificates that none of these configurations needs.
    pub fn keep(&mut self, servers: &[&Server]) {
        let needed = |files: &CertificateFiles| {
            let all = |server| pairs_of(server).chain(local_pairs(server));
            servers.iter().flat_map(|server| all(server)).any(|(_, other)| other == *files)
        };
        self.pairs.retain(|files, _| needed(files));
        self.local.keep(servers);
        self.automatic.keep(servers);
        self.authorities.retain(|path, _| {
            servers.iter().any(|server| server.tls.client_ca.as_ref() == Some(path))
        });
    }

    /// All that a front of this configuration needs, if it serves TLS.
    pub fn of(&self, server: &Server) -> Option<Credentials> {
        if !is_served(server) {
            return None;
        }
        let pairs = |files: &[CertificateFiles]| {
            let known = files.iter().filter_map(|files| self.pairs.get(files));
            known.map(|watched| watched.value.clone()).collect::<Vec<_>>()
        };
        let of_all = Entry { pairs: pairs(&server.tls.certificates), ..Entry::default() };
        let of_site = |site: &tokamak_config::Site| Entry {
            names: site.hosts.clone(),
            pairs: pairs(&site.tls.certificates),
            is_for_itself: false,
        };
        let of_name = |(name, files): (String, CertificateFiles)| Entry {
            names: vec![name],
            pairs: pairs(&[files]),
            is_for_itself: false,
        };
        let entries = [of_all].into_iter().chain(server.sites.iter().map(of_site));
        let entries = entries.chain(local::files(server).map(of_name));
        let entries = entries.filter(|entry| !entry.pairs.is_empty());
        let client_ca = server.tls.client_ca.as_ref();
        Some(Credentials {
            entries: entries.chain(self.automatic.entries(server)).collect(),
            client_ca: client_ca.and_then(|path| Some(self.authorities.get(path)?.value.clone())),
            tickets: self.tickets.clone(),
            challenges: self.challenges.clone(),
        })
    }

    /// The same, as a front gets it that runs already.
    ///
    /// # Errors
    /// Fails if there is no memory.
    pub fn memory_file(&self, server: &Server) -> io::Result<Option<OwnedFd>> {
        let credentials = self.of(server);
        credentials.map(|all| memory_file::write("tokamak-tls", &all.encode())).transpose()
    }

    /// Uses keys of session tickets that other nodes use, too. What was encrypted here until now
    /// stays readable.
    pub fn share_tickets(&mut self, keys: Vec<TicketKey>, now: u64) {
        self.use_tickets(keys, now);
        self.rotated = now;
    }

    /// Uses these keys, and those that clients may have tickets of.
    fn use_tickets(&mut self, mut keys: Vec<TicketKey>, now: u64) {
        self.replaced.retain(|(_, from)| since(*from, now) < TICKETS_LAST);
        if let Some(last) = self.tickets.first().filter(|last| Some(*last) != keys.first()) {
            self.replaced.insert(0, (last.clone(), now));
            self.replaced.truncate(TICKET_KEYS);
        }
        for (key, _) in &self.replaced {
            if !keys.contains(key) {
                keys.push(key.clone());
            }
        }
        self.changed |= keys != self.tickets;
        self.tickets = keys;
    }

    /// Looks at the files, if it is time for that. Whether the fronts are to get new ones.
    pub fn tick(&mut self, now: u64) -> bool {
        if since(self.looked, now) >= LOOK_EVERY {
            self.looked = now;
            self.local.tick(now, clock());
            self.look();
            if since(self.rotated, now) >= ROTATE_AFTER {
                let kept = self.tickets.iter().take(TICKET_KEYS - 1).cloned();
                let keys = std::iter::once(TicketKey::random()).chain(kept).collect();
                self.use_tickets(keys, now);
                self.rotated = now;
            }
        }
        std::mem::take(&mut self.changed)
    }

    /// The certificate for a name that the server has got by itself.
    pub fn automatic(&self, name: &str) -> Option<&PairFiles> {
        self.automatic.files(name)
    }

    /// The names that were first seen in a handshake, and have a certificate, which may have ended.
    pub fn on_demand(&self) -> impl Iterator<Item = &str> {
        self.automatic.on_demand()
    }

    /// Whether there is a certificate for a name that was first seen in a handshake.
    pub fn has_on_demand(&mut self, name: &str) -> bool {
        let found = self.automatic.find_on_demand(name);
        // A front that asks does not have it yet.
        self.changed |= found != Lookup::Nothing;
        found != Lookup::Nothing
    }

    /// Forgets a name that was first seen in a handshake.
    pub fn forget_on_demand(&mut self, name: &str) {
        self.automatic.forget_on_demand(name);
    }

    /// Uses a certificate that the server has got by itself.
    /// `is_on_demand`: the name was first seen in a handshake.
    pub fn renew(&mut self, name: &str, pair: PairFiles, is_on_demand: bool) {
        self.changed |= self.automatic.renew(name, pair, is_on_demand);
    }

    /// Lets authorities find these challenges, and no others.
    pub fn present(&mut self, challenges: Vec<Challenge>) {
        self.changed |= self.challenges != challenges;
        self.challenges = challenges;
    }

    fn look(&mut self) {
        self.changed |= self.automatic.look();
        for (files, watched) in &mut self.pairs {
            if !watched.look(&[&files.certificate, &files.key]) {
                continue;
            }
            match read_pair(files).and_then(|pair| is_better(&watched.value, pair)) {
                Ok(pair) if pair == watched.value => {}
                Ok(pair) => {
                    let path = files.certificate.display();
                    log::line(Level::Info, format_args!("new certificate in use: {path}"));
                    warn_of(files, &pair);
                    watched.value = pair;
                    self.changed = true;
                }
                Err(problem) => keep_old(&problem),
            }
        }
        for (path, watched) in &mut self.authorities {
            if !watched.look(&[path]) {
                continue;
            }
            match read_authorities(path) {
                Ok(file) => {
                    self.changed |= file != watched.value;
                    watched.value = file;
                }
                Err(problem) => keep_old(&problem),
            }
        }
    }
}

/// Whether a configuration has listeners for TLS.
fn is_served(server: &Server) -> bool {
    !server.listen_tls.is_empty()
}

/// The files of a configuration, each with the table that names them.
fn pairs_of(server: &Server) -> impl Iterator<Item = (String, CertificateFiles)> {
    let of_all = server.tls.certificates.iter().map(|files| ("tls".to_owned(), files.clone()));
    let of_sites = server.sites.iter().flat_map(|site| {
        site.tls.certificates.iter().map(|files| (format!("site {}", site.name), files.clone()))
    });
    of_all.chain(of_sites).filter(|_| is_served(server))
}

/// The same for files of the server's own making.
fn local_pairs(server: &Server) -> impl Iterator<Item = (String, CertificateFiles)> {
    local::files(server).map(|(_, files)| ("tls.auto".to_owned(), files))
}

/// What is wrong with the certificates of a configuration, and what may be meant otherwise.
///
/// # Errors
/// Fails with the first file that cannot be used.
pub fn verify(server: &Server) -> Result<Vec<String>, String> {
    let mut warnings = Vec::new();
    let local = server.local_names();
    if local.contains("*.localhost") {
        let advice = "browsers and curl take no certificate for `*.localhost`; name each host, as in \
            `shop.localhost`";
        warnings.push(format!("tls.auto: {advice}"));
    }
    for (place, files) in pairs_of(server) {
        let pair = read_pair(&files).map_err(|problem| format!("{place}: {problem}"))?;
        let of_pair = warnings_of(&files, &pair);
        warnings.extend(of_pair.map(|warning| format!("{place}: {warning}")));
    }
    for site in &server.sites {
        let pairs = match &site.tls.certificates[..] {
            [] => &server.tls.certificates[..],
            own => own,
        };
        let public = server.public_names();
        let is_automatic = |host: &&String| local.contains(&***host) || public.contains(&***host);
        let hosts = site.hosts.iter().filter(|host| !is_automatic(host));
        for host in hosts.filter(|_| server.serves_with_tls(site)) {
            // A certificate for all names below one is for each of them.
            let is_for = |files: &CertificateFiles| {
                let pair = read_pair(files).ok().and_then(|files| facts(&files));
                pair.is_some_and(|certificate| {
                    certificate.is_for(host) || certificate.names.contains(host)
                })
            };
            if !pairs.iter().any(is_for) {
                let name = &site.name;
                warnings.push(format!("site {name}: no certificate is for the host `{host}`"));
            }
        }
    }
    if let Some(path) = server.tls.client_ca.as_ref().filter(|_| is_served(server)) {
        read_authorities(path).map_err(|problem| format!("tls: {problem}"))?;
    }
    Ok(warnings)
}

/// Reads and checks a certificate and its key.
pub fn read_pair(files: &CertificateFiles) -> Result<PairFiles, String> {
    let pair = PairFiles { certificate: read(&files.certificate)?, key: read(&files.key)? };
    Pair::read(&pair.certificate, &pair.key).map_err(|error| {
        let path = if error.is_in_certificate() { &files.certificate } else { &files.key };
        format!("{}: {error}", path.display())
    })?;
    Ok(pair)
}

/// Reads and checks a file of authorities.
pub fn read_authorities(path: &Path) -> Result<Vec<u8>, String> {
    let file = read(path)?;
    tokamak_tls::authorities(&file).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(file)
}

/// A new pair, unless it has expired and the old one has not.
fn is_better(old: &PairFiles, new: PairFiles) -> Result<PairFiles, String> {
    let now = clock();
    let has_expired = |pair| facts(pair).is_some_and(|certificate| certificate.has_expired(now));
    if has_expired(&new) && !has_expired(old) {
        return Err("the new certificate has expired already".into());
    }
    Ok(new)
}

fn facts(pair: &PairFiles) -> Option<tokamak_tls::Certificate> {
    Pair::read(&pair.certificate, &pair.key).ok().map(|pair| pair.certificate)
}

fn clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn keep_old(problem: &str) {
    let advice = "the old one stays in use; correct the file, it is read when it changes";
    log::line(Level::Error, format_args!("certificate not taken: {problem}; {advice}"));
}

fn warn_of(files: &CertificateFiles, pair: &PairFiles) {
    for warning in warnings_of(files, pair) {
        log::line(Level::Warn, format_args!("{warning}"));
    }
}

/// What is to be said of a certificate that can be used.
fn warnings_of(files: &CertificateFiles, pair: &PairFiles) -> impl Iterator<Item = String> {
    end_of(files, pair).into_iter().chain(nameless(files, pair))
}

/// What is to be said of a certificate with a common name only.
fn nameless(files: &CertificateFiles, pair: &PairFiles) -> Option<String> {
    let certificate = facts(pair).filter(|certificate| certificate.is_common)?;
    let (path, subject) = (files.certificate.display(), certificate.subject);
    Some(format!(
        "the certificate {path} for {subject} has no subjectAltName, so browsers and most other \
         clients refuse it; get one that has its host names there"
    ))
}

/// What is to be said of a certificate that ends soon, or has ended.
fn end_of(files: &CertificateFiles, pair: &PairFiles) -> Option<String> {
    let (certificate, now) = (facts(pair)?, clock());
    let verb = match () {
        () if certificate.has_expired(now) => "has expired",
        () if certificate.has_expired(now + SOON) => "expires soon",
        () => return None,
    };
    let (path, end) = (files.certificate.display(), certificate.valid_until());
    Some(format!("the certificate {path} {verb}: it is valid until {end}; renew it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_keys_stay_beside_shared_ones_while_clients_have_tickets_of_them() {
        let start = Duration::from_secs(100);
        let at = |time: Duration| (start + time).as_nanos() as u64;
        let mut certificates = Certificates::new(Path::new("/none"), at(Duration::ZERO));
        let own = certificates.tickets[0].clone();
        let shared: Vec<TicketKey> = (0..3).map(|_| TicketKey::random()).collect();
        let minute = Duration::from_secs(60);
        let last = TICKETS_LAST - Duration::from_secs(1);
        for time in [Duration::ZERO, minute, last] {
            certificates.share_tickets(shared.clone(), at(time));
            assert_eq!(
                certificates.tickets,
                [&shared[..], std::slice::from_ref(&own)].concat(),
                "{time:?}"
            );
        }
        assert!(certificates.tick(at(last)), "the first time they change");
        certificates.share_tickets(shared.clone(), at(last));
        assert!(!certificates.tick(at(last)), "they are the same");
        certificates.share_tickets(shared.clone(), at(TICKETS_LAST));
        assert_eq!(certificates.tickets, shared);

        // Without the others there are keys of this server alone again.
        let later = TICKETS_LAST + ROTATE_AFTER;
        assert!(certificates.tick(at(later)));
        assert_eq!(certificates.tickets[1..], shared[..2]);
        assert!(!shared.contains(&certificates.tickets[0]));
    }

    #[test]
    fn of_own_keys_the_last_three_are_kept() {
        let mut certificates = Certificates::new(Path::new("/none"), 0);
        let mut all = certificates.tickets.clone();
        for round in 1..=5u32 {
            assert!(certificates.tick((ROTATE_AFTER * round).as_nanos() as u64));
            all.insert(0, certificates.tickets[0].clone());
            all.truncate(TICKET_KEYS);
            assert_eq!(certificates.tickets, all, "round {round}");
        }
    }
}
