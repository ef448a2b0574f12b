//! `tokamak import`: a configuration of another server as a `tokamak.toml`.

mod php_ini;

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use tokamak_import::{Language, Output, System, import};

use super::{print, report};

/// The exit status if something was not translated as it stands.
const WITH_NOTES: u8 = 3;

/// `tokamak import`.
#[derive(Args, Debug)]
pub struct Import {
    /// The language of the file.
    language: Server,
    /// The file: of the whole server, or of one site.
    file: PathBuf,
    /// Write to this new file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Directory that relative names in the file start from; without it, that of the server's main
    /// file above it.
    #[arg(long, value_name = "DIRECTORY")]
    prefix: Option<PathBuf>,
}

/// A server whose configuration is read.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Server {
    Nginx,
    Apache,
    Caddy,
}

impl Server {
    /// Those of PHP that its sites use, as their folders of settings are named.
    fn sapis(self) -> &'static [&'static str] {
        match self {
            Server::Nginx | Server::Caddy => &["fpm"],
            Server::Apache => &["apache2", "fpm"],
        }
    }
}

impl Import {
    /// Writes the configuration, and what was not translated to standard error.
    ///
    /// The exit status is 0 if all was translated, 3 if there are notes, 1 if nothing was written.
    pub fn run(self) -> ExitCode {
        let language = match self.language {
            Server::Nginx => Language::Nginx,
            Server::Apache => Language::Apache,
            Server::Caddy => Language::Caddy,
        };
        let output = if self.output.is_some() { Output::Folder } else { Output::Text };
        let prefix = self.prefix.as_deref();
        let imported = match import(language, &self.file, prefix, &System, output) {
            Ok(imported) => imported,
            Err(error) => return report(Err(error)),
        };
        let written = match &self.output {
            Some(file) => write_all(file, &imported),
            None => print(imported.toml.as_bytes()).map_err(|error| error.to_string()),
        };
        if let Err(problem) = written {
            return report(Err(problem));
        }
        imported.notes.iter().for_each(|note| eprintln!("{note}"));
        let settings = php_ini::compare(self.language.sapis());
        settings.iter().for_each(|comparison| eprintln!("{}", comparison.text));
        match imported.notes.is_empty() && settings.iter().all(|comparison| comparison.is_same) {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(WITH_NOTES),
        }
    }
}

/// Writes the configuration, and before it what it names.
fn write_all(file: &Path, imported: &tokamak_import::Import) -> Result<(), String> {
    let mut private = OpenOptions::new();
    private.write(true).create_new(true).mode(0o600);
    let mut written: Vec<PathBuf> = Vec::new();
    let mut write = || {
        for (name, text) in &imported.files {
            let file = file.with_file_name(name);
            write_new(&file, text, &private)?;
            written.push(file);
        }
        write_new(file, &imported.toml, OpenOptions::new().write(true).create_new(true))
    };
    let outcome = write();
    if outcome.is_err() {
        // Hashes of passwords are not left behind for nothing.
        written.iter().for_each(|file| drop(fs::remove_file(file)));
    }
    outcome
}

/// Writes a file that does not exist yet: what is there may have been edited.
fn write_new(file: &Path, text: &str, options: &OpenOptions) -> Result<(), String> {
    let written = options.open(file).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            format!("{} exists; name a new file, or remove it", file.display())
        }
        _ => format!("cannot write {}: {error}", file.display()),
    })
}
