//! From the text of `tokamak.toml` to [`Raw`]. Each key is looked up in the table of options; a key
//! that is not there is an error that names the nearest one. Reading goes on after an error, so
//! that one run reports all of them; only a file that is no TOML ends at its first fault.

use std::ops::Range;
use std::path::Path;

use toml_edit::{Document, Item, TableLike, Value};

use crate::error::{Errors, Location};
use crate::literal::Literal;
use crate::option::{self, GROUPS, Section, Values, key_of};
use crate::origin::Origin;
use crate::raw::{Raw, RawSite, Repeated};
use crate::value::{did_you_mean, nearest};

/// Reads `text`, the content of `file`; nothing if it is no TOML.
pub(crate) fn parse(text: &str, file: &Path, errors: &mut Errors) -> Option<Raw> {
    let mut raw = Raw::new(Some(file));
    let document = document(text, file, errors)?;
    let mut reader = Reader { text, file, errors };
    let (root, tables) = (document.as_table(), tables());
    for (name, item) in document.iter() {
        let table = if tables.contains(&name) { raw.table_mut(name) } else { None };
        match (name, table) {
            ("upstream", _) => raw.upstreams = reader.repeated(name, item, reader.line(root, name)),
            ("site", _) => reader.sites(item, reader.line(root, name), &mut raw),
            (_, Some(table)) => reader.section(name, item, table),
            (_, None) => reader.option(root, "", name, item, &tables, &mut raw.top),
        }
    }
    Some(raw)
}

/// The names of the tables of the top level, beside its options.
fn tables() -> Vec<&'static str> {
    let sections = GROUPS.iter().flat_map(|group| group.rows.first()).map(|row| row.section);
    sections.filter(|section| !section.is_empty() && !section.contains('.')).collect()
}

/// Keys of a `[[pool]]`; each means what it means for a `[[site]]`.
const POOL_KEYS: &[&str] = &["root", "mode", "worker", "boot", "warm", "keep"];

/// Reads the pools of `text`, the content of `file`, each with its name; nothing if it is no TOML.
pub(crate) fn parse_pools(
    text: &str,
    file: &Path,
    errors: &mut Errors,
) -> Option<Vec<(String, RawSite)>> {
    let document = document(text, file, errors)?;
    let mut reader = Reader { text, file, errors };
    let mut pools = Vec::new();
    for (name, item) in document.iter() {
        let line = reader.line(document.as_table(), name);
        if name == "pool" {
            pools = reader.pools(item, line);
        } else {
            reader.report(line, name, "unknown key; the keys here are pool".into());
        }
    }
    Some(pools)
}

fn document<'t>(text: &'t str, file: &Path, errors: &mut Errors) -> Option<Document<&'t str>> {
    Document::parse(text)
        .map_err(|error| {
            let line = error.span().map(|span| line_at(text, span.start));
            let mut problem =
                format!("this is not TOML: {}", error.message().trim().replace('\n', "; "));
            if let Some(key) = error.span().filter(|_| problem.ends_with("duplicate key")) {
                problem = format!("{problem} `{}`", &text[key]);
            }
            errors.add(Location::File(file.to_owned(), line), "", problem);
        })
        .ok()
}

struct Reader<'a> {
    text: &'a str,
    file: &'a Path,
    errors: &'a mut Errors,
}

