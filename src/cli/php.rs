//! `tokamak php`: a script on the command line, with what PHP has when it serves a site: the
//! version, the settings, the environment and the user. It is run by the distribution's own `php`
//! of that version, so that it finds all that scripts of the command line are used to.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use tokamak_config::{CONFIG_VARIABLE, FILE_NAME, Server, Site};
use tokamak_supervisor::identities::Identities;
use tokamak_supervisor::settings;

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
        let identities = Identities::of(&server).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                format!(
                    "site {} has a user of its own; call this as that user, or as root",
                    site.name
                )
            }
            _ => error.to_string(),
        })?;
        let identity = identities.site(index);
        let account = identity.and_then(|identity| identity.account());
        let (environment, _) = settings::environment_of_php(site, account, env::vars_os());
        if let Some(identity) = identity {
            identity.assume().map_err(|error| format!("cannot change the user: {error}"))?;
        }
        let mut command = Command::new(&php);
        command
            .env_clear()
            .envs(environment)
            .args(settings_of(&files, site))
            .args(self.arguments());
        if let Some(folder) = files.scanned {
            command.env("PHP_INI_SCAN_DIR", folder);
        }
        Err(format!("cannot start {}: {}", php.display(), command.exec()))
    }

    fn server(&self) -> Result<Server, String> {
        let is_named = self.config.is_some() || env::var_os(CONFIG_VARIABLE).is_some();
        let of_the_system = Path::new(OF_THE_SYSTEM);
        let is_missing = !is_named && !Path::new(FILE_NAME).is_file() && of_the_system.is_file();
        let config = if is_missing { Some(of_the_system.into()) } else { self.config.clone() };
        let request = site::request(None, config, Vec::new()).map_err(|wrong| wrong.to_string())?;
        request.load().map_err(|errors| errors.to_string())
    }

    /// What was typed, with the file of a script that is named as a program.
    fn arguments(&self) -> Vec<OsString> {
        let mut all = self.arguments.clone();
        if let Some(first) = all.first_mut()
            && !Path::new(first).exists()
            && let Some(file) = in_path(first)
        {
            *first = file.into();
        }
        all
    }
}

/// The site that is meant: the one with this name, the only one, or the one in whose folder, or
/// above whose root, the caller is.
fn choose(sites: &[Site], name: Option<&str>, here: &Path) -> Result<usize, String> {
    let is_meant = |site: &Site| match name {
        Some(name) => site.name == name || site.hosts.iter().any(|host| host == name),
        None => site.root.starts_with(here) || here.starts_with(&site.root),
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

/// The options by which PHP reads the same files and gets the same settings.
fn settings_of(files: &PhpFiles, site: &Site) -> Vec<OsString> {
    let file = files.file.iter().flat_map(|file| [OsString::from("-c"), file.into()]);
    let pairs = site.php_value.iter().chain(&site.php_admin_value);
    let given = pairs.flat_map(|(name, value)| {
        [OsString::from("-d"), format!("{name}={}", quoted(value)).into()]
    });
    file.chain(given).collect()
}

/// A value as `php -d` reads it: in single quotes nothing is replaced, and what stands side by side
/// is one text.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', "'\"'\"'"))
}

/// The program of the command line for a version such as `8.2`.
fn command_line_of(version: &str) -> Result<PathBuf, String> {
    let own = format!("php{version}");
    if let Some(found) = in_path(OsStr::new(&own)) {
        return Ok(found);
    }
    let is_it = |php: &PathBuf| {
        let script = "echo PHP_MAJOR_VERSION, '.', PHP_MINOR_VERSION;";
        let output = Command::new(php).args(["-n", "-r", script]).output();
        output.is_ok_and(|output| output.stdout == version.as_bytes())
    };
    in_path(OsStr::new("php")).filter(is_it).ok_or_else(|| {
        format!(
            "there is no PHP {version} for the command line; install the package php{version}-cli"
        )
    })
}

/// A program by its name.
fn in_path(name: &OsStr) -> Option<PathBuf> {
    let is_plain = !name.as_encoded_bytes().contains(&b'/') && !name.is_empty();
    let path = env::var_os("PATH").filter(|_| is_plain)?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
