//! What scripts may know of files: `lighty.c.stat` and `readdir`.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use mlua::{Lua, Table};

use super::set;
use crate::current::http;

/// Names of a folder that are read at most.
const MOST_NAMES: usize = 100_000;

pub fn add(lua: &Lua, host: &Table) -> mlua::Result<()> {
    set(lua, host, "stat", |lua, name: mlua::String| {
        let name = name.as_bytes();
        match fs::metadata(Path::new(OsStr::from_bytes(&name))) {
            Ok(metadata) if !name.is_empty() => stat(lua, &name, &metadata).map(Some),
            _ => Ok(None),
        }
    })?;
    // Asked for often, and of all that a file has nothing else.
    set(lua, host, "changed", |_, name: mlua::String| {
        let metadata = fs::metadata(Path::new(OsStr::from_bytes(&name.as_bytes()))).ok();
        Ok(metadata.map(|metadata| metadata.mtime() as f64 + metadata.mtime_nsec() as f64 / 1e9))
    })?;
    set(lua, host, "file_property", |_, (name, property): (mlua::String, mlua::String)| {
        let name = name.as_bytes();
        let path = Path::new(OsStr::from_bytes(&name));
        if *property.as_bytes() == b"etag"[..] {
            return Ok(fs::metadata(path).ok().map(|metadata| etag(&metadata)));
        }
        http(|http| http.content_type(path))
    })?;
    set(lua, host, "readdir", |lua, name: mlua::String| {
        let name = name.as_bytes();
        let Ok(entries) = fs::read_dir(Path::new(OsStr::from_bytes(&name))) else {
            return Ok(None);
        };
        let names = lua.create_table()?;
        for entry in entries.flatten().take(MOST_NAMES) {
            names.raw_push(lua.create_string(entry.file_name().as_bytes())?)?;
        }
        Ok(Some(names))
    })
}

/// A validator of a file as it is now.
fn etag(metadata: &Metadata) -> String {
    format!(
        "\"{:x}-{:x}-{:x}\"",
        metadata.ino(),
        metadata.size(),
        metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec()
    )
}

fn stat(lua: &Lua, name: &[u8], metadata: &Metadata) -> mlua::Result<Table> {
    let kind = metadata.file_type();
    let more = lua.create_table()?;
    more.raw_set("path", lua.create_string(name)?)?;
    more.raw_set("st_atim", metadata.atime_nsec())?;
    more.raw_set("st_mtim", metadata.mtime_nsec())?;
    more.raw_set("st_ctim", metadata.ctime_nsec())?;
    let stat = lua.create_table_with_capacity(1, 16)?;
    stat.raw_set(1, more)?;
    for (field, is) in [
        ("is_file", kind.is_file()),
        ("is_dir", kind.is_dir()),
        ("is_link", kind.is_symlink()),
        ("is_char", kind.is_char_device()),
        ("is_block", kind.is_block_device()),
        ("is_socket", kind.is_socket()),
        ("is_fifo", kind.is_fifo()),
    ] {
        stat.raw_set(field, is)?;
    }
    for (field, value) in [
        ("st_size", metadata.size() as i64),
        ("st_mode", i64::from(metadata.mode())),
        ("st_uid", i64::from(metadata.uid())),
        ("st_gid", i64::from(metadata.gid())),
        ("st_ino", metadata.ino() as i64),
        ("st_atime", metadata.atime()),
        ("st_mtime", metadata.mtime()),
        ("st_ctime", metadata.ctime()),
    ] {
        stat.raw_set(field, value)?;
    }
    Ok(stat)
}
