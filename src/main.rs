//! Tokamak: an application server that boots an application once. This program is the server and
//! its command line. It starts `tokamak-php`, which runs PHP, and `tokamak-import`.

mod cli;
mod program;
mod wiring;

use std::process::ExitCode;

use cli::{Command, report};

/// Requests take and give back the same few sizes all the time, some of them (the HTTP library's
/// buffers of 8 KiB, tables of Lua) larger than what the C library's allocator does quickly.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    match cli::parse() {
        Command::Serve(site) => {
            match site.request().and_then(|request| Ok((request.load()?, request))) {
                Ok((server, request)) => {
                    let reread = Box::new(move || request.load());
                    report(wiring::serve(wiring::ServeRequest { server, reread }))
                }
                Err(wrong) => {
                    wiring::refuse(&wrong);
                    wrong.report()
                }
            }
        }
        Command::Fpm(fpm) => match fpm.request() {
            Ok((arguments, config)) => wiring::fpm::serve(arguments, &config),
            Err(status) => status,
        },
        Command::LuaFcgi(lua) => report(wiring::lua_fcgi::serve(lua.request())),
        Command::Check(check) => check.run(),
        Command::Import(import) => report(import.run()),
        Command::SealReport(report) => report.run(),
        Command::Leaks(leaks) => leaks.run(),
        Command::Capacity(capacity) => capacity.run(),
        Command::Reload(reload) => {
            report(wiring::control::reload(reload.at.target(), reload.site.as_deref()))
        }
        Command::Upgrade(upgrade) => report(wiring::control::upgrade(upgrade.at.target())),
        Command::Status(status) if status.ready => {
            report(wiring::control::ready(status.at.target()))
        }
        Command::Status(status) => report(wiring::control::status(status.at.target(), status.json)),
        Command::Top(top) => report(top.run()),
        Command::Profile(profile) => report(profile.run()),
        Command::Upstream(upstream) => {
            let command = upstream.command();
            report(wiring::control::command(upstream.at.target(), &command))
        }
        Command::Cache(cache) => {
            let command = cache.command();
            report(wiring::control::command(cache.at.target(), &command))
        }
        Command::Anatomy(anatomy) => anatomy.run(),
        Command::Trust(trust) => report(trust.run()),
        Command::Demo(demo) => demo.run(),
        Command::Php(php) => report(php.run()),
        Command::PhpInfo => report(program::show_php_info()),
        Command::Completions { shell } => report(cli::pages::completions(shell)),
        Command::Man => report(cli::pages::manual()),
    }
}
