//! `tokamak lua-fcgi`: what may be typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tokamak_config::{FpmAddress, Lua, size, time};

use crate::wiring::lua_fcgi::Request;

/// Least memory for scripts: below this a Lua state does not begin.
const LEAST_MEMORY: u64 = 2 << 20;

/// Least memory for a dictionary, as in the configuration of a server.
const LEAST_DICTIONARY: u64 = 4096;

/// `tokamak lua-fcgi`.
#[derive(Args, Debug)]
pub struct LuaFcgi {
    /// Folder of the scripts, mostly the document root: none outside is run.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Where web servers connect: `unix:/run/lua.sock` or `127.0.0.1:9000`; without it, the socket
    /// on descriptor 0, as web servers and spawn-fcgi pass it.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    listen: Option<FpmAddress>,
    /// Permissions of a Unix socket, as octal digits.
    #[arg(long, value_name = "MODE", default_value = "660", value_parser = mode)]
    mode: u32,
    /// Event loops, each with a Lua state of its own; by default one for each core.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Longest time that a script may run in one go.
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration)]
    time: Duration,
    /// Longest time from a script's beginning to its end, with all that it waits for.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    total: Duration,
    /// Memory for all scripts of one event loop together.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = memory)]
    memory: usize,
    /// A dictionary that all event loops share, `tokamak.shared.NAME`; may be given several times.
    #[arg(long, value_name = "NAME=SIZE", value_parser = dictionary)]
    shared: Vec<(String, usize)>,
}

fn address(typed: &str) -> Result<FpmAddress, String> {
    let path = typed.strip_prefix("unix:").or(typed.starts_with('/').then_some(typed));
    match (path, typed.parse()) {
        (Some(path), _) if !path.is_empty() => Ok(FpmAddress::Unix(path.into())),
        (_, Ok(address)) => Ok(FpmAddress::Tcp(address)),
        _ => Err("write unix:/path, or IP:PORT".to_owned()),
    }
}

fn mode(typed: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(typed, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "write three octal digits, as in 660".to_owned())
}

fn duration(typed: &str) -> Result<Duration, String> {
    match time(typed)? {
        Duration::ZERO => Err("a script needs some time".to_owned()),
        time => Ok(time),
    }
}

fn memory(typed: &str) -> Result<usize, String> {
    match size(typed)? {
        ..LEAST_MEMORY => Err(format!("scripts need at least {} MiB", LEAST_MEMORY >> 20)),
        size => usize::try_from(size).map_err(|error| error.to_string()),
    }
}

fn dictionary(typed: &str) -> Result<(String, usize), String> {
    let (name, text) = typed.split_once('=').ok_or("write NAME=SIZE, as in sessions=8MiB")?;
    match size(text)? {
        ..LEAST_DICTIONARY => Err(format!("a dictionary has at least {LEAST_DICTIONARY} bytes")),
        size => usize::try_from(size)
            .map(|size| (name.to_owned(), size))
            .map_err(|error| error.to_string()),
    }
}

impl LuaFcgi {
    /// What was asked for.
    pub fn request(self) -> Request {
        let LuaFcgi { folder, listen, mode, threads, time, total, memory, shared } = self;
        let lua = Lua { time, total, memory, shared: shared.into_iter().collect() };
        Request { folder, listen, mode, threads: threads.map(usize::from), lua }
    }
}
