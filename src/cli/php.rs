//! `tokamak php`: a script on the command line, with what PHP has when it serves a site: the
//! version, the settings, the environment and the user. It is run by the distribution's own `php`
//! of that version, so that it finds all that scripts of the command line are used to.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use tokamak_config::{CONFIG_VARIABLE, FILE_NAME, Server, Site};
use tokamak_supervisor::identities::Identities;
use tokamak_supervisor::settings;
use tokamak_sys::control::ini_value;
use tokamak_sys::process::{self, Identity};

use super::site;
use crate::program::{self, PhpFiles};

/// The configuration of the packages.
const OF_THE_SYSTEM: &str = "/etc/tokamak/tokamak.toml";

/// `tokamak php`.
#[derive(Args, Debug)]
pub struct Php {
    /// Configuration file; by default tokamak.toml in the current directory, else
    /// /etc/tokamak/tokamak.toml [env: TOKAMAK_CONFIG].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Name of the site; by default the only one, or the one that the current directory belongs to.
    #[arg(long, value_name = "NAME")]
    site: Option<String>,
    /// What PHP gets: a script, by its path or its name in PATH, with arguments, or options of php.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

impl Php {
    /// Becomes PHP. Returns only if it cannot.
    ///
    /// # Errors
    /// Fails if the configuration has errors, the site is not known, its user is another one and
    /// this is not root, or its version has no program for the command line.
    pub fn run(self) -> Result<(), String> {
        let server = self.server()?;
        let here = env::current_dir().map_err(|error| format!("current directory: {error}"))?;
        let index = choose(&server.sites, self.site.as_deref(), &here)?;
        let site = &server.sites[index];
        if !site.has_workers() {
            let name = &site.name;
            return Err(format!("site {name}: its scripts are run by an upstream, not by Tokamak"));
        }
        let files = program::php_files(site.php.as_deref()).map_err(|error| error.to_string())?;
        let php = command_line_of(&files.version)?;
        let identity = Identities::of_one(&server, index).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                format!(
                    "site {} has a user of its own; call this as that user, or as root",
                    site.name
                )
            }
            _ => error.to_string(),
        })?;
        let account = identity.as_ref().and_then(Identity::account);
        let is_other = identity.as_ref().is_some_and(|it| it.uid() != process::effective_uid());
        let own = env::vars_os().filter(|(name, _)| !is_other || !of_the_caller(name));
        let (environment, _) = settings::environment_of_php(site, account, own);
        if let Some(identity) = identity {
            identity.assume().map_err(|error| format!("cannot change the user: {error}"))?;
        }
        let given: Vec<(&String, &String)> =
            site.php_value.iter().chain(&site.php_admin_value).collect();
        let mut command = Command::new(&php);
        command.env_clear().envs(environment).args(options(&files, &given)).args(self.arguments());
        for (nth, (_, value)) in given.iter().enumerate() {
            command.env(variable(nth), value);
        }
        if let Some(folder) = files.scanned {
            command.env("PHP_INI_SCAN_DIR", folder);
        }
        Err(format!("cannot start {}: {}", php.display(), command.exec()))
    }

    fn server(&self) -> Result<Server, String> {
        let is_named = self.config.is_some() || env::var_os(CONFIG_VARIABLE).is_some();
        let of_the_system = Path::new(OF_THE_SYSTEM);
        let here = Path::new(FILE_NAME);
        let counts = here.is_file() && (!process::is_root() || is_roots(here));
        let config = match &self.config {
            None if !is_named && !counts && of_the_system.is_file() => Some(of_the_system.into()),
            None if !is_named && !counts && here.is_file() => {
                return Err(format!(
                    "{FILE_NAME} in this folder may be written by others than root, and would say \
                        as whom the script runs; name it by --config if it is meant"
                ));
            }
            config => config.clone(),
        };
        let request = site::request(None, config, Vec::new()).map_err(|wrong| wrong.to_string())?;
        request.load().map_err(|errors| errors.to_string())
    }

    /// What was typed, with the file of a script that is named as a program.
    fn arguments(&self) -> Vec<OsString> {
        let mut all = self.arguments.clone();
        if let Some(first) = all.first_mut()
            && !Path::new(first).exists()
            && let Some(file) = process::find_in_path(first)
        {
            *first = file.into();
        }
        all
    }
}

