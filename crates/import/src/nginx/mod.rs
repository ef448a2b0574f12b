//! nginx: one location answers a request, and settings of inner blocks replace those of outer ones.
//! Here rules add up, so what is refused anywhere is refused.

mod access;
mod block;
mod condition;
mod constants;
mod directives;
mod exceptions;
mod fallback;
mod groups;
mod known;
mod limits;
mod location;
mod locations;
mod logs;
mod matcher;
mod missing;
mod mount;
mod nested;
mod one_value;
mod parse;
mod path_info;
mod php;
mod plan;
mod proxy;
mod reader;
mod regions;
mod rewrite;
mod scripts;
mod server;
mod service;
mod sizes;
mod sorting;
mod steps;
mod target;
mod zones;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::directive::Directive;
use crate::model::Description;
use crate::note::Notes;
use crate::source::{Disk, Place, Unreadable};
use block::Block;
use condition::{Flags, PathInfos};
use reader::Reader;

/// Reads a configuration of nginx.
pub(crate) fn read(
    file: &Path,
    prefix: Option<&Path>,
    disk: &dyn Disk,
    notes: &mut Notes,
) -> Result<Description, Unreadable> {
    let prefix = prefix.map_or_else(|| prefix_of(file, disk), Path::to_owned);
    let directives = parse::load(file, &prefix, disk, notes)?;
    let description = Description::default();
    let proxies = proxies(&directives);
    let zones = zones::zones(&directives);
    let mut reader = Reader {
        description,
        prefix,
        proxies,
        log_formats: BTreeMap::new(),
        zones,
        upstreams: service::upstreams(&directives),
        around: Block::default(),
        depth: 0,
        in_location: false,
        waits: Vec::new(),
        has_log: has_log(&directives),
        named: Vec::new(),
        captures: false,
        maps: condition::maps(&directives),
        flags: Flags::new(),
        path_infos: PathInfos::new(),
        disk,
        notes,
    };
    reader.alone(file, &directives);
    reader.main(&directives);
    reader.write_timeouts();
    if reader.description.sites.is_empty() {
        let problem = "it has no `server { … }`".to_owned();
        return Err(Unreadable { place: Place::start(file), problem });
    }
    Ok(reader.description)
}

/// The proxies that any block lets name clients.
fn proxies(directives: &[Directive]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for directive in directives {
        if directive.name == "set_real_ip_from" {
            found.insert(directive.arg(0).to_owned());
        }
        found.append(&mut proxies(directive.inner()));
    }
    found
}

/// Whether any block names an access log.
fn has_log(directives: &[Directive]) -> bool {
    let is_log = |it: &Directive| it.name == "access_log" && it.arg(0) != "off";
    directives.iter().any(|it| is_log(it) || has_log(it.inner()))
}

/// The directory of `nginx.conf` above a file, from which nginx resolves names.
fn prefix_of(file: &Path, disk: &dyn Disk) -> PathBuf {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let mut above = absolute.ancestors().skip(1);
    let own = absolute.parent().unwrap_or(Path::new("/"));
    above.find(|folder| disk.is_file(&folder.join("nginx.conf"))).unwrap_or(own).to_owned()
}

impl Reader<'_> {
    /// The file of one site: what the main file says of all sites is not in it.
    fn alone(&mut self, file: &Path, directives: &[Directive]) {
        let main = self.prefix.join("nginx.conf");
        let is_main = directives.iter().any(|it| it.name == "http" && it.block.is_some());
        if !is_main && self.disk.is_file(&main) && !is_same(file, &main) {
            let reason = format!(
                "what {} says of all sites, as of who may see them, of logs and of limits, is not \
                    read; import that file instead",
                main.display()
            );
            self.notes.left(&Place::start(file), "", reason);
        }
    }

    /// The top of a file: that of the whole server, or of one site.
    fn main(&mut self, directives: &[Directive]) {
        let mut own = Vec::new();
        for directive in directives {
            match (&*directive.name, &directive.block) {
                ("http", Some(block)) => self.http(block),
                ("events", Some(_)) => {}
                (name @ ("stream" | "mail"), Some(_)) => {
                    let reason = "Tokamak serves HTTP; keep nginx for what it passes on";
                    self.notes.left(&directive.place, name, reason);
                }
                ("user", None) => {
                    self.description.user = Some(directive.arg(0).to_owned());
                    self.description.group = directive.args.get(1).cloned();
                }
                ("error_log", None) => self.error_log(directive),
                ("worker_shutdown_timeout", None) => self.drain(directive),
                (_, None) if known::is_silent(directive) => {}
                _ => own.push(directive.clone()),
            }
        }
        if !own.is_empty() {
            self.http(&own);
        }
    }

    fn http(&mut self, directives: &[Directive]) {
        let mut outer = Block::default();
        // Its directives hold for all servers, wherever they stand.
        let is_server = |it: &&Directive| it.name == "server" && it.block.is_some();
        let rest: Vec<Directive> = directives.iter().filter(|it| !is_server(it)).cloned().collect();
        self.read(&rest, &mut outer);
        // What nginx has without a word of the file; Tokamak's own limit is higher.
        let body = outer.body.as_ref().map_or(sizes::BODY, |body| body.most);
        if outer.body.is_some() || self.description.body.is_none() {
            self.description.body = Some(body);
        }
        self.description.access_log = outer.access_log.clone();
        for directive in directives.iter().filter(is_server) {
            let block = directive.inner();
            self.server(&directive.place, block, &outer);
        }
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    let whole = |path: &Path| std::path::absolute(path).ok();
    whole(one) == whole(other)
}
