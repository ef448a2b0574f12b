//! Reads the file and what it includes, line by line, into sections. What a value means with others
//! is judged later.

use std::fs;
use std::io;
use std::path::Path;

use crate::directive::{self, Row};
use crate::ini::{self, Lookup, Statement};
use crate::message::{Level, Message};
use crate::paths;
use crate::raw;
use crate::value;

/// Files within files.
const DEEPEST: usize = 5;

/// What the files say.
pub struct Sections {
    /// `[global]`
    pub global: raw::Global,
    /// The pools in the order in which their names come first.
    pub pools: Vec<raw::Pool>,
}

/// Reads a file. `prefix` is what relative includes are below. The messages say what is wrong, or
/// only worth knowing.
pub fn read(
    file: &Path,
    prefix: Option<&str>,
    variables: Lookup<'_>,
    messages: &mut Vec<Message>,
) -> Result<Sections, Message> {
    let sections = Sections { global: raw::Global::default(), pools: Vec::new() };
    let mut reader = Reader { sections, current: None, depth: 0, prefix, variables, messages };
    reader.file(file)?;
    Ok(reader.sections)
}

struct Reader<'a> {
    sections: Sections,
    /// The pool whose section this is; `None`: `[global]`.
    current: Option<usize>,
    depth: usize,
    prefix: Option<&'a str>,
    variables: Lookup<'a>,
    messages: &'a mut Vec<Message>,
}

fn error(text: String) -> Message {
    Message::new(Level::Error, text)
}

impl Reader<'_> {
    fn file(&mut self, file: &Path) -> Result<(), Message> {
        let name = file.display().to_string();
        if name.is_empty() {
            return Err(error("configuration filename is empty".into()));
        }
        let bytes = fs::read(file).map_err(|reason| {
            Message::of_system(format!("failed to open configuration file '{name}'"), &reason)
        })?;
        if self.depth == DEEPEST {
            return Err(error("failed to include more than 5 files recursively".into()));
        }
        self.depth += 1;
        for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let at = format!("[{name}:{}]", number + 1);
            let line =
                str::from_utf8(line).map_err(|_| error(format!("{at} this is not valid UTF-8")))?;
            let statements = ini::parse(line, self.variables)
                .map_err(|reason| error(format!("{at} {reason}")))?;
            let mut include = None;
            for statement in statements {
                self.statement(statement, &at, &mut include)
                    .map_err(|reason| error(format!("{at} {reason}")))?;
            }
            if let Some(pattern) = include {
                self.include(&pattern, &name, number + 1)?;
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn include(&mut self, pattern: &str, from: &str, line: usize) -> Result<(), Message> {
        let pattern = paths::below(pattern, self.prefix.unwrap_or(paths::PREFIX));
        let files = paths::matches(&pattern).map_err(|reason| {
            error(format!("Unable to globalize '{pattern}' ({reason}) from {from} at line {line}."))
        })?;
        if files.is_empty() {
            self.messages.push(Message::new(
                Level::Warning,
                format!(
                    "Nothing matches the include pattern '{pattern}' from {from} at line {line}."
                ),
            ));
        }
        for file in files.iter().filter(|file| !file.is_dir()) {
            self.file(file).map_err(|reason| {
                self.messages.push(reason);
                error(format!("Unable to include {} from {from} at line {line}", file.display()))
            })?;
        }
        Ok(())
    }

    fn statement(
        &mut self,
        statement: Statement,
        at: &str,
        include: &mut Option<String>,
    ) -> Result<(), String> {
        match statement {
            Statement::Section(name) => {
                self.section(&name);
                Ok(())
            }
            Statement::Entry { value: None, .. } => {
                Err("value is NULL for a ZEND_INI_PARSER_ENTRY".into())
            }
            Statement::Entry { name, value: Some(pattern) } if name == "include" => {
                match include.replace(pattern) {
                    None => Ok(()),
                    Some(_) => Err("two includes at the same time !".into()),
                }
            }
            Statement::Entry { name, value: Some(value) } => self.entry(&name, &value, at),
            Statement::Item { name, key, value } => self.item(&name, key, &value),
        }
    }

    fn section(&mut self, name: &str) {
        if name.eq_ignore_ascii_case("global") {
            self.current = None;
            return;
        }
        let pools = &mut self.sections.pools;
        let known = pools.iter().position(|pool| pool.name.eq_ignore_ascii_case(name));
        self.current = Some(known.unwrap_or_else(|| {
            pools.push(raw::Pool::new(name));
            pools.len() - 1
        }));
    }

    fn entry(&mut self, name: &str, value: &str, at: &str) -> Result<(), String> {
        match self.current {
            None => set(
                directive::GLOBAL,
                &mut self.sections.global,
                name,
                value,
                None,
                at,
                self.messages,
            ),
            Some(current) => {
                let pool = &mut self.sections.pools[current];
                let own = pool.name.clone();
                set(directive::POOL, pool, name, value, Some(&own), at, self.messages)
            }
        }
    }

    fn item(&mut self, name: &str, key: String, value: &str) -> Result<(), String> {
        let suppresses = name == "access.suppress_path";
        if suppresses && !key.is_empty() {
            return Err("Keys provided to field 'access.suppress_path' are ignored".into());
        }
        if suppresses && !value.starts_with('/') {
            return Err(
                "Values provided to field 'access.suppress_path' must begin with '/'".into()
            );
        }
        if !suppresses && key.is_empty() {
            return Err(format!("You must provide a key for field '{name}'"));
        }
        let Some(current) = self.current else {
            return Err("Array are not allowed in the global section".into());
        };
        let pool = &mut self.sections.pools[current];
        let Some(list) = directive::LISTS.iter().find(|list| list.name == name) else {
            return Err(format!("unknown directive '{name}'"));
        };
        if list.name == "env" && value.is_empty() {
            return Err("empty value".into());
        }
        let read = if list.flags {
            value::boolean(value).map(|flag| if flag { "1" } else { "0" }.to_string())
        } else {
            value::with_pool(value, Some(&pool.name))
        };
        let value =
            read.map_err(|reason| format!("error while parsing '{name}[{key}]' : {reason}"))?;
        match list.pairs {
            Some(pairs) => pairs(pool).push((key, value)),
            None => pool.access_suppress_paths.push(value),
        }
        Ok(())
    }
}

fn set<T>(
    rows: &[Row<T>],
    low: &mut T,
    name: &str,
    value: &str,
    pool: Option<&str>,
    at: &str,
    messages: &mut Vec<Message>,
) -> Result<(), String> {
    let Some(row) = Row::named(rows, name) else { return Err(format!("unknown entry '{name}'")) };
    row.set(low, value, pool)
        .map_err(|reason| format!("unable to parse value for entry '{}': {reason}", row.name))?;
    if let Some(why) = row.idle {
        let text = format!("{at} '{}' has no effect here: {why}", row.name);
        messages.push(Message::new(Level::Warning, text));
    }
    Ok(())
}

/// Whether a file can be opened for writing at its end, as the server will.
pub fn can_append(file: &str) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new().append(true).create(true).mode(0o600).open(file).map(drop)
}
