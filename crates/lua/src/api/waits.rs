//! What the functions of `tokamak` are built of: each begins something, and gives the number to
//! wait for it by.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mlua::{Lua, Table, Value, Variadic};

use super::set;
use crate::call::{Batch, Call, HttpCall, RedisServer};
use crate::current::with;
use crate::raw::{self, Arguments, BeginCall};

/// A day is longer than any script may take.
const LONGEST: f64 = 86_400.0;

type Text = mlua::String;

pub fn add(lua: &Lua, host: &Table) -> mlua::Result<()> {
    host.set("null", Value::NULL)?;
    set(lua, host, "sleep", |_, seconds: f64| {
        with(|context| {
            let pause = context.host.sleep(time(seconds));
            context.wait_for(pause)
        })
    })?;
    host.set("take", raw::giving_function(lua)?)?;
    set(lua, host, "forget", |_, number: u32| with(|context| context.forget(number)))?;
    host.set("http", raw::begin_function::<Http>(lua)?)?;
    host.set("fetch", raw::begin_function::<Fetch>(lua)?)?;
    set(lua, host, "redis", redis)?;
    set(lua, host, "redis_server", redis_server)?;
    set(lua, host, "read_file", |_, (path, most): (Text, f64)| {
        begin(Call::Read { path: self::path(&path), most: most as u64 })
    })
}

fn begin(call: Call<'_>) -> mlua::Result<u32> {
    with(|context| {
        let waiting = context.host.call(call);
        context.wait_for(waiting)
    })
}

fn time(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds.clamp(0.0, LONGEST))
}

fn path(text: &Text) -> PathBuf {
    OsStr::from_bytes(&text.as_bytes()).into()
}

fn bytes(text: &Text) -> Vec<u8> {
    text.as_bytes().to_vec()
}

/// Asks another service.
struct Http;

impl BeginCall for Http {
    fn call(arguments: &Arguments) -> mlua::Result<u32> {
        begin(Call::Http(http(arguments)))
    }
}

/// Asks this server itself.
struct Fetch;

impl BeginCall for Fetch {
    fn call(arguments: &Arguments) -> mlua::Result<u32> {
        begin(Call::Fetch(http(arguments)))
    }
}

/// The prelude has seen to it that each argument is of its kind, or nil.
fn http(arguments: &Arguments) -> HttpCall<'_> {
    HttpCall {
        method: arguments.text(1).unwrap_or_default(),
        url: arguments.text(2).unwrap_or_default(),
        socket: arguments.text(3).map(|path| Path::new(OsStr::from_bytes(path))),
        fields: arguments.texts(4),
        body: arguments.text(5).unwrap_or_default(),
        timeout: time(arguments.number(6)),
        most: arguments.number(7) as usize,
    }
}

/// A number to wait by, or nothing and what is wrong with the arguments.
type Begun = (Option<u32>, Option<String>);

fn redis(_: &Lua, (server, kind, values): (u32, u8, Variadic<Value>)) -> mlua::Result<Begun> {
    let commands = match kind {
        0 => arguments(values.iter()).map(|command| vec![command]),
        _ => match values.first() {
            Some(Value::Table(list)) => list
                .sequence_values::<Table>()
                .map(|command| {
                    let command = command
                        .map_err(|_| "each command is a list of its arguments".to_string())?;
                    let values =
                        command.sequence_values::<Value>().collect::<mlua::Result<Vec<_>>>();
                    arguments(values.map_err(|error| error.to_string())?.iter())
                })
                .collect(),
            _ => Err("a list of commands is expected".to_string()),
        },
    };
    let batch = match kind {
        0 => Batch::Single,
        1 => Batch::Pipeline,
        _ => Batch::Transaction,
    };
    match commands {
        Ok(commands) => Ok((Some(begin(Call::Redis { server, commands, batch })?), None)),
        Err(problem) => Ok((None, Some(problem))),
    }
}

/// A command's name and arguments.
fn arguments<'a>(values: impl Iterator<Item = &'a Value>) -> Result<Vec<Vec<u8>>, String> {
    let text = |(nth, value): (usize, &Value)| match value {
        Value::String(text) => Ok(bytes(text)),
        Value::Integer(number) => Ok(number.to_string().into_bytes()),
        // As Lua writes it, to 14 digits, it could not be read back.
        Value::Number(number) => Ok(number.to_string().into_bytes()),
        other => Err(format!("argument {nth} of a Redis command is a {}", other.type_name())),
    };
    let command = values.enumerate().map(text).collect::<Result<Vec<_>, _>>()?;
    if command.is_empty() { Err("a Redis command has a name".to_string()) } else { Ok(command) }
}

type ServerArguments = (Text, u16, Text, Text, Text, u32, f64);

fn redis_server(
    _: &Lua,
    (host, port, socket, user, password, database, timeout): ServerArguments,
) -> mlua::Result<Begun> {
    let text = |text: &Text| (!text.as_bytes().is_empty()).then(|| text.to_string_lossy());
    let server = RedisServer {
        address: match text(&socket) {
            Some(_) => Err(path(&socket)),
            None => Ok((host.to_string_lossy(), port)),
        },
        user: text(&user),
        password: text(&password),
        database,
        timeout: time(timeout),
    };
    with(|context| match context.host.redis(server) {
        Ok(number) => (Some(number), None),
        Err(problem) => (None, Some(problem)),
    })
}
