//! Where a script is: for messages about what it does.

use std::ffi::CStr;
use std::mem::MaybeUninit;

use mlua::{Lua, ffi};

/// File and line of the script's function that has called, if one has; the prelude may stand
/// between.
pub fn location_in(lua: &Lua) -> Option<String> {
    let mut found = None;
    // SAFETY: the closure leaves Lua's stack as it is.
    let looked = unsafe { lua.exec_raw::<()>((), |state| found = location(state)) };
    looked.ok().and(found)
}

/// File and line of the innermost function that is a script's: the prelude's have names that begin
/// with `=`.
///
/// # Safety
/// The thread must be inside the state.
pub unsafe fn location(state: *mut ffi::lua_State) -> Option<String> {
    for level in 0.. {
        let mut info = MaybeUninit::<ffi::lua_Debug>::zeroed();
        // SAFETY: `lua_getstack` says whether there is such a level; if so, `lua_getinfo` fills the
        // fields that `Sl` asks for; `source` and `short_src` end with a zero.
        unsafe {
            if ffi::lua_getstack(state, level, info.as_mut_ptr()) == 0
                || ffi::lua_getinfo(state, c"Sl".as_ptr(), info.as_mut_ptr()) == 0
            {
                return None;
            }
            let info = info.assume_init_ref();
            if info.currentline > 0 && *info.source as u8 != b'=' {
                let source = CStr::from_ptr(info.short_src.as_ptr()).to_string_lossy();
                return Some(format!("{source}:{}", info.currentline));
            }
        }
    }
    None
}
