//! `tokamak.cache`: what scripts say to the content cache. What they give is checked in the
//! prelude.

use std::time::{Duration, SystemTime};

use mlua::{Lua, Table, Value};

use super::set;
use crate::cache::{Override, Purge};
use crate::current::http;

/// Longest time that is meant as a time; beyond it is for ever. A hundred years.
const LONGEST: f64 = 3.2e9;

pub fn add(lua: &Lua, host: &Table) -> mlua::Result<()> {
    set(lua, host, "set_cache", |_, (name, value): (mlua::String, Value)| {
        let with = override_of(&name.as_bytes(), &value)?;
        http(|http| http.override_cache(with))
    })?;
    set(lua, host, "cache_find", |lua, key: Option<mlua::String>| {
        let key = key.as_ref().map(|key| key.as_bytes());
        let Some(kept) = http(|http| http.kept(key.as_deref()))? else {
            return Ok(None);
        };
        let table = lua.create_table_with_capacity(0, 4)?;
        table.raw_set("status", kept.status)?;
        table.raw_set("age", kept.age)?;
        table.raw_set("ttl", kept.ttl)?;
        table.raw_set("length", kept.length)?;
        Ok(Some(table))
    })?;
    set(lua, host, "cache_send", |_, key: mlua::String| {
        http(|http| http.send_kept(&key.as_bytes()))
    })?;
    set(lua, host, "cache_purge", |_, (name, value): (mlua::String, mlua::String)| {
        let text = || value.to_string_lossy();
        let what = match &*name.as_bytes() {
            b"all" => Purge::All,
            b"key" => Purge::Key(value.as_bytes().to_vec()),
            b"prefix" => Purge::Prefix(text()),
            b"tag" => Purge::Tag(text()),
            _ => Purge::Url(text()),
        };
        Ok(match http(|http| http.purge(what))? {
            Ok(count) => (Some(count), None),
            Err(problem) => (None, Some(problem)),
        })
    })
}

fn override_of(name: &[u8], value: &Value) -> mlua::Result<Override> {
    let seconds = || value.as_f64().or(value.as_i64().map(|number| number as f64)).unwrap_or(0.0);
    let time = || Duration::from_secs_f64(seconds().clamp(0.0, LONGEST));
    let text = |text: &mlua::String| text.as_bytes().to_vec();
    Ok(match name {
        b"key" => Override::Key(value.as_string().map(text).unwrap_or_default()),
        b"lifetime" => Override::Lifetime(time()),
        b"stale_while_revalidate" => Override::WhileRevalidate(time()),
        b"stale_if_error" => Override::IfError(time()),
        b"since" => Override::Since(SystemTime::UNIX_EPOCH + time()),
        b"tags" => {
            let tags = value.as_table().map(|tags| tags.sequence_values::<mlua::String>());
            let tags = tags.into_iter().flatten().map(|tag| Ok(tag?.to_string_lossy()));
            Override::Tags(tags.collect::<mlua::Result<_>>()?)
        }
        _ => Override::Bypass(value.as_boolean().unwrap_or(false)),
    })
}
