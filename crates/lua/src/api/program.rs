//! The streams of a script that runs in place of a FastCGI program: the body of its request, its
//! output and its standard error.

use std::io;

use mlua::{Lua, Table};

use super::set;
use crate::current::{program, with};

pub fn add(lua: &Lua, host: &Table) -> mlua::Result<()> {
    set(lua, host, "read", |lua, most: usize| {
        let piece = program(|program| program.read(most))?;
        lua.create_string(piece.map_err(read_error)?)
    })?;
    set(lua, host, "write", |_, text: mlua::String| {
        program(|program| program.write(&text.as_bytes()))?.map_err(mlua::Error::runtime)
    })?;
    set(lua, host, "write_stderr", |_, text: mlua::String| {
        program(|program| program.write_stderr(&text.as_bytes()))
    })?;
    set(lua, host, "sent", |_, ()| {
        let sent = program(|program| program.sent())?;
        with(|context| context.wait_for(sent))
    })
}

fn read_error(error: io::Error) -> mlua::Error {
    mlua::Error::runtime(format!("the request's body cannot be read: {error}"))
}
