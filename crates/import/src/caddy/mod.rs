//! Caddy: directives have an order of their own, and the first one that answers ends it. Here rules
//! add up, so what is refused anywhere is refused. What is not known may be a plugin that guards,
//! so its requests are refused, too.

mod address;
mod condition;
mod fastcgi;
mod handle;
mod log;
mod login;
mod matcher;
mod mount;
mod parse;
mod path;
mod proxy;
mod refuse;
mod rewrite;
mod served;
mod service;
mod site;
mod target;
mod territory;

use std::path::{Path, PathBuf};

use crate::Output;
use crate::directive::Directive;
use crate::model::{Description, Listen, Rule, Scope, Site};
use crate::note::Notes;
use crate::source::{Disk, Place, Unreadable};
use parse::Section;

/// Global options that tune Caddy, or ask for what Tokamak does anyway.
const TUNING: &[&str] = &[
    "admin",
    "auto_https",
    "debug",
    "frankenphp",
    "default_bind",
    "grace_period",
    "http_port",
    "https_port",
    "log",
    "metrics",
    "ocsp_stapling",
    "order",
    "persist_config",
    "shutdown_delay",
    "skip_install_trust",
    "storage",
    "storage_clean_interval",
];

/// The host of a site for unknown names, beside others that have some: a name of its own is asked
/// for there. Nobody can own this one (RFC 2606).
const UNKNOWN: &str = "unknown.invalid";

/// Reads a Caddyfile.
pub(crate) fn read(
    file: &Path,
    prefix: Option<&Path>,
    disk: &dyn Disk,
    output: Output,
    notes: &mut Notes,
) -> Result<Description, Unreadable> {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let own = absolute.parent().unwrap_or(Path::new("/"));
    let prefix = prefix.map_or_else(|| own.to_owned(), Path::to_owned);
    // Names of files that are imported start from the file, and not from the prefix.
    let around = std::env::current_dir().unwrap_or_default();
    let sections = parse::load(file, &around, disk, notes)?;
    let mut reader = Reader {
        description: Description::default(),
        file: absolute,
        prefix,
        notes,
        disk,
        http: 80,
        https: 443,
        bind: Vec::new(),
        redirects: true,
        hides_clients: false,
        writes_files: output == Output::Folder,
    };
    for section in sections {
        match section.addresses.is_empty() {
            true => reader.options(&section.directives),
            false => reader.section(&section),
        }
    }
    reader.finish(file)
}

/// What is needed while a configuration is read.
struct Reader<'a> {
    description: Description,
    file: PathBuf,
    prefix: PathBuf,
    notes: &'a mut Notes,
    disk: &'a dyn Disk,
    http: u16,
    https: u16,
    bind: Vec<String>,
    /// Whether sites with TLS redirect from the port without it.
    redirects: bool,
    hides_clients: bool,
    /// Whether files may be written beside the configuration.
    writes_files: bool,
}

