//! `tokamak fpm`: php-fpm's own command line. What only reads the configuration is answered here,
//! with php-fpm's words and exit status.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;
use tokamak_fpm::Config;
use tokamak_fpm::arguments::{self, Arguments, Command, PhpOptions};
use tokamak_fpm::host::Machine;

use super::{print, report};
use crate::program;
use crate::wiring::fpm::print_messages;

/// The command line cannot be understood.
const USAGE: u8 = 64;

/// The configuration cannot be served.
const CONFIG: u8 = 78;

/// `tokamak fpm`.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Fpm {
    /// The options of php-fpm; -h shows them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
    words: Vec<OsString>,
}

impl Fpm {
    /// What was typed and the configuration that it leads to, or how the program ends without
    /// serving.
    pub fn request(self) -> Result<(Arguments, Config), ExitCode> {
        let arguments = arguments::parse(self.words).map_err(|_| help(USAGE))?;
        match arguments.command {
            Command::Help => Err(help(0)),
            Command::Version => Err(show("version", &arguments.php)),
            Command::Info => Err(show("info", &arguments.php)),
            Command::Modules => Err(show("modules", &arguments.php)),
            Command::Test { dump } => {
                match print_messages(tokamak_fpm::test(&arguments.options, dump, &Machine)) {
                    Some(_) => Err(ExitCode::SUCCESS),
                    None => Err(ExitCode::from(CONFIG)),
                }
            }
            Command::Serve => {
                match print_messages(tokamak_fpm::load(&arguments.options, &Machine)) {
                    Some(config) => Ok((arguments, config)),
                    None => Err(ExitCode::from(CONFIG)),
                }
            }
        }
    }
}

/// Shows what PHP says of itself.
fn show(what: &str, php: &PhpOptions) -> ExitCode {
    report(program::show_php(what, &php.settings()))
}

/// Shows the options.
fn help(status: u8) -> ExitCode {
    // A closed pipe is not an error here.
    let _ = print(arguments::usage().as_bytes());
    ExitCode::from(status)
}
