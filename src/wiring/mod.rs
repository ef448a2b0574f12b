//! The only place that knows every part: it gives the supervisor its front and its worker program.

mod acme;
mod admin;
mod fastcgi;
pub mod fpm;
mod front;
pub mod lua_fcgi;
pub mod profile;

use std::fmt::Display;

use tokamak_config::{Errors, Secret, Server};
use tokamak_supervisor::upgrade::Predecessor;
use tokamak_supervisor::{Failure, Setup, TicketsStart};

/// What to serve, and how to find out anew at a reload.
pub struct ServeRequest {
    /// The configuration to start with.
    pub server: Server,
    /// Reads everything again.
    pub reread: Box<dyn Fn() -> Result<Server, Errors>>,
}

/// Serves until it is told to stop.
pub fn serve(request: ServeRequest) -> Result<(), String> {
    let reread = request.reread;
    supervise(request.server, Box::new(move || reread().map_err(|errors| errors.to_string())))
}

/// Tells the version that started this one to replace it, if one did, why this one does not serve.
pub fn refuse(why: &impl Display) {
    let predecessor = Predecessor::find().ok().flatten();
    if let Some(refusal) = predecessor.and_then(|predecessor| predecessor.refusal().ok()) {
        refusal.tell(&why.to_string());
    }
}

fn supervise(
    server: Server,
    reread: Box<dyn Fn() -> Result<Server, String>>,
) -> Result<(), String> {
    let php = Box::new(|version: Option<&str>| {
        crate::program::tokamak_php(version).map_err(|error| error.to_string())
    });
    let tickets = Box::new(|start: TicketsStart| {
        let secret = start.secret.as_ref().map(Secret::reveal);
        tokamak_acme::tickets::run(&start.tier, secret, &start.line)
    });
    let (front, acme) = (Box::new(front::main), Box::new(acme::main));
    let setup = Setup { server, reread, php, front, acme, tickets };
    tokamak_supervisor::serve(setup).map_err(|failure: Failure| failure.to_string())
}

/// Talks to a running server.
pub mod control {
    use std::time::Duration;

    use tokamak_supervisor::client::{self, Target};

    /// A reload takes as long as the application boots.
    const RELOAD_LIMIT: Duration = Duration::from_secs(120);
    /// The same, and the start of the program.
    const UPGRADE_LIMIT: Duration = Duration::from_secs(150);
    const STATUS_LIMIT: Duration = Duration::from_secs(5);

    /// Lets a server read everything again, or the code of one site.
    pub fn reload(target: Target, site: Option<&str>) -> Result<(), String> {
        let command = site.map_or_else(|| "reload".into(), |site| format!("reload\t{site}"));
        print!("{}", ask(target, &command, RELOAD_LIMIT)?);
        Ok(())
    }

    /// Lets the program that is installed now take over from a server.
    pub fn upgrade(target: Target) -> Result<(), String> {
        print!("{}", ask(target, "upgrade", UPGRADE_LIMIT)?);
        Ok(())
    }

    /// Shows what a server does.
    pub fn status(target: Target, json: bool) -> Result<(), String> {
        print!("{}", ask(target, if json { "status json" } else { "status" }, STATUS_LIMIT)?);
        Ok(())
    }

    /// Says "ready" if the server serves all of its sites. The error says what is missing.
    pub fn ready(target: Target) -> Result<(), String> {
        print!("{}", ask(target, "ready", STATUS_LIMIT)?);
        Ok(())
    }

    /// What a server says of itself, for programs; [`None`] if it is not Tokamak, or another
    /// user's.
    pub fn status_of(target: Target) -> Option<String> {
        ask(target, "status json", STATUS_LIMIT).ok()
    }

    /// Where a server's admin listener is.
    pub fn admin_of(target: Target) -> Result<String, String> {
        client::admin(&target.socket()?)?.ok_or_else(|| {
            "the server has no admin listener: set `admin` in its configuration, and start it anew"
                .to_owned()
        })
    }

    /// Asks about the addresses of FastCGI applications or the content cache, or changes them.
    pub fn command(target: Target, command: &str) -> Result<(), String> {
        print!("{}", ask(target, command, STATUS_LIMIT)?);
        Ok(())
    }

    fn ask(target: Target, command: &str, limit: Duration) -> Result<String, String> {
        client::ask(&target.socket()?, command, limit)
    }
}
