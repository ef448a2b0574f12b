//! What was typed: every option with its value, checked by itself, and its origin. Nothing here
//! looks at the file system or at two options together; that is `resolve`'s.
//!
//! Precedence is the order of the calls: the defaults, then the file (`parse`), then
//! [`Raw::environment`], then [`Raw::flags`]. Each overwrites what it finds.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use crate::error::{Errors, Location};
use crate::literal::Literal;
use crate::option::{self, Row, Section, Values, key_of};
use crate::origin::{Given, Origin};
use crate::value::{Text, ValueError};

/// One of several tables with the same name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Repeated<S> {
    /// Where its heading stands.
    pub origin: Origin,
    pub values: S,
}

impl<S: Section> Repeated<S> {
    pub fn new(origin: Origin) -> Repeated<S> {
        Repeated { origin, values: S::defaults() }
    }
}

/// One `[[site]]` with its `[site.pool]`, its `[site.mercure]`, its `[[site.route]]`s and its
/// `[[site.rule]]`s.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RawSite {
    /// Where its heading stands.
    pub origin: Origin,
    pub site: option::Site,
    pub pool: option::Pool,
    pub mercure: option::Mercure,
    pub routes: Vec<Repeated<option::Route>>,
    pub rules: Vec<Repeated<option::Rule>>,
}

impl RawSite {
    pub fn new(origin: Origin) -> RawSite {
        RawSite {
            origin,
            site: Section::defaults(),
            pool: Section::defaults(),
            mercure: Section::defaults(),
            routes: Vec::new(),
            rules: Vec::new(),
        }
    }

    /// The table of this name, if a site has one of it.
    fn table(&mut self, section: &str) -> Option<&mut dyn Values> {
        match section {
            "site" => Some(&mut self.site),
            "site.pool" => Some(&mut self.pool),
            "site.mercure" => Some(&mut self.mercure),
            _ => None,
        }
    }
}

fn unless_set<T>(option: &mut Given<T>, value: T, origin: Origin) {
    if option.origin == Origin::Default {
        *option = Given { value, origin };
    }
}

/// The whole configuration as typed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Raw {
    /// The file, if there is one.
    pub file: Option<PathBuf>,
    pub top: option::Top,
    pub tls: option::Tls,
    pub acme: option::Acme,
    pub limits: option::Limits,
    pub http2: option::Http2,
    pub http3: option::Http3,
    pub timeouts: option::Timeouts,
    pub log: option::Log,
    pub lua: option::Lua,
    pub cache: option::Cache,
    pub trace: option::Trace,
    pub upstreams: Vec<Repeated<option::Upstream>>,
    pub sites: Vec<RawSite>,
}

impl Raw {
    /// Every option at its default, no site.
    pub fn new(file: Option<&Path>) -> Raw {
        Raw {
            file: file.map(Path::to_owned),
            top: Section::defaults(),
            tls: Section::defaults(),
            acme: Section::defaults(),
            limits: Section::defaults(),
            http2: Section::defaults(),
            http3: Section::defaults(),
            timeouts: Section::defaults(),
            log: Section::defaults(),
            lua: Section::defaults(),
            cache: Section::defaults(),
            trace: Section::defaults(),
            upstreams: Vec::new(),
            sites: Vec::new(),
        }
    }

    /// The table of this name, if there is one of it; the top level has none.
    pub fn table(&self, section: &str) -> Option<&dyn Values> {
        match section {
            "" => Some(&self.top),
            "tls" => Some(&self.tls),
            "acme" => Some(&self.acme),
            "limits" => Some(&self.limits),
            "http2" => Some(&self.http2),
            "http3" => Some(&self.http3),
            "timeouts" => Some(&self.timeouts),
            "log" => Some(&self.log),
            "lua" => Some(&self.lua),
            "cache" => Some(&self.cache),
            "trace" => Some(&self.trace),
            _ => None,
        }
    }

    /// As [`Raw::table`], to set its options.
    pub fn table_mut(&mut self, section: &str) -> Option<&mut dyn Values> {
        match section {
            "" => Some(&mut self.top),
            "tls" => Some(&mut self.tls),
            "acme" => Some(&mut self.acme),
            "limits" => Some(&mut self.limits),
            "http2" => Some(&mut self.http2),
            "http3" => Some(&mut self.http3),
            "timeouts" => Some(&mut self.timeouts),
            "log" => Some(&mut self.log),
            "lua" => Some(&mut self.lua),
            "cache" => Some(&mut self.cache),
            "trace" => Some(&mut self.trace),
            _ => None,
        }
    }

