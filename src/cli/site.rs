//! `tokamak serve` and `tokamak check`: the same flags, so that a check sees what the server would
//! see.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use tokamak_config::option::{self, Kind};
use tokamak_config::{CONFIG_VARIABLE, Errors, FILE_NAME, Request, Server};
use tokamak_sys::process;

use super::{environment, print, report};

/// Flags that decide what is served, and how.
#[derive(Args, Debug)]
pub struct Serve {
    /// Directory of the application (its public/index.php, index.php or static files), or one
    /// script; by default the current directory.
    path: Option<PathBuf>,
    #[arg(long, value_name = "FILE", help = config_help())]
    config: Option<PathBuf>,
    #[arg(long, value_name = "ADDRESS", help = help("--listen"))]
    listen: Vec<String>,
    #[arg(long, value_name = "ADDRESS", help = help("--listen-tls"))]
    listen_tls: Vec<String>,
    #[arg(long, value_name = "NAME", help = help("--domain"))]
    domain: Vec<String>,
    #[arg(long, value_name = "NAME", help = help("--user"))]
    user: Option<String>,
    #[arg(long, value_parser = choices("--mode"), help = help("--mode"))]
    mode: Option<String>,
    #[arg(long, value_name = "VERSION", help = help("--php"))]
    php: Option<String>,
    #[arg(long, value_name = "FILE", help = help("--worker"))]
    worker: Option<String>,
    #[arg(long, value_name = "FILE", help = help("--boot"))]
    boot: Option<String>,
    #[arg(long, value_name = "N|auto", help = help("--workers"))]
    workers: Option<String>,
    #[arg(long, value_name = "PATH", help = help("--control"))]
    control: Option<String>,
    #[arg(long, value_name = "PATH|off", help = help("--access-log"))]
    access_log: Option<String>,
    #[arg(long, value_name = "FORMAT", help = help("--access-format"))]
    access_format: Option<String>,
}

/// `tokamak check`.
#[derive(Args, Debug)]
pub struct Check {
    #[command(flatten)]
    serve: Serve,
    /// Print the effective configuration, with every option and every path spelled out, as a
    /// configuration file.
    #[arg(long)]
    print: bool,
}

fn config_help() -> String {
    format!(
        "Configuration file; by default {FILE_NAME} in PATH, if it is there [env: {CONFIG_VARIABLE}]"
    )
}

fn help(flag: &str) -> String {
    let row =
        option::row_of_flag(flag).expect("a test compares the flags with the table of options");
    let text = row.about.trim_end_matches('.').replace('`', "");
    match row.variable {
        Some(variable) => format!("{text} [env: {variable}]"),
        None => text,
    }
}

fn choices(flag: &str) -> PossibleValuesParser {
    let kind = option::row_of_flag(flag).map(|row| row.kind);
    let names: Vec<&'static str> = match kind {
        Some(Kind::Choice(names)) => names.to_vec(),
        Some(Kind::WordOr(word, Kind::Choice(names))) => [&[word], *names].concat(),
        _ => Vec::new(),
    };
    PossibleValuesParser::new(names)
}

/// Why there is no configuration to work with.
#[derive(Debug)]
pub enum Wrong {
    /// The configuration has errors.
    Configuration(Errors),
    /// Not even the current directory is known.
    Directory(std::io::Error),
}

impl From<Errors> for Wrong {
    fn from(errors: Errors) -> Wrong {
        Wrong::Configuration(errors)
    }
}

impl Wrong {
    /// Shows it: each error on a line of its own that begins with its place, as compilers do.
    pub fn report(&self) -> ExitCode {
        match self {
            Wrong::Directory(_) => report(Err(self.to_string())),
            Wrong::Configuration(errors) => {
                eprintln!("{errors}");
                let errors = plural(errors.count(), "error");
                report(Err(format!("the configuration has {errors}")))
            }
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Wrong::Directory(error) => write!(f, "cannot find the current directory: {error}"),
            Wrong::Configuration(errors) => write!(f, "{errors}"),
        }
    }
}

impl Serve {
    /// All that decides the configuration: these flags, the environment, the current directory.
    pub fn request(self) -> Result<Request, Wrong> {
        let joined =
            |values: Vec<String>| Some(values.join(",")).filter(|values| !values.is_empty());
        let flags = [
            ("--listen", joined(self.listen)),
            ("--listen-tls", joined(self.listen_tls)),
            ("--domain", joined(self.domain)),
            ("--user", self.user),
            ("--mode", self.mode),
            ("--php", self.php),
            ("--worker", self.worker),
            ("--boot", self.boot),
            ("--workers", self.workers),
            ("--control", self.control),
            ("--access-log", self.access_log),
            ("--access-format", self.access_format),
        ];
        let flags = flags.into_iter().filter_map(|(flag, value)| Some((flag, value?))).collect();
        request(self.path, self.config, flags)
    }
}

/// These flags, with the environment and the current directory.
pub fn request(
    path: Option<PathBuf>,
    config: Option<PathBuf>,
    flags: Vec<(&'static str, String)>,
) -> Result<Request, Wrong> {
    let directory = process::current_directory().map_err(Wrong::Directory)?;
    Ok(Request { path, config, flags, environment: environment(), directory })
}

impl Check {
    /// Says whether the server would start with this configuration.
    pub fn run(self) -> ExitCode {
        match self.serve.request().and_then(|request| Ok(request.load()?)) {
            Ok(server) if self.print => report(print(server.to_toml().as_bytes())),
            Ok(server) => report(verify(&server)),
            Err(wrong) => wrong.report(),
        }
    }
}

/// What only a look at the machine's users, certificates and files of passwords shows, and what may
/// not be meant.
fn verify(server: &Server) -> Result<(), String> {
    let closed = tokamak_supervisor::verify_identities(server)?;
    tokamak_supervisor::verify_users(server)?;
    tokamak_supervisor::read_upstream_tls(server)?;
    if let Some(folder) = &server.temp_dir {
        tokamak_front::verify_temp_dir(folder).map_err(|error| error.to_string())?;
    }
    for site in server.sites.iter().filter(|site| site.has_workers()) {
        let found = crate::program::tokamak_php(site.php.as_deref());
        found.map_err(|error| format!("site {}: {error}", site.name))?;
    }
    let certificates = tokamak_supervisor::verify_certificates(server)?;
    for warning in closed.into_iter().chain(certificates).chain(tokamak_config::warnings(server)) {
        eprintln!("tokamak: warning: {warning}");
    }
    let good = format!("configuration is good: {}\n", summary(server));
    print(good.as_bytes()).map_err(|error| error.to_string())
}

fn summary(server: &Server) -> String {
    let plain = server.listen.iter().map(|address| format!("http://{address}"));
    let tls = server.listen_tls.iter().map(|address| format!("https://{address}"));
    let listen: Vec<String> = plain.chain(tls).collect();
    let workers = server
        .sites
        .iter()
        .filter(|site| site.has_workers())
        .map(|site| site.pool.size.max())
        .sum();
    let (sites, workers) = (plural(server.sites.len(), "site"), plural(workers, "PHP worker"));
    format!("{sites}, at most {workers}, {}", listen.join(" "))
}

fn plural(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
