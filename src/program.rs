//! Finds and starts the programs beside the server, which are never linked: `tokamak-php` runs
//! PHP, and `tokamak-import` reads configurations of other servers.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program beside the server.
pub struct Program {
    name: &'static str,
    /// The environment variable that names its file, for packagers and for trying another build.
    pub variable: &'static str,
    /// What it does, as the manual says it.
    pub about: &'static str,
}

/// All of them, in the order of the manual.
pub const ALL: [&Program; 2] = [&PHP, &IMPORT];

const PHP: Program =
    Program { name: "tokamak-php", variable: "TOKAMAK_PHP", about: "The program that runs PHP" };

const IMPORT: Program = Program {
    name: "tokamak-import",
    variable: "TOKAMAK_IMPORT",
    about: "The program that reads configurations of other servers",
};

/// The newest version of PHP that has a package beside this program's; in other builds, that of
/// Debian 12.
const PACKAGED: &str = match option_env!("TOKAMAK_PACKAGED_PHP") {
    Some(version) => version,
    None => "8.2",
};

impl Program {
    /// What its variable says, if that is set.
    fn named(&self) -> Option<OsString> {
        std::env::var_os(self.variable).filter(|named| !named.is_empty())
    }

    /// Where it is: where its variable says, else beside the server, else in the `libexec/tokamak`
    /// next to the server's directory, else in the search path.
    fn find(&self) -> io::Result<PathBuf> {
        let Program { name, variable, .. } = self;
        if let Some(named) = self.named() {
            let named = PathBuf::from(named);
            return if named.is_file() {
                Ok(named)
            } else {
                Err(missing(format!("{} (from {variable}) is not a file", named.display())))
            };
        }
        let own = std::env::current_exe()?;
        let places = places(&own);
        let mut files = places.iter().map(|place| place.join(name));
        files.find(|file| file.is_file()).ok_or_else(|| {
            missing(format!(
                "cannot find {name} beside {}, in {}, nor in PATH; `make install` puts it there, \
                 or set {variable} to its path",
                own.display(),
                places[1].display()
            ))
        })
    }
}

/// Becomes a program, with this variable of the environment. Returns only if it cannot.
fn exec<A: AsRef<OsStr>>(
    file: &Path,
    arguments: impl IntoIterator<Item = A>,
    variable: Option<(&str, PathBuf)>,
) -> io::Result<()> {
    let error = Command::new(file).args(arguments).envs(variable).exec();
    Err(io::Error::new(error.kind(), format!("cannot start {}: {error}", file.display())))
}

/// Where the program of a version of PHP is, such as `8.4`: `tokamak-php8.4`. Of no version:
/// `tokamak-php`, else the newest that is installed.
///
/// # Errors
/// Fails if it is not installed; the message names those that are.
pub fn tokamak_php(version: Option<&str>) -> io::Result<PathBuf> {
    let Some(version) = version else {
        return PHP.find().or_else(|none| match PHP.named() {
            Some(_) => Err(none),
            None => installed()?.pop_last().map(|(_, newest)| newest).ok_or_else(|| {
                missing(format!(
                    "nothing here runs PHP: `apt install tokamak-php{PACKAGED}` installs it \
                     ({none})"
                ))
            }),
        });
    };
    let mut installed = installed()?;
    let found = parse_version(version).and_then(|version| installed.remove(&version));
    found.ok_or_else(|| {
        let others = installed.keys().map(|(major, minor)| format!("{major}.{minor}"));
        let others = match others.collect::<Vec<_>>() {
            none if none.is_empty() => "no other version is".to_owned(),
            others => format!("installed: {}", others.join(", ")),
        };
        missing(format!(
            "there is no program for PHP {version}, tokamak-php{version}; {others}; \
             `apt install tokamak-php{version}` installs it, or choose another version by the key \
             `php`"
        ))
    })
}

/// The programs of versions of PHP, each at the first place where it is found.
fn installed() -> io::Result<BTreeMap<(u8, u8), PathBuf>> {
    let mut found = BTreeMap::new();
    for place in places(&std::env::current_exe()?) {
        for file in std::fs::read_dir(place).into_iter().flatten().flatten() {
            let name = file.file_name();
            let version = name.to_str().and_then(|name| name.strip_prefix(PHP.name));
            if let Some(version) = version.and_then(parse_version)
                && file.path().is_file()
            {
                found.entry(version).or_insert(file.path());
            }
        }
    }
    Ok(found)
}

fn parse_version(text: &str) -> Option<(u8, u8)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Where programs are looked for: beside `own`, in the `libexec/tokamak` next to its directory, and
/// in the search path.
fn places(own: &Path) -> Vec<PathBuf> {
    let beside = own.parent().unwrap_or(Path::new("/"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let first = [beside.to_owned(), beside.join("../libexec/tokamak")];
    first.into_iter().chain(std::env::split_paths(&path)).collect()
}

/// What a PHP reads its settings of.
pub struct PhpFiles {
    /// Its version, such as `8.2`.
    pub version: String,
    /// The `php.ini`, if there is one, else its folder.
    pub file: Option<PathBuf>,
    /// The folder of further files.
    pub scanned: Option<PathBuf>,
}

/// Where the PHP of a version has its settings, as it says itself.
///
/// # Errors
/// Fails if it is not installed or cannot be started.
pub fn php_files(version: Option<&str>) -> io::Result<PhpFiles> {
    let php = tokamak_php(version)?;
    let output = Command::new(&php).args(["--show", "info"]).output();
    let output = output.map_err(|error| {
        io::Error::new(error.kind(), format!("cannot start {}: {error}", php.display()))
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let value = |name: &str| {
        let mut lines =
            text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(" => "));
        lines.next().filter(|value| *value != "(none)")
    };
    let version = value("PHP Version").map(|version| version.splitn(3, '.').take(2));
    let version = version.map(|parts| parts.collect::<Vec<_>>().join("."));
    let file = value("Loaded Configuration File").or(value("Configuration File (php.ini) Path"));
    Ok(PhpFiles {
        version: version.ok_or_else(|| {
            io::Error::other(format!("{} does not say its version", php.display()))
        })?,
        file: file.map(PathBuf::from),
        scanned: value("Scan this dir for additional .ini files").map(PathBuf::from),
    })
}

/// Becomes `tokamak-php --info`, which prints what PHP says about itself. Returns only if it
/// cannot.
pub fn show_php_info() -> io::Result<()> {
    exec(&tokamak_php(None)?, ["--info"], None)
}

/// Becomes `tokamak-php --show`, which prints what php-fpm does with `-v`, `-m` and `-i`. Returns
/// only if it cannot.
pub fn show_php(what: &str, settings: &[(String, String)]) -> io::Result<()> {
    let settings = settings.iter().map(|(name, value)| format!("{name}={value}"));
    let arguments = ["--show".to_owned(), what.to_owned()];
    exec(&tokamak_php(None)?, arguments.into_iter().chain(settings), None)
}

/// Becomes `tokamak-import`, which gets the path of `tokamak-php`: it compares settings of PHP.
/// Returns only if it cannot.
pub fn import(arguments: [impl AsRef<OsStr>; 4]) -> io::Result<()> {
    exec(&IMPORT.find()?, arguments, tokamak_php(None).ok().map(|php| (PHP.variable, php)))
}

fn missing(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, what)
}
