//! Reads a site's configuration of nginx, Apache or Caddy, and writes a `tokamak.toml` for what it
//! understands. What it does not understand it lists, line by line.
//!
//! It never guesses, and never opens what was closed: where a refusal, an authentication or a whole
//! location cannot be translated, its paths are refused in what is written, and a note says so.
//!
//! One parser for each language makes one description of sites (`model`), which is fitted
//! together (`combine`), checked and written.

mod apache;
mod caddy;
mod combine;
mod condition;
mod derivative;
mod directive;
mod hsts;
mod log_format;
mod model;
mod nginx;
mod note;
mod pattern;
mod service;
mod settings;
mod source;
#[cfg(test)]
mod tests;
mod unit;
mod users;
mod validity;
mod within;
mod write;

use std::path::Path;

pub use note::{Kind, Note};
pub use source::{Disk, Place, System, Unreadable};

/// A language of configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// nginx: its whole configuration, or the file of a site.
    Nginx,
    /// Apache: its whole configuration, the file of a site, or an `.htaccess`.
    Apache,
    /// Caddy: a Caddyfile, or a file that it imports.
    Caddy,
}

impl Language {
    /// All of them.
    pub const ALL: [Language; 3] = [Language::Nginx, Language::Apache, Language::Caddy];
}

/// Where the result goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// It is one text.
    Text,
    /// It is a file in a folder, where others may be written beside it.
    Folder,
}

/// What was imported.
#[derive(Debug)]
pub struct Import {
    /// The `tokamak.toml`.
    pub toml: String,
    /// Files that it names, for its own folder: their names and their texts. They may
    /// hold hashes of passwords, so only their owner may read them.
    pub files: Vec<(String, String)>,
    /// What was not translated, in the order of the lines.
    pub notes: Vec<Note>,
}

/// Imports a configuration. `prefix` is the directory that relative names in it start from; without
/// one it is looked for above the file.
///
/// # Errors
/// Fails if the file cannot be read, or is not of this language.
pub fn import(
    language: Language,
    file: &Path,
    prefix: Option<&Path>,
    disk: &dyn Disk,
    output: Output,
) -> Result<Import, Unreadable> {
    let mut notes = note::Notes::default();
    let mut description = match language {
        Language::Nginx => nginx::read(file, prefix, disk, &mut notes)?,
        Language::Apache => apache::read(file, prefix, disk, &mut notes)?,
        Language::Caddy => caddy::read(file, prefix, disk, output, &mut notes)?,
    };
    combine::combine(&mut description, disk, &mut notes);
    if description.sites.is_empty() {
        let notes = notes.into_sorted();
        let reasons: String = notes.iter().map(|note| format!("\n{note}")).collect();
        let problem = format!("nothing of it is a site that could be served{reasons}");
        return Err(Unreadable { place: Place::start(file), problem });
    }
    let notes = notes.into_sorted();
    let toml = write::write(&description, &notes);
    let mut files = std::mem::take(&mut description.files);
    let rules = description.sites.iter().flat_map(|site| {
        site.rules.iter().chain(site.mounts.iter().flat_map(|mount| &mount.rules))
    });
    let named: Vec<&str> = rules.filter_map(|rule| Some(&*rule.asks()?.users)).collect();
    files.retain(|(name, _)| named.contains(&&**name));
    Ok(Import { toml, files, notes })
}
