//! The functions that the prelude builds the scripts' tables of. They know no request: each asks for the one that is
//! current on its thread.

mod body;
mod calls;
mod counters;
mod field;
mod files;
mod request;

use std::sync::Arc;
use std::time::Duration;

pub use counters::Counters;
use mlua::{FromLuaMulti, IntoLuaMulti, Lua, Table};

use crate::current::with;
use crate::raw;

/// Bytes of a line that a script prints, at most.
const LONGEST_LINE: usize = 8192;

/// All functions, by the names that the prelude uses.
pub fn functions(lua: &Lua, counters: &Arc<Counters>) -> mlua::Result<Table> {
    let host = lua.create_table()?;
    request::add(lua, &host)?;
    body::add(lua, &host)?;
    files::add(lua, &host)?;
    counters::add(lua, &host, counters)?;
    host.set("calls", calls::table(lua)?)?;
    set(lua, &host, "urlenc_query", calls::encode_query)?;
    set(lua, &host, "log", |_, text: mlua::String| with(|seat| seat.host.log(&line(&text))))?;
    set(lua, &host, "print", |_, text: mlua::String| {
        with(|seat| seat.host.log(&format!("(lua-print) {}", line(&text))))
    })?;
    set(lua, &host, "is_overdue", |_, ()| Ok(raw::is_overdue()))?;
    set(lua, &host, "random", |_, ()| Ok(calls::random()))?;
    set(lua, &host, "sleep", |_, seconds: f64| {
        // A day is longer than any script may take.
        let time = Duration::from_secs_f64(seconds.clamp(0.0, 86_400.0));
        with(|seat| seat.waiting = Some(seat.host.sleep(time)))
    })?;
    set(lua, &host, "forget", |_, ()| with(|seat| seat.waiting = None))?;
    Ok(host)
}

/// Puts a function into a table.
fn set<A: FromLuaMulti, R: IntoLuaMulti>(
    lua: &Lua,
    table: &Table,
    name: &str,
    function: impl Fn(&Lua, A) -> mlua::Result<R> + Send + 'static,
) -> mlua::Result<()> {
    table.set(name, lua.create_function(function)?)
}

fn line(text: &mlua::String) -> String {
    let bytes = text.as_bytes();
    String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST_LINE)]).into_owned()
}
