//! Functions for scripts that take text and give nothing back.
//!
//! Nearly every run calls some of them. mlua would hold each argument in a place of its own, with
//! an allocation and a lock; here a function looks at the bytes where Lua has them, for as long as
//! the call takes.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

use mlua::{Function, Lua, ffi};

use super::location::location;

thread_local! {
    /// A panic on its way through Lua, which must not unwind it itself.
    static PANIC: RefCell<Option<Box<dyn Any + Send>>> = const { RefCell::new(None) };
}

/// What such a function does with its `N` arguments.
pub trait TextCall<const N: usize> {
    /// Does it.
    ///
    /// # Errors
    /// Fails with a message for the script.
    fn call(caller: &Caller, texts: [&[u8]; N]) -> mlua::Result<()>;
}

/// The caller of such a function.
pub struct Caller {
    state: *mut ffi::lua_State,
}

impl Caller {
    /// File and line of the script's function, if it is one.
    pub fn location(&self) -> Option<String> {
        // SAFETY: only `enter` makes a caller, and it does not outlive the call.
        unsafe { location(self.state) }
    }
}

/// Makes the function.
///
/// # Errors
/// Fails if the state has no memory left.
pub fn text_function<C: TextCall<N>, const N: usize>(lua: &Lua) -> mlua::Result<Function> {
    // SAFETY: `enter` is a function as Lua wants it; see there.
    unsafe { lua.create_c_function(enter::<C, N>) }
}

/// Goes on with a panic that such a function has had, now that Lua has been left.
pub fn go_on_panicking() {
    if let Some(panic) = PANIC.take() {
        std::panic::resume_unwind(panic);
    }
}

/// Makes a function that is called when something is assigned to a field of a table (`__newindex`):
/// of the field's name and of what is assigned, where nil is an empty text.
///
/// # Errors
/// Fails if the state has no memory left.
pub fn assign_function<C: TextCall<2>>(lua: &Lua) -> mlua::Result<Function> {
    // SAFETY: `assign` is a function as Lua wants it; see there.
    unsafe { lua.create_c_function(assign::<C>) }
}

/// # Safety
/// Lua calls it. It holds nothing that would have to be dropped when it raises an error.
unsafe extern "C-unwind" fn enter<C: TextCall<N>, const N: usize>(
    state: *mut ffi::lua_State,
) -> c_int {
    let mut texts: [&[u8]; N] = [&[]; N];
    for (text, at) in texts.iter_mut().zip(1..) {
        // SAFETY: it stays on the stack until we return.
        let Some(given) = (unsafe { text_at(state, at) }) else {
            // SAFETY: nothing here has to be dropped.
            return unsafe { ffi::luaL_error(state, c"a text was expected".as_ptr()) };
        };
        *text = given;
    }
    // SAFETY: nothing here has to be dropped.
    unsafe { guarded(state, || C::call(&Caller { state }, texts).map(|()| 0)) }
}

/// # Safety
/// As [`enter`].
unsafe extern "C-unwind" fn assign<C: TextCall<2>>(state: *mut ffi::lua_State) -> c_int {
    let mut texts: [&[u8]; 2] = [&[]; 2];
    for (text, at) in texts.iter_mut().zip(2..) {
        // SAFETY: as in `enter`.
        if let Some(given) = unsafe { text_at(state, at) } {
            *text = given;
            continue;
        }
        // SAFETY: as in `enter`.
        unsafe {
            let kind = ffi::lua_type(state, at);
            if kind != ffi::LUA_TNIL || at < 3 {
                let problem = c"bad argument #%d to 'newindex' (string expected, got %s)";
                return ffi::luaL_error(
                    state,
                    problem.as_ptr(),
                    at,
                    ffi::lua_typename(state, kind),
                );
            }
        }
    }
    // SAFETY: as in `enter`.
    unsafe { guarded(state, || C::call(&Caller { state }, texts).map(|()| 0)) }
}

/// The text on the stack there; a number becomes a text in its place.
///
/// # Safety
/// The text is looked at only as long as it is on the stack, where Lua leaves it in its place.
unsafe fn text_at<'a>(state: *mut ffi::lua_State, at: c_int) -> Option<&'a [u8]> {
    let mut length = 0;
    // SAFETY: the caller's.
    let start = unsafe { ffi::lua_tolstring(state, at, &mut length) };
    // SAFETY: Lua says that so many bytes are there.
    (!start.is_null()).then(|| unsafe { slice::from_raw_parts(start.cast(), length) })
}

/// Does what a function does, which says how many values it has pushed; its error, or its panic,
/// becomes an error of the script.
///
/// # Safety
/// Lua has called the caller, which holds nothing that would have to be dropped.
pub(super) unsafe fn guarded(
    state: *mut ffi::lua_State,
    act: impl FnOnce() -> mlua::Result<c_int>,
) -> c_int {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(pushed)) => return pushed,
        Ok(Err(problem)) => {
            let problem = problem.to_string();
            // SAFETY: the text is copied.
            unsafe { ffi::lua_pushlstring(state, problem.as_ptr().cast(), problem.len()) };
        }
        Err(panic) => {
            PANIC.set(Some(panic));
            // SAFETY: as above.
            unsafe { ffi::lua_pushnil(state) };
        }
    }
    // SAFETY: the error is on the stack, and everything above has been dropped.
    unsafe { ffi::lua_error(state) }
}
