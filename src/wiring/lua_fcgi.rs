//! A FastCGI server of Lua scripts: one process, event loops without workers behind them.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use tokamak_auth::UserFiles;
use tokamak_config::{FpmAddress, Lua};
use tokamak_front::{Front, Start};
use tokamak_supervisor::web_server_socket;
use tokamak_sys::channel::{Watch, poll};
use tokamak_sys::process;
use tokamak_sys::signal::{Signal, Signals};

use super::fastcgi;

/// The name under which log lines are written.
const NAME: &str = "lua-fcgi";

/// How long requests may take to end after the server was told to stop, beyond their own limit: the
/// time for the last bytes to reach a slow web server. A tenth would cut responses; ten times more
/// would outlast the patience of service managers.
const LAST_BYTES: Duration = Duration::from_secs(5);

/// Time after which the main thread looks for a signal even if its descriptor has reported none. It
/// only matters if a report was lost: then a stop takes this long. A tenth would wake an idle
/// server for nothing.
const POLL_EVERY: Duration = Duration::from_secs(10);

/// Exit status of a server that did not wait for its last requests.
const INTERRUPTED: i32 = 1;

/// The arguments of `tokamak lua-fcgi`.
pub struct Request {
    /// The folder of the scripts.
    pub folder: PathBuf,
    /// Where web servers connect; absent: to the socket on descriptor 0.
    pub listen: Option<FpmAddress>,
    /// Permissions of a Unix socket.
    pub mode: u32,
    /// Number of event loops.
    pub threads: Option<usize>,
    /// What scripts may use.
    pub lua: Lua,
}

/// Serves until it is told to stop.
pub fn serve(request: Request) -> Result<(), String> {
    let folder = std::path::absolute(&request.folder).map_err(|error| error.to_string())?;
    if !folder.is_dir() {
        return Err(format!("{} is no folder", folder.display()));
    }
    // Before there are threads: they would be interrupted otherwise.
    let signals = Signals::take().map_err(|error| error.to_string())?;
    // Each connection takes one; fewer than wanted are better than none.
    let _ = process::raise_open_files();
    let socket = match &request.listen {
        Some(address) => web_server_socket(address, request.mode)
            .map_err(|error| format!("cannot listen on {address}: {error}"))?,
        None => inherited_socket()?,
    };
    let mut server = fastcgi::server(vec![fastcgi::site(NAME, folder.clone())]);
    server.loops = request.threads.unwrap_or(server.loops);
    server.timeouts.drain = request.lua.total + LAST_BYTES;
    server.lua = request.lua;
    let front = Front::start(Start {
        users: UserFiles::default(),
        upstream_tls: Vec::new(),
        tls: None,
        quic: None,
        want_name: None,
        server,
        listeners: Vec::new(),
        sockets: vec![socket],
        scripts: Some(folder),
        pools: Vec::new(),
        access_logs: Vec::new(),
        admin: None,
        is_successor: false,
    });
    let front = front.map_err(|error| error.to_string())?;
    wait(signals, &front, request.listen.as_ref());
    Ok(())
}

/// The socket that the process was started with, as the FastCGI specification has it (§2.2).
fn inherited_socket() -> Result<OwnedFd, String> {
    let socket = io::stdin().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
    if tokamak_supervisor::listens(&socket) {
        return Ok(socket);
    }
    Err("descriptor 0 is no listening socket: say --listen, or let a web server or spawn-fcgi \
        start it"
        .to_owned())
}

/// Serves until a signal asks for the end, and then until the requests that are under way have
/// ended.
fn wait(signals: Signals, front: &Front, listen: Option<&FpmAddress>) {
    wait_for_signal(&signals);
    if let Some(FpmAddress::Unix(path)) = listen {
        // Now and not later: the next server may take the place while this one answers its last
        // requests. If it is gone already, that is what we want.
        let _ = fs::remove_file(path);
    }
    front.drain(false);
    // A second signal ends the server without waiting for them.
    std::thread::spawn(move || {
        wait_for_signal(&signals);
        std::process::exit(INTERRUPTED);
    });
    front.join();
}

fn wait_for_signal(signals: &Signals) {
    loop {
        if let Some(
            Signal::Terminate | Signal::Interrupt | Signal::Quit | Signal::HangUp | Signal::User1,
        ) = signals.next()
        {
            return;
        }
        // If it fails, the loop looks for a signal and polls again.
        let _ = poll(&mut [Watch::read(signals.as_fd())], Some(POLL_EVERY));
    }
}
