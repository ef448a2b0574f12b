//! The PHP program of Tokamak: what you would lose without it is every PHP page.
//!
//! The supervisor executes it once a site as a zygote, which starts PHP and forks workers; it never links it.

mod engine;
mod fastcgi;
mod ffi;
mod log;
mod pool;
mod request;
mod sealed;
mod settings;
mod worker;
mod zygote;

use std::process::ExitCode;

use tokamak_sys::control::ZYGOTE_ARGUMENT;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [ZYGOTE_ARGUMENT] => zygote::run(),
        ["--info"] => info(),
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

fn info() -> ExitCode {
    println!("Program     tokamak-php {}", env!("CARGO_PKG_VERSION"));
    match engine::start(&settings::Settings::default()) {
        Ok(()) => {
            engine::print_info();
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("tokamak-php: {why}");
            ExitCode::FAILURE
        }
    }
}
