//! `tokamak.shared`: the dictionaries' operations. What scripts give is checked in the prelude.

use std::sync::Arc;
use std::time::Duration;

use mlua::{Lua, Table, Value as LuaValue};

use super::set;
use crate::shared::{Dictionaries, Dictionary, Keys, Lifetime, Refusal, Value};

/// Keys that are listed at most, since other requests wait meanwhile.
const MOST_KEYS: usize = 100_000;

pub fn add(lua: &Lua, host: &Table, dictionaries: &Dictionaries) -> mlua::Result<()> {
    let all = lua.create_table()?;
    for (name, dictionary) in dictionaries {
        all.raw_set(name.as_str(), operations(lua, dictionary)?)?;
    }
    host.set("dictionaries", all)
}

/// Seconds as scripts write them: none are for ever.
fn lifetime(seconds: f64) -> Lifetime {
    (seconds > 0.0).then(|| Duration::try_from_secs_f64(seconds).ok()).flatten()
}

fn value(given: &LuaValue) -> Option<Value> {
    match given {
        LuaValue::Boolean(boolean) => Some(Value::Boolean(*boolean)),
        LuaValue::String(text) => Some(Value::Text(Arc::from(&*text.as_bytes()))),
        LuaValue::Number(number) => Some(Value::Number(*number)),
        LuaValue::Integer(number) => Some(Value::Number(*number as f64)),
        _ => None,
    }
}

fn number_of(most: usize) -> usize {
    if most == 0 { MOST_KEYS } else { most.min(MOST_KEYS) }
}

/// The functions of one dictionary, by the prelude's names.
fn operations(lua: &Lua, dictionary: &Arc<Dictionary>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let own = dictionary.clone();
    set(lua, &table, "get", move |lua, key: mlua::String| match own.get(&key.as_bytes()) {
        None => Ok(LuaValue::Nil),
        Some(Value::Boolean(boolean)) => Ok(LuaValue::Boolean(boolean)),
        Some(Value::Number(number)) => Ok(LuaValue::Number(number)),
        Some(Value::Text(text)) => lua.create_string(text).map(LuaValue::String),
    })?;
    for (name, keys) in [("set", Keys::Any), ("add", Keys::Absent), ("replace", Keys::Present)] {
        let own = dictionary.clone();
        set(lua, &table, name, move |_, (key, given, seconds): (mlua::String, LuaValue, f64)| {
            let Some(value) = value(&given) else {
                return Ok((false, Some("bad value type"), false));
            };
            Ok(match own.set(keys, &key.as_bytes(), value, lifetime(seconds)) {
                Ok(forced) => (true, None, forced),
                Err(refusal) => (false, Some(refusal.text()), false),
            })
        })?;
    }
    let own = dictionary.clone();
    type Sum = (mlua::String, f64, Option<f64>, f64);
    set(lua, &table, "incr", move |_, (key, by, initial, seconds): Sum| {
        let initial = initial.map(|initial| (initial, lifetime(seconds)));
        Ok(match own.add(&key.as_bytes(), by, initial) {
            Ok((sum, forced)) => (Some(sum), None, forced),
            Err(refusal) => (None, Some(refusal.text()), false),
        })
    })?;
    let own = dictionary.clone();
    set(lua, &table, "delete", move |_, key: mlua::String| {
        own.remove(&key.as_bytes());
        Ok(())
    })?;
    times(lua, &table, dictionary)?;
    whole(lua, &table, dictionary)?;
    Ok(table)
}

fn times(lua: &Lua, table: &Table, dictionary: &Arc<Dictionary>) -> mlua::Result<()> {
    let own = dictionary.clone();
    set(lua, table, "ttl", move |_, key: mlua::String| {
        Ok(match own.lifetime(&key.as_bytes()) {
            Some(lifetime) => (Some(lifetime.map_or(0.0, |left| left.as_secs_f64())), None),
            None => (None, Some(Refusal::NotFound.text())),
        })
    })?;
    let own = dictionary.clone();
    set(lua, table, "expire", move |_, (key, seconds): (mlua::String, f64)| {
        let found = own.set_lifetime(&key.as_bytes(), lifetime(seconds));
        Ok((found, (!found).then(|| Refusal::NotFound.text())))
    })
}

/// What concerns a dictionary as a whole.
fn whole(lua: &Lua, table: &Table, dictionary: &Arc<Dictionary>) -> mlua::Result<()> {
    let own = dictionary.clone();
    set(lua, table, "get_keys", move |lua, most: usize| {
        let keys = lua.create_table()?;
        for key in own.keys(number_of(most)) {
            keys.raw_push(lua.create_string(key)?)?;
        }
        Ok(keys)
    })?;
    let own = dictionary.clone();
    set(lua, table, "flush_all", move |_, ()| {
        own.clear();
        Ok(())
    })?;
    let own = dictionary.clone();
    set(
        lua,
        table,
        "flush_expired",
        move |_, most: usize| Ok(own.remove_expired(number_of(most))),
    )?;
    let own = dictionary.clone();
    set(lua, table, "capacity", move |_, ()| Ok(own.capacity()))?;
    let own = dictionary.clone();
    set(lua, table, "free_space", move |_, ()| Ok(own.free()))
}