impl Reader<'_> {
    fn sites(&mut self, item: &Item, line: Option<usize>, raw: &mut Raw) {
        for (table, origin) in self.tables("site", item, line) {
            let mut site = RawSite::new(origin);
            for (name, item) in table.iter() {
                match name {
                    "pool" => self.section("site.pool", item, &mut site.pool),
                    "mercure" => self.section("site.mercure", item, &mut site.mercure),
                    "route" => {
                        site.routes = self.repeated("site.route", item, self.line(table, name))
                    }
                    "rule" => site.rules = self.repeated("site.rule", item, self.line(table, name)),
                    _ => {
                        let tables = ["pool", "mercure", "route", "rule"];
                        self.option(table, "site", name, item, &tables, &mut site.site);
                    }
                }
            }
            raw.sites.push(site);
        }
    }

    fn pools(&mut self, item: &Item, line: Option<usize>) -> Vec<(String, RawSite)> {
        let mut pools = Vec::new();
        for (table, origin) in self.tables("pool", item, line) {
            let mut site = RawSite::new(origin);
            let mut pool = None;
            for (name, item) in table.iter() {
                let line = self.line(table, name);
                match name {
                    "name" => pool = item.as_str().map(str::to_owned),
                    _ if POOL_KEYS.contains(&name) => {
                        self.option(table, "pool", name, item, &[], &mut site.site)
                    }
                    _ => {
                        let problem = format!(
                            "unknown key; the keys here are name, {}",
                            POOL_KEYS.join(", ")
                        );
                        self.report(line, &key_of("pool", name), problem);
                    }
                }
            }
            match pool {
                Some(pool) => pools.push((pool, site)),
                None => {
                    let line = if let Origin::File(line) = origin { Some(line) } else { None };
                    self.report(
                        line,
                        "pool.name",
                        "not set; name a pool of the php-fpm configuration".into(),
                    );
                }
            }
        }
        pools
    }

    /// A list of tables that have nothing in them but options.
    fn repeated<S: Section>(
        &mut self,
        section: &str,
        item: &Item,
        line: Option<usize>,
    ) -> Vec<Repeated<S>> {
        let mut all = Vec::new();
        for (table, origin) in self.tables(section, item, line) {
            let mut one = Repeated::<S>::new(origin);
            for (name, item) in table.iter() {
                self.option(table, section, name, item, &[], &mut one.values);
            }
            all.push(one);
        }
        all
    }

    /// The tables of a list, each with its place.
    fn tables<'i>(
        &mut self,
        section: &str,
        item: &'i Item,
        line: Option<usize>,
    ) -> Vec<(&'i dyn TableLike, Origin)> {
        let tables: Vec<(&dyn TableLike, Option<Range<usize>>)> =
            if let Some(tables) = item.as_array_of_tables() {
                tables.iter().map(|table| (table as &dyn TableLike, table.span())).collect()
            } else if let Some(array) =
                item.as_array().filter(|array| array.iter().all(Value::is_inline_table))
            {
                let tables = array.iter().filter_map(Value::as_inline_table);
                tables.map(|table| (table as &dyn TableLike, table.span())).collect()
            } else {
                let problem =
                    format!("must be a list of tables; write `[[{section}]]`, with two brackets");
                self.report(line, section, problem);
                return Vec::new();
            };
        let origin = |span: Range<usize>| Origin::File(line_at(self.text, span.start));
        tables
            .into_iter()
            .map(|(table, span)| (table, span.map_or(Origin::Default, origin)))
            .collect()
    }

    fn section(&mut self, section: &str, item: &Item, values: &mut dyn Values) {
        let Some(table) = item.as_table_like() else {
            let line = item.span().map(|span| line_at(self.text, span.start));
            return self.report(
                line,
                section,
                format!("is a table; write `[{section}]` on a line of its own"),
            );
        };
        for (name, item) in table.iter() {
            self.option(table, section, name, item, &[], values);
        }
    }

    fn option(
        &mut self,
        table: &dyn TableLike,
        section: &str,
        name: &str,
        item: &Item,
        tables: &[&str],
        values: &mut dyn Values,
    ) {
        let line = self.line(table, name);
        let names = values.rows().iter().map(|row| row.name);
        if !names.clone().any(|known| known == name) {
            let names: Vec<&str> = names.chain(tables.iter().copied()).collect();
            return self.report(line, &key_of(section, name), unknown(section, name, &names));
        }
        let origin = line.map_or(Origin::Default, Origin::File);
        for complaint in values.put(name, &Literal::of(item), origin).err().unwrap_or_default() {
            let mut key = key_of(section, name);
            let mut line = line;
            if let Some((entry, offset)) = complaint.inside {
                key = key_of(&key, &entry);
                line = offset.map(|offset| line_at(self.text, offset)).or(line);
            }
            self.report(line, &key, complaint.problem);
        }
    }

    fn report(&mut self, line: Option<usize>, key: &str, problem: String) {
        self.errors.add(Location::File(self.file.to_owned(), line), key, problem);
    }

    fn line(&self, table: &dyn TableLike, name: &str) -> Option<usize> {
        let start = table.key(name)?.span()?.start;
        Some(line_at(self.text, start))
    }
}

/// What to say about a name that is no option of `section`.
fn unknown(section: &str, name: &str, names: &[&str]) -> String {
    let elsewhere: Vec<String> = option::rows()
        .filter(|row| row.name == name && row.section != section)
        .map(|row| place_of(row.section))
        .collect();
    if !elsewhere.is_empty() {
        return format!("unknown here; it belongs to {}", elsewhere.join(" or "));
    }
    match nearest(name, names) {
        Some(_) => format!("unknown key{}", did_you_mean(name, names)),
        None => format!("unknown key; the keys here are {}", names.join(", ")),
    }
}

fn place_of(section: &str) -> String {
    match section {
        "" => "the top of the file, before the first table".into(),
        "upstream" | "site" | "site.route" | "site.rule" => format!("[[{section}]]"),
        other => format!("[{other}]"),
    }
}

/// The line, counted from 1, of a byte offset.
fn line_at(text: &str, offset: usize) -> usize {
    let before = &text.as_bytes()[..offset.min(text.len())];
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}