/// Whether only root can write to a file of the current directory, or put another one in its
/// place.
fn is_roots(file: &Path) -> bool {
    let is_closed = |path: &Path| {
        path.metadata().is_ok_and(|found| found.uid() == 0 && found.mode() & 0o022 == 0)
    };
    let here = env::current_dir().and_then(|here| here.canonicalize()).unwrap_or_default();
    is_closed(file) && here.ancestors().all(|folder| is_closed(folder) || is_sticky(folder))
}

/// Whether everybody may write to a folder, but only replace what is their own, as in /tmp.
fn is_sticky(folder: &Path) -> bool {
    folder.metadata().is_ok_and(|found| found.uid() == 0 && found.mode() & 0o1000 != 0)
}

/// The site that is meant: the one with this name, the only one, or the one in whose folder, or
/// above whose root, the caller is.
fn choose(sites: &[Site], name: Option<&str>, here: &Path) -> Result<usize, String> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let here = real(here);
    let is_meant = |site: &Site| match name {
        Some(name) => site.name == name || site.hosts.iter().any(|host| host == name),
        None => {
            let root = real(&site.root);
            root.starts_with(&here) || here.starts_with(&root)
        }
    };
    let meant = || sites.iter().enumerate().filter(|(_, site)| is_meant(site));
    match (meant().next(), meant().count(), sites.len()) {
        (_, _, 1) if name.is_none() => Ok(0),
        (Some((index, _)), 1, _) => Ok(index),
        _ => {
            let names = sites.iter().map(|site| site.name.as_str()).collect::<Vec<_>>().join(", ");
            let wrong = match name {
                Some(name) => format!("there is no site `{name}`"),
                None => "this folder belongs to none of the sites, or to several".to_owned(),
            };
            Err(format!("{wrong}; choose one by --site: {names}"))
        }
    }
}

/// The options by which PHP reads the same files and gets the same settings. Their values are in
/// variables, since everybody on the machine sees the options of a program, and only its user the
/// environment; but for values in which PHP replaces something, which it does not do in variables.
fn options(files: &PhpFiles, given: &[(&String, &String)]) -> Vec<OsString> {
    let file = files.file.iter().flat_map(|file| [OsString::from("-c"), file.into()]);
    let given = given.iter().enumerate().flat_map(|(nth, (name, value))| {
        let value = replaced_by_php(value).unwrap_or_else(|| format!("\"${{{}}}\"", variable(nth)));
        [OsString::from("-d"), format!("{name}={value}").into()]
    });
    file.chain(given).collect()
}

/// A value in which PHP replaces variables, constants or words, as it stands in a `php.ini`.
fn replaced_by_php(value: &str) -> Option<String> {
    let is_word = ["none", "null", "on", "yes", "true", "off", "no", "false"]
        .iter()
        .any(|word| value.eq_ignore_ascii_case(word));
    let is_replaced = is_word || value.starts_with("E_") || value.contains("${");
    is_replaced.then(|| ini_value(value))
}

/// The variable with the value of a setting.
fn variable(nth: usize) -> String {
    format!("TOKAMAK_SETTING_{nth}")
}

/// Whether a variable is about the session of the caller, who is another user than the script's.
fn of_the_caller(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    ["LOGNAME", "MAIL", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK"]
        .iter()
        .any(|other| name == other.as_bytes())
        || name.starts_with(b"SUDO_")
}

/// The program of the command line for a version such as `8.2`.
fn command_line_of(version: &str) -> Result<PathBuf, String> {
    let own = format!("php{version}");
    if let Some(found) = process::find_in_path(OsStr::new(&own)) {
        return Ok(found);
    }
    let is_it = |php: &PathBuf| {
        let script = "echo PHP_MAJOR_VERSION, '.', PHP_MINOR_VERSION;";
        let output = Command::new(php).args(["-n", "-r", script]).output();
        output.is_ok_and(|output| output.stdout == version.as_bytes())
    };
    process::find_in_path(OsStr::new("php")).filter(is_it).ok_or_else(|| {
        format!(
            "there is no PHP {version} for the command line; install the package php{version}-cli"
        )
    })
}