    /// Sets every option that has a variable in the environment. Empty variables count as not set,
    /// as compose files and unit files produce them. Unknown `TOKAMAK_*` names are let be: an
    /// orchestrator makes such names (`TOKAMAK_PORT`, `TOKAMAK_SERVICE_HOST`) for a service called
    /// tokamak.
    pub fn environment(&mut self, environment: &[(String, String)], errors: &mut Errors) {
        for row in option::rows() {
            let Some(variable) = row.variable else { continue };
            let set =
                environment.iter().find(|(name, value)| name == variable && !value.is_empty());
            if let Some((_, value)) = set {
                self.override_with(row, value, Origin::Environment(variable), errors);
            }
        }
    }

    /// Sets every option that was given as a flag.
    pub fn flags(&mut self, flags: &[(&'static str, String)], errors: &mut Errors) {
        for (flag, value) in flags {
            match option::row_of_flag(flag) {
                Some(row) => self.override_with(row, value, Origin::Flag(flag), errors),
                None => errors.add(Location::Flag(flag), "", "sets no option"),
            }
        }
    }

    fn override_with(
        &mut self,
        row: &'static Row,
        word: &str,
        origin: Origin,
        errors: &mut Errors,
    ) {
        let literal = Literal::Word(word.to_owned());
        let table = match self.table_mut(row.section) {
            Some(table) => Ok(Some(table)),
            None => self.only_site().map(|site| site.table(row.section)),
        };
        let put = match table {
            Ok(Some(table)) => table.put(row.name, &literal, origin),
            Ok(None) => unreachable!("no option of a repeated table has a flag or a variable"),
            Err(problem) => Err(vec![problem.into()]),
        };
        for complaint in put.err().unwrap_or_default() {
            self.report(errors, row.section, row.name, origin, complaint);
        }
    }

    /// The one site that a flag, a variable or `PATH` means; made if the file has none.
    pub fn only_site(&mut self) -> Result<&mut RawSite, String> {
        if self.sites.is_empty() {
            self.sites.push(RawSite::new(Origin::Default));
        }
        match &mut self.sites[..] {
            [site] => Ok(site),
            sites => Err(format!(
                "the configuration has {} sites, and this cannot tell which one it is for; set it \
                    in their tables",
                sites.len()
            )),
        }
    }

    /// Sets what `domain` stands for, where that was not set.
    pub fn spell_out_domain(&mut self, web_user: Option<&str>, errors: &mut Errors) {
        let domain = self.top.domain.clone();
        if domain.value.is_empty() {
            return;
        }
        let origin = domain.origin;
        let site = match self.only_site() {
            Ok(site) => &mut site.site,
            Err(problem) => return self.report(errors, "", "domain", origin, problem),
        };
        unless_set(&mut site.host, domain.value, origin);
        unless_set(&mut site.https_redirect, true, origin);
        unless_set(&mut self.tls.auto, true, origin);
        // A name may have addresses of both kinds, and an authority may look at any of them.
        let every =
            |port| vec![(Ipv4Addr::UNSPECIFIED, port).into(), (Ipv6Addr::UNSPECIFIED, port).into()];
        unless_set(&mut self.top.listen, every(80), origin);
        unless_set(&mut self.top.listen_tls, every(443), origin);
        // What is open to the internet is not to run as root.
        if let Some(user) = web_user {
            unless_set(&mut self.top.user, Some(Text(user.into())), origin);
        }
    }

    /// Writes down what is wrong with one option.
    pub fn report(
        &self,
        errors: &mut Errors,
        section: &str,
        name: &str,
        origin: Origin,
        complaint: impl Into<ValueError>,
    ) {
        let complaint = complaint.into();
        let mut key = key_of(section, name);
        if let Some((entry, _)) = &complaint.inside {
            key = key_of(&key, entry);
        }
        errors.add(self.location(origin), key, complaint.problem);
    }

    /// Where something of this origin was typed.
    pub fn location(&self, origin: Origin) -> Location {
        match (origin, &self.file) {
            (Origin::Flag(name), _) => Location::Flag(name),
            (Origin::Environment(name), _) => Location::Environment(name),
            (Origin::File(line), Some(file)) => Location::File(file.clone(), Some(line)),
            (Origin::Default, Some(file)) => Location::File(file.clone(), None),
            (Origin::Default | Origin::File(_), None) => Location::Default,
        }
    }
}
