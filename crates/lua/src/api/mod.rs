//! The functions that the prelude builds the scripts' tables of. They know no request: each asks
//! for the one that is current on its thread.

mod body;
mod cache;
mod calls;
mod counters;
mod field;
mod files;
mod program;
mod request;
mod shared;
mod waits;

use std::sync::Arc;

pub use counters::Counters;
use mlua::{FromLuaMulti, IntoLuaMulti, Lua, MultiValue, Table, Value};

use crate::current::{remark, with};
use crate::pattern::{self, Capture, Stop};
use crate::raw::{self, location_in};
use crate::shared::Dictionaries;

/// Bytes of a line that a script prints, at most.
const LONGEST_LINE: usize = 8192;

/// All functions, by the names that the prelude uses.
pub fn functions(
    lua: &Lua,
    counters: &Arc<Counters>,
    dictionaries: &Dictionaries,
) -> mlua::Result<Table> {
    let host = lua.create_table()?;
    request::add(lua, &host)?;
    body::add(lua, &host)?;
    files::add(lua, &host)?;
    program::add(lua, &host)?;
    waits::add(lua, &host)?;
    counters::add(lua, &host, counters)?;
    shared::add(lua, &host, dictionaries)?;
    cache::add(lua, &host)?;
    host.set("calls", calls::table(lua)?)?;
    set(lua, &host, "urlenc_query", calls::encode_query)?;
    set(lua, &host, "log", |lua, text: mlua::String| remark(location_in(lua), &line(&text)))?;
    set(lua, &host, "print", |_, text: mlua::String| {
        with(|context| context.host.log(&format!("(lua-print) {}", line(&text))))
    })?;
    set(lua, &host, "search", search)?;
    set(lua, &host, "is_overdue", |_, ()| Ok(raw::is_overdue()))?;
    set(lua, &host, "random", |_, ()| Ok(calls::random()))?;
    Ok(host)
}

/// What a pattern finds in a text from a place on, both counted from 1: first and last byte, then
/// what was captured.
fn search(
    lua: &Lua,
    (text, pattern, from, anchors): (mlua::String, mlua::String, usize, bool),
) -> mlua::Result<MultiValue> {
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    if from == 0 || from > text.len() + 1 {
        return Ok(MultiValue::new());
    }
    let found = match pattern::search(&text, &pattern, from - 1, anchors) {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(MultiValue::new()),
        Err(Stop::Bad(problem)) => return Err(mlua::Error::runtime(problem)),
        // Whatever is returned, the script will not see it.
        Err(Stop::Overdue) => {
            raw::end_now();
            return Ok(MultiValue::new());
        }
    };
    let number = |number: usize| Value::Integer(number as _);
    let mut values = vec![number(found.start + 1), number(found.end)];
    for capture in found.captures {
        values.push(match capture {
            Capture::Text(start, end) => Value::String(lua.create_string(&text[start..end])?),
            Capture::Place(at) => number(at + 1),
        });
    }
    Ok(MultiValue::from_vec(values))
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
