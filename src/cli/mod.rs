//! The command line: what may be typed, and how it is answered. What a value means is the
//! configuration's business, so most flags are passed on as they were typed.

mod anatomy;
mod cache;
mod capacity;
mod demo;
mod fpm;
mod import;
mod leaks;
mod lua_fcgi;
pub mod pages;
mod php;
mod profile;
mod seal_report;
mod site;
mod top;
mod trust;
mod trusted;
mod upstream;

use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use tokamak_config::{STATE_VARIABLES, address, option};
use tokamak_supervisor::client::{self, Target};

pub use anatomy::Anatomy;
pub use cache::Cache;
pub use capacity::Capacity;
pub use demo::Demo;
pub use fpm::Fpm;
pub use import::Import;
pub use leaks::Leaks;
pub use lua_fcgi::LuaFcgi;
pub use php::Php;
pub use profile::Profile;
pub use seal_report::SealReport;
pub use site::{Check, Serve};
pub use top::Top;
pub use trust::Trust;
pub use upstream::Upstream;

/// An application server that boots an application once and serves every request from the booted
/// state.
#[derive(Debug, Parser)]
#[command(name = "tokamak", version, max_term_width = 100)]
struct Tokamak {
    #[command(subcommand)]
    command: Command,
}

/// One job of the program.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve a PHP application.
    Serve(Serve),
    /// Stand in for php-fpm: its configuration, its command line, its sockets for web servers.
    Fpm(Fpm),
    /// Run Lua scripts for web servers, which hand over requests by FastCGI.
    LuaFcgi(LuaFcgi),
    /// Check a configuration: every error with file, line and key.
    Check(Check),
    /// Write a configuration for a site from that of nginx, Apache or Caddy, and list what is not
    /// translated.
    Import(Import),
    /// Find what an application leaves behind between two requests: a leak detector for worker
    /// scripts.
    SealReport(SealReport),
    /// Find which page makes a worker or a running server of any make grow, by how much, and what
    /// holds the memory.
    Leaks(Leaks),
    /// Find the most requests a second at which a bound on response times holds, on any server.
    Capacity(Capacity),
    /// Let a running server read its configuration and code again, without losing a request.
    Reload(Reload),
    /// Let the program that is installed now take over from a running server, without losing a
    /// request.
    Upgrade(Upgrade),
    /// Show what a running server does.
    Status(Status),
    /// Watch a running server in a terminal: requests, response times, phases, workers, slowest
    /// URLs.
    Top(Top),
    /// Show where the PHP workers of a running server spend their time: a sampling profiler.
    Profile(Profile),
    /// Show the addresses of FastCGI applications, or change them while the server runs.
    Upstream(Upstream),
    /// Remove responses from the content cache of a running server.
    Cache(Cache),
    /// Show where the time of a request goes in a running server of any make, call by call.
    Anatomy(Anatomy),
    /// Let the programs of this machine trust the server's own certificates for local names.
    Trust(Trust),
    /// Write the demo site into a folder, to look at and to serve.
    Demo(Demo),
    /// Run a script on the command line with the PHP, settings, environment and user of a site.
    Php(Php),
    /// Show what the embedded PHP says about itself, like `php -i`.
    PhpInfo,
    /// Print completions for a shell.
    Completions {
        /// The shell that will read them.
        shell: Shell,
    },
    /// Print the manual page.
    Man,
}

/// Which server is meant.
#[derive(Args, Debug)]
pub struct At {
    /// Control socket of the server; without it, the only server of this user [env:
    /// TOKAMAK_CONTROL].
    #[arg(long, value_name = "PATH", global = true)]
    control: Option<PathBuf>,
    /// Address that the server listens on, in place of its control socket.
    #[arg(long, value_name = "ADDRESS", global = true, conflicts_with = "control", value_parser = address)]
    listen: Option<SocketAddr>,
}

impl At {
    /// The server that was named: by a flag, or else by the environment.
    pub fn target(self) -> Target {
        let variable = option::row_of_flag("--control").and_then(|row| row.variable);
        let named = variable.and_then(env::var_os).filter(|named| !named.is_empty());
        match (self.control, self.listen) {
            (Some(socket), _) => Target::Socket(socket),
            (None, Some(address)) => Target::Listening(address),
            (None, None) => named.map_or(Target::Only, |socket| Target::Socket(socket.into())),
        }
    }

    /// The server that listens where a URL leads, unless a flag names another. The environment may
    /// name one that has nothing to do with the URL.
    pub fn target_at(self, address: SocketAddr) -> Target {
        let is_flag = self.control.is_some() || self.listen.is_some();
        match self.target() {
            Target::Socket(socket) if !is_flag && !client::listens_on(&socket, address) => {
                Target::Listening(address)
            }
            Target::Only => Target::Listening(address),
            named => named,
        }
    }
}

/// `tokamak reload`.
#[derive(Args, Debug)]
pub struct Reload {
    /// Which server is meant.
    #[command(flatten)]
    pub at: At,
    /// Give only this site other PHP processes, which read its code again. The front and the other
    /// sites go on, and the configuration is not read.
    #[arg(long, value_name = "NAME")]
    pub site: Option<String>,
}

/// `tokamak upgrade`.
#[derive(Args, Debug)]
pub struct Upgrade {
    /// Which server is meant.
    #[command(flatten)]
    pub at: At,
}

/// `tokamak status`.
#[derive(Args, Debug)]
pub struct Status {
    /// Which server is meant.
    #[command(flatten)]
    pub at: At,
    /// Print one JSON object instead of a table.
    #[arg(long, conflicts_with = "ready")]
    pub json: bool,
    /// Print only whether the server is ready, and fail with the reason if it is not: for health
    /// checks.
    #[arg(long)]
    pub ready: bool,
}

/// The variables of the environment that decide a configuration.
fn environment() -> Vec<(String, String)> {
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
    };
    // `PATH` is where programs are found that the configuration names.
    let counts = |(name, _): &(String, String)| {
        let name = name.as_str();
        name.starts_with("TOKAMAK_") || name == "PATH" || STATE_VARIABLES.contains(&name)
    };
    env::vars_os().filter_map(text).filter(counts).collect()
}

/// What was typed. A mistake is answered here, with exit status 2.
pub fn parse() -> Command {
    Tokamak::parse().command
}

/// Ends a job: silent success, or `tokamak: ` and the reason.
pub fn report<E: Display>(outcome: Result<(), E>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("tokamak: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Writes a text to standard output. A reader that has seen enough (`| head`) is no error.
pub fn print(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_declaration_is_consistent() {
        Tokamak::command().debug_assert();
    }

    #[test]
    fn every_flag_in_the_table_of_options_can_be_typed_and_no_other_sets_an_option() {
        let command = Tokamak::command();
        for name in ["serve", "check"] {
            let sub = command.find_subcommand(name).expect("a command");
            let typed: Vec<String> = sub
                .get_arguments()
                .filter_map(|arg| arg.get_long())
                .map(|long| format!("--{long}"))
                .collect();
            for flag in option::rows().filter_map(|row| row.flag) {
                assert!(typed.iter().any(|known| known == flag), "{name} lacks {flag}");
            }
            for flag in typed.iter().filter(|flag| !matches!(flag.as_str(), "--config" | "--print"))
            {
                assert!(option::row_of_flag(flag).is_some(), "{flag} of {name} is no option");
            }
        }
    }
}
