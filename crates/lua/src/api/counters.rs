//! `lighty.server.plugin_stats`, also known as `lighty.status`: numbers that all scripts of an
//! engine share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mlua::{Lua, Table};

use super::request::Pairs;
use super::set;

/// Names that there may be, and bytes of each, so that names made of requests cannot take all
/// memory.
const MOST: usize = 4096;
const LONGEST: usize = 256;

/// The numbers by name.
#[derive(Debug, Default)]
pub struct Counters(Mutex<BTreeMap<Vec<u8>, i64>>);

impl Counters {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number; 0 if it was never set.
    fn get(&self, name: &[u8]) -> i64 {
        self.lock().get(name).copied().unwrap_or(0)
    }

    /// Sets a number, if there is room for it.
    fn set(&self, name: &[u8], value: i64) -> bool {
        let mut counters = self.lock();
        if let Some(counter) = counters.get_mut(name) {
            *counter = value;
            return true;
        }
        let has_room = counters.len() < MOST && name.len() <= LONGEST;
        if has_room {
            counters.insert(name.to_vec(), value);
        }
        has_room
    }
}

pub fn add(lua: &Lua, host: &Table, counters: &Arc<Counters>) -> mlua::Result<()> {
    let all = counters.clone();
    set(lua, host, "counter", move |_, name: mlua::String| Ok(all.get(&name.as_bytes())))?;
    let all = counters.clone();
    set(lua, host, "set_counter", move |_, (name, value): (mlua::String, f64)| {
        if all.set(&name.as_bytes(), value as i64) {
            return Ok(());
        }
        Err(mlua::Error::runtime("no room for another name in plugin_stats"))
    })?;
    let all = counters.clone();
    set(lua, host, "counters", move |lua, ()| {
        let mut pairs = Pairs::default();
        for (name, value) in all.lock().iter() {
            pairs.push(name, value.to_string().as_bytes());
        }
        pairs.table(lua)
    })
}
