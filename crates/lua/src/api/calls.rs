//! `lighty.c`: the functions that only calculate, or tell the time.

use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::hash::{BuildHasher, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use mlua::{Lua, Table};

use super::set;
use crate::codec::{self, Algorithm};

type Text = Option<mlua::String>;

pub fn table(lua: &Lua) -> mlua::Result<Table> {
    let calls = lua.create_table()?;
    transforms(lua, &calls)?;
    digests(lua, &calls)?;
    lists(lua, &calls)?;
    set(lua, &calls, "time", |_, ()| Ok(now().0))?;
    set(lua, &calls, "hrtime", |_, ()| Ok(now()))?;
    set(lua, &calls, "rand", |_, ()| Ok(random()))?;
    set(lua, &calls, "readlink", |lua, path: mlua::String| {
        let target = std::fs::read_link(Path::new(OsStr::from_bytes(&path.as_bytes()))).ok();
        target.map(|target| lua.create_string(target.as_os_str().as_bytes())).transpose()
    })?;
    Ok(calls)
}

/// Seconds and nanoseconds since 1970.
fn now() -> (u64, u32) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs(), since.subsec_nanos())
}

/// A number below 2³¹ that is hard to predict, but not good enough for secrets.
pub fn random() -> u32 {
    (RandomState::new().build_hasher().finish() >> 33) as u32
}

/// Functions of one text, which make nothing of nothing.
fn transforms(lua: &Lua, calls: &Table) -> mlua::Result<()> {
    type Transform = fn(&[u8]) -> Option<Vec<u8>>;
    let all: &[(&str, Transform)] = &[
        ("b64enc", |text| Some(codec::base64_encode(&codec::STANDARD, text))),
        ("b64dec", |text| codec::base64_decode(&codec::STANDARD, text)),
        ("b64urlenc", |text| Some(codec::base64_encode(&codec::URL, text))),
        ("b64urldec", |text| codec::base64_decode(&codec::URL, text)),
        ("hexenc", |text| Some(codec::hex(text))),
        ("hexdec", codec::unhex),
        ("xmlenc", |text| Some(codec::xml(text))),
        ("urlenc", |text| Some(codec::url_encode(text))),
        ("urldec", |text| Some(codec::url_decode(text))),
        ("urlenc_normalize", |text| Some(codec::normalize(text))),
        ("fspath_simplify", |text| Some(codec::simplify(text))),
        ("quotedenc", |text| Some(codec::quote(text))),
        ("quoteddec", codec::unquote),
        ("bsenc", |text| Some(codec::backslash(text))),
        ("bsenc_json", |text| Some(codec::backslash_json(text))),
        ("bsdec", |text| Some(codec::unbackslash(text))),
    ];
    for &(name, transform) in all {
        set(lua, calls, name, move |lua, text: Text| {
            let bytes = text.as_ref().map(|text| text.as_bytes());
            let bytes = bytes.as_deref().unwrap_or_default();
            if bytes.is_empty() {
                return lua.create_string("").map(Some);
            }
            transform(bytes).map(|result| lua.create_string(result)).transpose()
        })?;
    }
    Ok(())
}

fn digests(lua: &Lua, calls: &Table) -> mlua::Result<()> {
    set(lua, calls, "md", |lua, (name, data): (Text, Text)| {
        let Some(algorithm) = Algorithm::named(&bytes(&name)) else { return Ok(None) };
        lua.create_string(algorithm.digest(&bytes(&data))).map(Some)
    })?;
    set(lua, calls, "hmac", |lua, (name, key, data): (Text, Text, Text)| {
        let Some(algorithm) = Algorithm::named(&bytes(&name)) else { return Ok(None) };
        lua.create_string(codec::hmac(algorithm, &bytes(&key), &bytes(&data))).map(Some)
    })?;
    set(lua, calls, "digest_eq", |_, (one, other): (Text, Text)| {
        Ok(codec::equal_digests(&bytes(&one), &bytes(&other)))
    })?;
    set(lua, calls, "secret_eq", |_, (one, other): (Text, Text)| {
        Ok(codec::equal_secrets(&bytes(&one), &bytes(&other)))
    })
}

fn bytes(text: &Text) -> Vec<u8> {
    text.as_ref().map(|text| text.as_bytes().to_vec()).unwrap_or_default()
}

fn lists(lua: &Lua, calls: &Table) -> mlua::Result<()> {
    set(lua, calls, "urldec_query", |lua, text: Text| {
        named(lua, codec::decode_query(&bytes(&text)))
    })?;
    set(lua, calls, "cookie_tokens", |lua, text: Text| {
        named(lua, codec::cookie_tokens(&bytes(&text)))
    })?;
    set(lua, calls, "header_tokens", |lua, text: Text| {
        let list = lua.create_table()?;
        for token in codec::header_tokens(&bytes(&text)) {
            list.raw_push(lua.create_string(token)?)?;
        }
        Ok(list)
    })
}

/// A table by name; of values with the same name it has the last.
fn named(lua: &Lua, pairs: Vec<(Vec<u8>, Vec<u8>)>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (name, value) in pairs {
        table.raw_set(lua.create_string(name)?, lua.create_string(value)?)?;
    }
    Ok(table)
}

/// A query of a flat list of names and values.
pub fn encode_query(lua: &Lua, list: Table) -> mlua::Result<mlua::String> {
    let texts: Vec<mlua::String> = list.sequence_values().collect::<mlua::Result<_>>()?;
    let texts: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    let pairs = texts.chunks_exact(2).map(|pair| (&pair[0][..], &pair[1][..]));
    lua.create_string(codec::encode_query(pairs))
}
