//! `lighty.r.req_body`, `lighty.r.resp_body`, and the content of the older interface.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use mlua::{Lua, Table};

use super::set;
use crate::current::{http, remark};
use crate::host::{HttpContext, Piece, Side};
use crate::raw::{Caller, TextCall, location_in, text_function};

struct AddText;

impl TextCall<1> for AddText {
    fn call(_: &Caller, [text]: [&[u8]; 1]) -> mlua::Result<()> {
        http(|http| add_text(http, text))
    }
}

struct SetText;

impl TextCall<1> for SetText {
    fn call(_: &Caller, [text]: [&[u8]; 1]) -> mlua::Result<()> {
        http(|http| {
            http.clear_body();
            add_text(http, text);
        })
    }
}

fn add_text(http: &mut dyn HttpContext, text: &[u8]) {
    if !text.is_empty() {
        http.add_piece(Piece::Bytes(text.to_vec()));
    }
}

pub fn add(lua: &Lua, host: &Table) -> mlua::Result<()> {
    request(lua, host)?;
    host.set("add_text", text_function::<AddText, 1>(lua)?)?;
    // The usual body is one text: one call instead of two.
    host.set("set_text", text_function::<SetText, 1>(lua)?)?;
    set(lua, host, "add_file", |lua, (name, offset, length): (mlua::String, f64, f64)| {
        let is_there = http(|http| add_file(http, &name.as_bytes(), offset as i64, length as i64))?;
        if !is_there {
            let name = name.as_bytes();
            remark(
                location_in(lua),
                &format!("error opening file '{}'", String::from_utf8_lossy(&name)),
            )?;
        }
        Ok(is_there)
    })?;
    set(lua, host, "clear_body", |_, ()| http(|http| http.clear_body()))?;
    set(lua, host, "response_body", |lua, ()| {
        let body = http(|http| http.response_body())?;
        body.map(|body| lua.create_string(body)).transpose()
    })?;
    set(lua, host, "response_length", |_, ()| http(|http| http.response_length()))?;
    set(lua, host, "response_bytes", |_, name: mlua::String| {
        // The body leaves when the script has ended.
        let has_come = *name.as_bytes() == b"bytes_in"[..];
        http(|http| if has_come { http.response_length().unwrap_or(0) } else { 0 })
    })?;
    set(lua, host, "send_file", |_, name: mlua::String| {
        http(|http| send_file(http, &name.as_bytes()))
    })
}

fn request(lua: &Lua, host: &Table) -> mlua::Result<()> {
    set(lua, host, "collect_body", |_, ()| http(|http| http.collect_body()))?;
    set(lua, host, "has_request_body", |_, ()| http(|http| http.request_body().is_some()))?;
    set(lua, host, "request_body", |lua, ()| {
        let body = http(|http| http.request_body())?;
        body.map(|body| lua.create_string(body)).transpose()
    })?;
    set(lua, host, "request_length", |_, ()| {
        http(|http| http.request_length().map_or(-1, |length| length as i64))
    })?;
    set(lua, host, "request_bytes", |_, name: mlua::String| {
        let has_come = *name.as_bytes() == b"bytes_in"[..];
        http(|http| if has_come { http.request_body().map_or(0, |body| body.len()) } else { 0 })
    })?;
    set(lua, host, "clear_request_body", |_, ()| http(|http| http.set_request_body(Vec::new())))?;
    set(lua, host, "add_request_body", |_, text: mlua::String| {
        http(|http| {
            let mut body = http.request_body().unwrap_or_default();
            body.extend_from_slice(&text.as_bytes());
            http.set_request_body(body);
        })
    })
}

/// Adds a part of a file to the response's body; a negative offset counts from the file's end, a
/// negative length means all that follows. Whether it can be read.
fn add_file(http: &mut dyn HttpContext, name: &[u8], offset: i64, length: i64) -> bool {
    let path = Path::new(OsStr::from_bytes(name));
    let Some((file, size)) = open(path) else { return false };
    let offset = if offset < 0 {
        size.saturating_sub(offset.unsigned_abs())
    } else {
        size.min(offset as u64)
    };
    let rest = size - offset;
    let length = if length < 0 { rest } else { rest.min(length as u64) };
    if length > 0 {
        http.add_piece(Piece::File { file, offset, length });
    }
    true
}

/// A regular file with its size. Nothing is opened that a script could be made to wait for.
fn open(path: &Path) -> Option<(File, u64)> {
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let file = File::open(path).ok()?;
    let size = file.metadata().ok()?.len();
    Some((file, size))
}

/// Makes a whole file the response, with its content type; returns the status of the outcome.
fn send_file(http: &mut dyn HttpContext, name: &[u8]) -> u16 {
    let path = Path::new(OsStr::from_bytes(name));
    let Some((file, length)) = open(path) else { return 404 };
    let mut has_type = false;
    http.values(Side::Response, b"content-type", &mut |_| has_type = true);
    if !has_type && let Some(kind) = http.content_type(path) {
        http.set_field(Side::Response, b"content-type", Some(kind.as_bytes()));
    }
    http.clear_body();
    if length > 0 {
        http.add_piece(Piece::File { file, offset: 0, length });
    }
    200
}
