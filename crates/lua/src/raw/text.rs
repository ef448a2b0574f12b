//! Functions for scripts that take text and give nothing back.
//!
//! Nearly every run calls some of them. mlua would hold each argument in a place of its own, with an allocation and a lock;
//! here a function looks at the bytes where Lua has them, for as long as the call takes.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

use mlua::{Function, Lua, ffi};

use super::place::place;

thread_local! {
    /// A panic on its way through Lua, which must not unwind it itself.
    static PANIC: RefCell<Option<Box<dyn Any + Send>>> = const { RefCell::new(None) };
}

/// What such a function does with its `N` arguments.
pub trait TextCall<const N: usize> {
    /// Does it.
    ///
    /// # Errors
    /// What the script is told.
    fn call(caller: &Caller, texts: [&[u8]; N]) -> mlua::Result<()>;
}

/// Who has called such a function.
pub struct Caller {
    state: *mut ffi::lua_State,
}

impl Caller {
    /// File and line of the script's function, if it is one.
    pub fn place(&self) -> Option<String> {
        // SAFETY: only `enter` makes a caller, and it does not outlive the call.
        unsafe { place(self.state) }
    }
}

/// Makes the function.
///
/// # Errors
/// The state has no memory left.
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

/// # Safety
/// Lua calls it. It holds nothing that would have to be dropped when it raises an error.
unsafe extern "C-unwind" fn enter<C: TextCall<N>, const N: usize>(state: *mut ffi::lua_State) -> c_int {
    let mut texts: [&[u8]; N] = [&[]; N];
    for (text, at) in texts.iter_mut().zip(1..) {
        let mut length = 0;
        // SAFETY: a text stays where it is as long as it is on the stack, which is until we return. A number becomes a text
        // in its place.
        *text = unsafe {
            let start = ffi::lua_tolstring(state, at, &mut length);
            if start.is_null() {
                ffi::luaL_error(state, c"a text was expected".as_ptr());
            }
            slice::from_raw_parts(start.cast(), length)
        };
    }
    match catch_unwind(AssertUnwindSafe(|| C::call(&Caller { state }, texts))) {
        Ok(Ok(())) => return 0,
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
