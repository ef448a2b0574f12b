//! The PHP program of Tokamak: what you would lose without it is every PHP page.
//!
//! The supervisor executes it once a site as a zygote, which starts PHP and forks workers; it never
//! links it.

mod classes;
mod engine;
mod fastcgi;
mod ffi;
mod log;
mod output;
mod pool;
mod request;
mod sampler;
mod sealed;
mod settings;
mod watch;
mod worker;
mod zygote;

use std::process::ExitCode;

use tokamak_sys::control::ZYGOTE_ARGUMENT;
use tokamak_sys::process;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [ZYGOTE_ARGUMENT] => serve(),
        ["--info"] => info(),
        ["--show", what, ref settings @ ..] => show(what, settings),
        ["--version"] => {
            println!("tokamak-php {} (PHP {})", env!("CARGO_PKG_VERSION"), engine::php_version());
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("tokamak-php: started by tokamak; by hand only with --info or --version");
            ExitCode::from(2)
        }
    }
}

/// As a zygote, until the supervisor says otherwise or is gone.
fn serve() -> ExitCode {
    // The kernel names a program that is started by its open file after the descriptor's number.
    process::set_name(std::env::args_os().next().unwrap_or_default());
    match zygote::Zygote::start() {
        Ok(zygote) if zygote.settings.mode == settings::Mode::Sealed => sealed::run(zygote),
        Ok(zygote) => zygote.run(),
        Err(status) => status,
    }
}

fn info() -> ExitCode {
    println!("Program     tokamak-php {}", env!("CARGO_PKG_VERSION"));
    with_php(&settings::Settings::default(), engine::print_info)
}

/// What `tokamak fpm` prints with `-v`, `-m` and `-i`; settings as `name=value`, with the names
/// that a zygote is sent.
fn show(what: &str, settings: &[&str]) -> ExitCode {
    let pair =
        |text: &&str| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    let pairs: Option<Vec<_>> = settings.iter().map(pair).collect();
    let settings = pairs.ok_or_else(|| "settings are name=value".to_owned());
    match settings.and_then(|pairs| settings::Settings::read(&pairs)) {
        Ok(settings) => with_php(&settings, || engine::show(what)),
        Err(why) => {
            eprintln!("tokamak-php: {why}");
            ExitCode::from(2)
        }
    }
}

fn with_php(settings: &settings::Settings, act: impl FnOnce()) -> ExitCode {
    match engine::start(settings) {
        Ok(()) => {
            act();
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("tokamak-php: {why}");
            ExitCode::FAILURE
        }
    }
}
