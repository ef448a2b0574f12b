//! Functions by which scripts begin something that they wait for: they give its number.
//!
//! As in [`text`](super::text), their arguments are looked at where Lua has them.

use std::ffi::c_int;
use std::slice;

use mlua::{Function, Lua, ffi};

use super::text::guarded;

/// What such a function does.
pub trait BeginCall {
    /// Begins it, and gives the number to wait for it by.
    ///
    /// # Errors
    /// Fails with a message for the script.
    fn call(arguments: &Arguments) -> mlua::Result<u32>;
}

/// The arguments of such a function, by their places from 1.
///
/// While they exist Lua does not run, and so keeps each text where it is.
pub struct Arguments {
    state: *mut ffi::lua_State,
}

impl Arguments {
    /// A text; nothing if it is none. A number is no text here: to make one of it takes memory.
    pub fn text(&self, at: c_int) -> Option<&[u8]> {
        // SAFETY: Lua takes any place. Of a text it returns the start, and changes nothing; the
        // text stays on the stack, or in a list that does.
        unsafe {
            if ffi::lua_type(self.state, at) != ffi::LUA_TSTRING {
                return None;
            }
            let mut length = 0;
            let start = ffi::lua_tolstring(self.state, at, &mut length);
            Some(slice::from_raw_parts(start.cast(), length))
        }
    }

    /// The texts of a list; none if it is no list.
    pub fn texts(&self, at: c_int) -> Vec<&[u8]> {
        let mut texts = Vec::new();
        // SAFETY: the place has a table, one of whose values at a time is on the stack, where a
        // function finds room.
        unsafe {
            if ffi::lua_type(self.state, at) == ffi::LUA_TTABLE {
                for index in 1..=ffi::lua_rawlen(self.state, at) {
                    ffi::lua_rawgeti(self.state, at, index as ffi::lua_Integer);
                    texts.extend(self.text(-1));
                    ffi::lua_settop(self.state, -2);
                }
            }
        }
        texts
    }

    /// A number; 0 if it is none.
    pub fn number(&self, at: c_int) -> f64 {
        // SAFETY: Lua takes any place, and changes nothing.
        unsafe { ffi::lua_tonumber(self.state, at) }
    }
}

/// Makes the function.
///
/// # Errors
/// Fails if the state has no memory left.
pub fn begin_function<C: BeginCall>(lua: &Lua) -> mlua::Result<Function> {
    // SAFETY: `begin` is a function as Lua wants it; see there.
    unsafe { lua.create_c_function(begin::<C>) }
}

/// # Safety
/// Lua calls it. It holds nothing that would have to be dropped when it raises an error.
unsafe extern "C-unwind" fn begin<C: BeginCall>(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: a function finds room for what it returns.
    unsafe {
        guarded(state, || {
            let number = C::call(&Arguments { state })?;
            ffi::lua_pushinteger(state, number.into());
            Ok(1)
        })
    }
}