impl Reader<'_> {
    /// The global options.
    fn options(&mut self, directives: &[Directive]) {
        for directive in directives {
            let first = directive.arg(0);
            match &*directive.name {
                "http_port" => self.http = first.parse().unwrap_or(self.http),
                "https_port" => self.https = first.parse().unwrap_or(self.https),
                "default_bind" => self.bind = directive.args.clone(),
                "auto_https" if first == "disable_redirects" => self.redirects = false,
                "auto_https" if first == "off" => {
                    self.redirects = false;
                    let reason = "sites with names and without certificates get them here";
                    self.notes.left(&directive.place, &directive.line(), reason);
                }
                "servers" => {
                    self.hides_clients = true;
                    let reason = "look at `trusted_proxies`; until then everybody is refused where \
                        addresses of clients decide";
                    self.notes.left(&directive.place, "servers", reason);
                }
                "email" => {
                    let reason = "see `[acme]` for the address that the authority writes to";
                    self.notes.left(&directive.place, &directive.line(), reason);
                }
                name if TUNING.contains(&name) => {}
                _ => {
                    let reason = "no such option, or one that belongs to `[tls]` or `[acme]`";
                    self.notes.left(&directive.place, &directive.line(), reason);
                }
            }
        }
    }

    fn section(&mut self, section: &Section) {
        let mut site = Site::new(section.place.clone());
        self.addresses(section, &mut site);
        if site.listen.is_empty() {
            let reason = "none of its addresses is translated, so the site is left out";
            self.notes.refused(&section.place, &section.addresses.join(", "), reason);
            return;
        }
        self.site(&section.directives, &mut site);
        if site.certificate.is_empty() && site.listen.iter().any(|listen| listen.tls) {
            site.hosts.retain(|host| !host.starts_with("*."));
            if site.hosts.is_empty() {
                let reason = "a certificate for each name that a client asks for, or for `*.`, is \
                    not got by itself; name `certificate` and `key`. The site is left out";
                self.notes.refused(&section.place, &section.addresses.join(", "), reason);
                return;
            }
            self.description.automatic = true;
        }
        self.description.sites.push(site);
    }

    fn addresses(&mut self, section: &Section, site: &mut Site) {
        let binds = section.directives.iter().rfind(|it| it.name == "bind");
        let binds = binds.map_or(&self.bind, |it| &it.args).clone();
        for text in &section.addresses {
            let Some(own) = address::address(text, self.http, self.https) else {
                let reason = "only a host, with `*.` in front, and a port are translated";
                self.notes.left(&section.place, text, reason);
                continue;
            };
            match own.host.is_empty() {
                true => site.is_default = true,
                false if !site.hosts.contains(&own.host) => site.hosts.push(own.host),
                false => {}
            }
            let mut ports = vec![(own.port, own.tls)];
            if own.tls && self.redirects {
                site.https_redirect = true;
                ports.push((self.http, false));
            }
            for (port, tls) in ports {
                match &binds[..] {
                    [] => listen(site, format!(":{port}"), tls),
                    all => all.iter().for_each(|bind| {
                        let bind = if bind == "0.0.0.0" { "" } else { bind };
                        match bind.is_empty() || bind.parse::<std::net::IpAddr>().is_ok() {
                            true if bind.contains(':') => {
                                listen(site, format!("[{bind}]:{port}"), tls);
                            }
                            true => listen(site, format!("{bind}:{port}"), tls),
                            false => {
                                let reason = "only an address is translated, so the site is \
                                    refused";
                                self.notes.refused(&section.place, &format!("bind {bind}"), reason);
                                site.refuse(&section.place);
                                listen(site, format!(":{port}"), tls);
                            }
                        }
                    }),
                }
            }
        }
        // A site for all hosts has the names beside that, too.
        if site.is_default {
            site.hosts.clear();
        }
    }

    /// What holds for all sites together.
    fn finish(self, file: &Path) -> Result<Description, Unreadable> {
        let Reader { mut description, .. } = self;
        let sites = &mut description.sites;
        let root = sites.iter().find_map(|site| site.root.clone());
        let has_services = |site: &Site| site.applications().next().is_some();
        if root.is_none() && !sites.iter().any(has_services) {
            let problem = "no site of it has a `root` that is translated".to_owned();
            return Err(Unreadable { place: Place::start(file), problem });
        }
        // Nothing of a site without a root is served, but its names are refused, too: otherwise
        // the first site would answer for them.
        let is_closed = |site: &&mut Site| site.root.is_none() && !has_services(site);
        for site in sites.iter_mut().filter(is_closed) {
            site.root.clone_from(&root);
            if site.moved.is_none() {
                let place = site.place.clone();
                site.refuse(&place);
            }
        }
        let has_tls = sites.iter().any(|site| site.listen.iter().any(|listen| listen.tls));
        if !has_tls && sites.iter().all(|site| !site.is_default) {
            // Caddy serves nothing for unknown names; here the first site would answer.
            let mut others = Site::new(Place::start(file));
            others.is_default = true;
            others.hosts = vec![UNKNOWN.to_owned()];
            others.root = root;
            others.listen = sites[0].listen.clone();
            let place = others.place.clone();
            others.rules.push(Rule::at(&place, Scope::default()).refuse_all(404));
            sites.push(others);
        }
        let is_alone = sites.len() == 1;
        for site in sites.iter_mut().filter(|site| site.hosts.is_empty() && !is_alone) {
            site.hosts.push(UNKNOWN.to_owned());
        }
        Ok(description)
    }

    /// A name of a file as Caddy resolves it in its working directory, which is the prefix.
    fn path(&self, name: &str) -> Option<String> {
        let is_known = !name.is_empty() && !name.contains(['{', '}']);
        is_known.then(|| {
            let path = self.prefix.join(name).to_string_lossy().into_owned();
            match path.trim_end_matches('/') {
                "" => "/".to_owned(),
                trimmed => trimmed.to_owned(),
            }
        })
    }
}

fn listen(site: &mut Site, address: String, tls: bool) {
    let listen = Listen { address, tls, proxy_protocol: false };
    if !site.listen.contains(&listen) {
        site.listen.push(listen);
    }
}
