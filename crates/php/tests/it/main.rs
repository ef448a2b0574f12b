//! The real program, asked through a real queue. What HTTP makes of it is tested with the whole
//! server.

mod canaries;
mod classic;
mod concurrent;
mod concurrent_ends;
mod concurrent_waits;
mod context;
mod contract;
mod coroutines;
mod environment;
mod fastcgi;
mod fibers;
mod harness;
mod in_use;
mod jumps;
mod late_ends;
mod life;
mod memory;
mod names;
mod observers;
mod persistent_streams;
mod pool_ends;
mod pools;
mod revolt;
mod state;
mod stubs;
mod turns;
mod values;
mod wake_ups;
mod worker;

// For the linker: the shim stands between this program and libc too.
use tokamak_image as _;

/// For the linker, too: what the shim says in a worker. Nothing in this program waits for a lock in
/// async mode.
#[unsafe(no_mangle)]
extern "C" fn rust_log(_level: i32, _text: *const u8, _len: usize) {}
