//! A Lua state with the libraries that the prelude builds the scripts' own from.

use mlua::{Lua, LuaOptions, StdLib};

/// Opens a state. No script may see it as it is: the prelude copies what is harmless, and clears
/// the rest away.
pub fn open() -> Lua {
    let libraries = StdLib::BIT
        | StdLib::DEBUG
        | StdLib::IO
        | StdLib::JIT
        | StdLib::MATH
        | StdLib::OS
        | StdLib::STRING
        | StdLib::TABLE;
    // SAFETY: what is unsafe is `debug`, and loading machine code or byte code. The prelude is
    // ours; to scripts it gives two functions of `debug`, neither of which changes anything, and
    // loaders that take text only. `package` and `ffi` are not loaded at all. With
    // `catch_rust_panics` LuaJIT's own `pcall` is kept, over which a script can wait.
    unsafe { Lua::unsafe_new_with(libraries, LuaOptions::new().catch_rust_panics(true)) }
}
