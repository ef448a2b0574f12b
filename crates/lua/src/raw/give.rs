//! What a wait has brought, given to the script.
//!
//! mlua would make each text in a protected call of its own, for which it makes a function. Here
//! Lua has called, so the lack of memory is raised as an error of the script.

use std::ffi::c_int;

use mlua::{Function, Lua, ffi};

use crate::call::{Response, Value};
use crate::current::brought;

/// Stack places that one value takes while it is made, without those of its elements.
const PLACES: c_int = 3;

/// Makes the function, which gives one value, or nil and a message; of a response status, body and
/// header fields.
///
/// # Errors
/// Fails if the state has no memory left.
pub fn giving_function(lua: &Lua) -> mlua::Result<Function> {
    // SAFETY: `give` is a function as Lua wants it; see there.
    unsafe { lua.create_c_function(give) }
}

/// # Safety
/// Lua calls it. It holds nothing that would have to be dropped when it raises an error.
unsafe extern "C-unwind" fn give(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: the value stays where it is, and as it is, until Lua has been left.
    let Some(value) = (unsafe { brought().as_ref() }) else { return 0 };
    // SAFETY: a function finds room for twenty values.
    unsafe {
        match value {
            // Not a nil more than there has to be: what a call gives is often handed on to a
            // function.
            Value::Nil => ffi::lua_pushnil(state),
            Value::Problem(message) => {
                ffi::lua_pushnil(state);
                text(state, message);
                return 2;
            }
            Value::Response(Response { status, fields, body }) => {
                ffi::lua_pushinteger(state, (*status).into());
                text(state, body);
                text(state, fields);
                return 3;
            }
            other => element(state, other),
        }
    }
    1
}

/// Pushes a value as it is within a list.
///
/// # Safety
/// As [`give`].
unsafe fn element(state: *mut ffi::lua_State, value: &Value) {
    // SAFETY: there is room on the stack for all that is pushed, and Lua copies what it is given.
    unsafe {
        ffi::luaL_checkstack(state, PLACES, std::ptr::null());
        match value {
            Value::Nil => ffi::lua_pushlightuserdata(state, std::ptr::null_mut()),
            Value::Boolean(truth) => ffi::lua_pushboolean(state, (*truth).into()),
            Value::Integer(number) => ffi::lua_pushinteger(state, *number as ffi::lua_Integer),
            Value::Number(number) => ffi::lua_pushnumber(state, *number),
            // No call brings a list of responses.
            Value::Bytes(bytes) | Value::Response(Response { body: bytes, .. }) => {
                text(state, bytes)
            }
            Value::List(values) => {
                ffi::lua_createtable(state, values.len() as c_int, 0);
                for (index, value) in (1..).zip(values) {
                    element(state, value);
                    ffi::lua_rawseti(state, -2, index);
                }
            }
            Value::Problem(message) => {
                ffi::lua_createtable(state, 2, 0);
                ffi::lua_pushboolean(state, 0);
                ffi::lua_rawseti(state, -2, 1);
                text(state, message);
                ffi::lua_rawseti(state, -2, 2);
            }
        }
    }
}

/// # Safety
/// There is a place on the stack.
unsafe fn text(state: *mut ffi::lua_State, bytes: &[u8]) {
    // SAFETY: Lua copies them.
    unsafe { ffi::lua_pushlstring(state, bytes.as_ptr().cast(), bytes.len()) };
}
