//! `lighty.r.req_header`, `resp_header`, `req_attr`, `req_item`, `req_env`, and
//! `lighty.server.stats`.

use mlua::{Lua, Table};

use super::{field, set};
use crate::current::{http, remark, with};
use crate::host::{Attribute, Item, Other, Side};
use crate::raw::{Caller, TextCall, assign_function, text_function};

/// A side, in the prelude's words.
fn side(number: u8) -> Side {
    if number == 0 { Side::Request } else { Side::Response }
}

/// A flat list of names and values.
#[derive(Default)]
pub struct Pairs(Vec<Vec<u8>>);

impl Pairs {
    /// Adds a name with its value.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.0.extend([name.to_vec(), value.to_vec()]);
    }

    /// As Lua has it.
    pub fn table(&self, lua: &Lua) -> mlua::Result<Table> {
        let list = lua.create_table_with_capacity(self.0.len(), 0)?;
        for text in &self.0 {
            list.raw_push(lua.create_string(text)?)?;
        }
        Ok(list)
    }
}

pub fn add(lua: &Lua, host: &Table) -> mlua::Result<()> {
    headers(lua, host)?;
    attributes(lua, host)?;
    variables(lua, host)?;
    set(lua, host, "item", |_, name: mlua::String| {
        let Some(item) = Item::named(&name.as_bytes()) else { return Ok((None, None)) };
        let (first, second) = http(|http| http.item(item))?;
        Ok((Some(first), Some(second)))
    })?;
    set(lua, host, "others", |lua, ()| {
        let others = http(|http| http.others())?;
        let list = lua.create_table()?;
        for other in &others {
            list.raw_push(shown(lua, other)?)?;
        }
        Ok(list)
    })?;
    set(lua, host, "set_keep_alive", |_, value: f64| {
        if value == 0.0 || value == -1.0 {
            http(|http| http.set_keep_alive(value as i64))?;
        }
        Ok(())
    })?;
    set(lua, host, "server", |lua, name: mlua::String| {
        let name = name.as_bytes();
        Ok(match &*name {
            b"uptime" => mlua::Value::Integer(http(|http| http.uptime())? as _),
            b"clients_open" => mlua::Value::Integer(http(|http| http.clients())? as _),
            b"version" => mlua::Value::String(
                lua.create_string(concat!("tokamak/", env!("CARGO_PKG_VERSION")))?,
            ),
            _ => mlua::Value::Nil,
        })
    })
}

struct SetRequestHeader;

impl TextCall<2> for SetRequestHeader {
    fn call(caller: &Caller, [name, value]: [&[u8]; 2]) -> mlua::Result<()> {
        assign(caller, Side::Request, name, value)
    }
}

struct SetResponseHeader;

impl TextCall<2> for SetResponseHeader {
    fn call(caller: &Caller, [name, value]: [&[u8]; 2]) -> mlua::Result<()> {
        assign(caller, Side::Response, name, value)
    }
}

fn assign(caller: &Caller, side: Side, name: &[u8], value: &[u8]) -> mlua::Result<()> {
    match http(|http| field::assign(http, side, name, value))? {
        Ok(()) => Ok(()),
        Err(problem) => remark(caller.location(), &problem),
    }
}

/// Another request: attributes and header fields as flat lists, items by their names.
fn shown(lua: &Lua, other: &Other) -> mlua::Result<Table> {
    let (mut attributes, mut fields) = (Pairs::default(), Pairs::default());
    other
        .attributes
        .iter()
        .for_each(|(attribute, value)| attributes.push(attribute.name().as_bytes(), value));
    other.fields.iter().for_each(|(name, value)| fields.push(name, value));
    let items = lua.create_table()?;
    for (item, (first, second)) in &other.items {
        items.raw_set(item.name(), lua.create_sequence_from([*first, *second])?)?;
    }
    let table = lua.create_table_with_capacity(0, 3)?;
    table.raw_set("attributes", attributes.table(lua)?)?;
    table.raw_set("fields", fields.table(lua)?)?;
    table.raw_set("items", items)?;
    Ok(table)
}

fn headers(lua: &Lua, host: &Table) -> mlua::Result<()> {
    set(lua, host, "header", |lua, (which, name): (u8, mlua::String)| {
        let value = http(|http| field::joined(http, side(which), &name.as_bytes()))?;
        value.map(|value| lua.create_string(value)).transpose()
    })?;
    host.set("assign_request_header", assign_function::<SetRequestHeader>(lua)?)?;
    host.set("assign_response_header", assign_function::<SetResponseHeader>(lua)?)?;
    host.set("set_response_header", text_function::<SetResponseHeader, 2>(lua)?)?;
    set(lua, host, "headers", |lua, which: u8| {
        let mut pairs = Pairs::default();
        http(|http| http.fields(side(which), &mut |name, value| pairs.push(name, value)))?;
        pairs.table(lua)
    })
}

fn attributes(lua: &Lua, host: &Table) -> mlua::Result<()> {
    set(lua, host, "attribute", |lua, name: mlua::String| {
        let Some(attribute) = Attribute::named(&name.as_bytes()) else { return Ok(None) };
        let value = http(|http| http.attribute(attribute))?;
        value.map(|value| lua.create_string(value)).transpose()
    })?;
    set(lua, host, "set_attribute", |_, (name, value): (mlua::String, mlua::String)| {
        let name = name.as_bytes();
        let Some(attribute) = Attribute::named(&name) else {
            return Ok(Some(format!("couldn't store '{}' in r.req_attr[]", name.escape_ascii())));
        };
        if !attribute.is_writable() {
            return Ok(None);
        }
        http(|http| http.set_attribute(attribute, &value.as_bytes()).err())
    })?;
    set(lua, host, "attributes", |lua, ()| {
        // A value that is not there ends no list: it shows as nil, as in lighttpd.
        let list = lua.create_table()?;
        for (at, attribute) in Attribute::ALL.iter().enumerate() {
            list.raw_set(2 * at + 1, attribute.name())?;
            if let Some(value) = http(|http| http.attribute(*attribute))? {
                list.raw_set(2 * at + 2, lua.create_string(value)?)?;
            }
        }
        Ok(list)
    })
}

fn variables(lua: &Lua, host: &Table) -> mlua::Result<()> {
    set(lua, host, "variable", |lua, name: mlua::String| {
        let value = with(|context| context.host.variable(&name.as_bytes()))?;
        value.map(|value| lua.create_string(value)).transpose()
    })?;
    set(lua, host, "set_variable", |_, (name, value): (mlua::String, Option<mlua::String>)| {
        let value = value.as_ref().map(|value| value.as_bytes());
        http(|http| http.set_variable(&name.as_bytes(), value.as_deref()))
    })?;
    set(lua, host, "variables", |lua, ()| {
        let mut pairs = Pairs::default();
        http(|http| http.variables(&mut |name, value| pairs.push(name, value)))?;
        pairs.table(lua)
    })
}
