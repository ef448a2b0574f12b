//! `tokamak-import`: what `tokamak import` starts. Reads a configuration of another server, and
//! writes a `tokamak.toml` and what could not be translated.

mod php_ini;

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tokamak_import::{Import, Language, Output, System, import};

/// The exit status if something was not translated as it stands.
const WITH_NOTES: u8 = 3;

/// The arguments: a language, a file, the file to write (empty: standard output), and the folder
/// that relative names start from (empty: it is looked for).
fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [language, file, output, prefix] = &arguments[..] else { return usage() };
    let language = match language.to_str() {
        Some("nginx") => Language::Nginx,
        Some("apache") => Language::Apache,
        Some("caddy") => Language::Caddy,
        _ => return usage(),
    };
    let [output, prefix] =
        [output, prefix].map(|path| Some(Path::new(path)).filter(|_| !path.is_empty()));
    run(language, Path::new(file), output, prefix).unwrap_or_else(|reason| {
        eprintln!("tokamak: {reason}");
        ExitCode::FAILURE
    })
}

fn usage() -> ExitCode {
    eprintln!("tokamak-import: started by `tokamak import`, which says what can be typed");
    ExitCode::from(2)
}

/// Writes the configuration, and what was not translated to standard error.
///
/// The exit status is 0 if all was translated, 3 if there are notes, 1 if nothing was written.
fn run(
    language: Language,
    file: &Path,
    output: Option<&Path>,
    prefix: Option<&Path>,
) -> Result<ExitCode, String> {
    let kind = if output.is_some() { Output::Folder } else { Output::Text };
    let imported = import(language, file, prefix, &System, kind).map_err(text)?;
    match output {
        Some(file) => write_all(file, &imported)?,
        None => print(imported.toml.as_bytes()).map_err(text)?,
    }
    imported.notes.iter().for_each(|note| eprintln!("{note}"));
    let settings = php_ini::compare(sapis(language));
    settings.iter().for_each(|comparison| eprintln!("{}", comparison.text));
    let is_same = settings.iter().all(|comparison| comparison.is_same);
    Ok(if is_same && imported.notes.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(WITH_NOTES)
    })
}

/// Those of PHP that sites of this server use, as their folders of settings are named.
fn sapis(language: Language) -> &'static [&'static str] {
    match language {
        Language::Nginx | Language::Caddy => &["fpm"],
        Language::Apache => &["apache2", "fpm"],
    }
}

/// Writes to standard output. A reader that has seen enough (`| head`) is no error.
fn print(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

fn text(error: impl Display) -> String {
    error.to_string()
}

/// Writes the configuration, and before it what it names.
fn write_all(file: &Path, imported: &Import) -> Result<(), String> {
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
