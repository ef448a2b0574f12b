//! Ends scripts whose time is up, from outside.
//!
//! A loop that LuaJIT has compiled calls no function, so nothing that runs inside it can look at a
//! clock. But compiled loops look at a flag (LuaJIT is built with `LUAJIT_ENABLE_CHECKHOOK` for
//! that), and `lua_sethook` raises it. That function may only be called by the thread that runs the
//! state, or by a signal handler on that thread. So:
//!
//! 1. A [`Slot`] belongs to one Lua state and holds the tick at which the present run must have
//!    ended, and the thread that runs it. A run sets and clears it without a system call.
//! 2. The keeper's thread counts the ticks, looks at all slots, and sends the thread of one that is
//!    overdue a signal.
//! 3. The signal's handler finds the state in a variable of its own thread, and sets a hook for the
//!    next instruction.
//! 4. The hook looks again whether the run is overdue, because a signal may arrive late, when
//!    another run is on. It raises an error if so. Otherwise it takes itself away.
//!
//! Invariants:
//!
//! - A. [`ACTIVE`] is null, or points to a state that the same thread is inside of: only
//!   [`Slot::enter`] sets it, for a state that its caller holds, and the guard that it returns
//!   clears it before the caller can let go of the state.
//! - B. The handler does nothing but read that variable and call `lua_sethook`, which LuaJIT allows
//!   in a handler. If it comes while LuaJIT itself changes its dispatch table, the hook may be
//!   lost; the next tick sends another signal.
//! - C. The hook's frame holds nothing that would have to be dropped, since the error unwinds
//!   through it.
//! - D. A hook that has raised its error stays, so that a script cannot catch it and go on: each
//!   further instruction raises it again, until the run has left Lua and the guard takes the hook
//!   away.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};

use mlua::{Lua, ffi};

use super::location::location;

/// The signal: nothing else in a server uses the timer that it is named for.
const SIGNAL: c_int = libc::SIGVTALRM;

/// Counts ticks; see [`Watchdog::tick`].
static TICK: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The state that this thread is inside of, for the signal handler.
    static ACTIVE: Cell<*mut ffi::lua_State> = const { Cell::new(ptr::null_mut()) };
    /// The tick at which that must end.
    static DUE: Cell<u64> = const { Cell::new(0) };
    /// Whether the hook has raised its error.
    static RAISED: Cell<bool> = const { Cell::new(false) };
    /// Where it did.
    static LOCATION: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Looks after the time limits of all states of the process.
#[derive(Debug, Default)]
pub struct Watchdog {
    slots: Mutex<Vec<Weak<Shared>>>,
}

/// What the watchdog needs to know of a state.
#[derive(Debug, Default)]
struct Shared {
    /// The tick at which the present run must have ended; 0 if there is none.
    due: AtomicU64,
    /// The thread that runs it.
    thread: AtomicI32,
}

/// The watched side of one Lua state.
#[derive(Debug)]
pub struct Slot {
    /// Keeps the state alive.
    _lua: Lua,
    state: *mut ffi::lua_State,
    shared: Arc<Shared>,
}

// SAFETY: the pointer is used only by `enter`'s guard, which stays on one thread; `_lua` keeps what
// it points to alive, and is itself made to be shared.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

/// A stay inside a Lua state.
pub struct Stay<'a> {
    slot: &'a Slot,
    /// Keeps the guard on the thread that made it.
    _thread: std::marker::PhantomData<*const ()>,
}

/// How a stay ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// By itself.
    InTime,
    /// By force, at this location of a script.
    Overdue(Option<String>),
}

impl Watchdog {
    /// Watches a state from now on.
    ///
    /// # Errors
    /// Fails if the state has no memory left.
    pub fn watch(&self, lua: &Lua) -> mlua::Result<Slot> {
        install();
        let mut state = ptr::null_mut();
        // SAFETY: the closure only reads its argument, and leaves Lua's stack as it is.
        unsafe { lua.exec_raw::<()>((), |inner| state = inner)? };
        let shared = Arc::new(Shared::default());
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|slot| slot.strong_count() > 0);
        slots.push(Arc::downgrade(&shared));
        Ok(Slot { _lua: lua.clone(), state, shared })
    }

    /// Counts a tick, and reminds every run that is overdue. Whether any run is on.
    pub fn tick(&self) -> bool {
        let now = TICK.fetch_add(1, Ordering::Relaxed) + 1;
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let mut busy = false;
        for slot in slots.iter().filter_map(Weak::upgrade) {
            let due = slot.due.load(Ordering::Acquire);
            busy |= due != 0;
            if due != 0 && now >= due {
                remind(slot.thread.load(Ordering::Relaxed));
            }
        }
        busy
    }
}

impl Slot {
    /// Begins a stay in the state, of that many ticks at most.
    pub fn enter(&self, ticks: u64) -> Stay<'_> {
        let due = TICK.load(Ordering::Relaxed) + ticks;
        RAISED.set(false);
        DUE.set(due);
        ACTIVE.set(self.state);
        self.shared.thread.store(own_thread(), Ordering::Relaxed);
        self.shared.due.store(due, Ordering::Release);
        Stay { slot: self, _thread: std::marker::PhantomData }
    }
}

impl Stay<'_> {
    /// Ends the stay.
    pub fn end(self) -> End {
        if RAISED.replace(false) { End::Overdue(LOCATION.take()) } else { End::InTime }
    }
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        self.slot.shared.due.store(0, Ordering::Release);
        DUE.set(0);
        ACTIVE.set(ptr::null_mut());
        // SAFETY: `_lua` keeps the state alive, and this thread has left it but for this call. A
        // hook that a late signal has set is taken away as well.
        unsafe {
            if ffi::lua_gethookmask(self.slot.state) != 0 {
                ffi::lua_sethook(self.slot.state, None, 0, 0);
            }
        }
    }
}

/// Whether the time of the run on this thread is up, also if the watchdog has not seen it yet.
pub fn is_due() -> bool {
    let due = DUE.get();
    due != 0 && TICK.load(Ordering::Relaxed) >= due
}

/// Ends the run on this thread with its next instruction, if its time is up: for functions that
/// look at the time themselves and would not wait for the signal.
pub fn end_now() {
    let state = ACTIVE.get();
    if !state.is_null() {
        // SAFETY: invariant A; this thread may call it as its signal handler may.
        unsafe { ffi::lua_sethook(state, Some(hook), ffi::LUA_MASKCOUNT, 1) };
    }
}

/// Whether the watchdog has signalled the run on this thread that its time is up.
pub fn is_overdue() -> bool {
    RAISED.get()
}

/// This thread's number, asked for once.
fn own_thread() -> i32 {
    thread_local! {
        static THREAD: Cell<i32> = const { Cell::new(0) };
    }
    if THREAD.get() == 0 {
        // SAFETY: the call takes nothing and cannot fail.
        THREAD.set(unsafe { libc::gettid() });
    }
    THREAD.get()
}

fn remind(thread: i32) {
    // SAFETY: a signal to a thread of this process. Should the thread have ended, the call fails;
    // should its number be another thread's now, the handler there finds no state.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, SIGNAL) };
}

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: zero is a valid `sigaction`, and the fields that matter are set; `on_signal` does
        // only what a handler may do. System calls that it interrupts are begun again.
        unsafe {
            (*action.as_mut_ptr()).sa_sigaction = on_signal as extern "C" fn(c_int) as usize;
            (*action.as_mut_ptr()).sa_flags = libc::SA_RESTART;
            libc::sigaction(SIGNAL, action.as_ptr(), ptr::null_mut());
        }
    });
}

extern "C" fn on_signal(_: c_int) {
    let state = ACTIVE.get();
    if !state.is_null() {
        // SAFETY: invariants A and B.
        unsafe { ffi::lua_sethook(state, Some(hook), ffi::LUA_MASKCOUNT, 1) };
    }
}

unsafe extern "C-unwind" fn hook(state: *mut ffi::lua_State, _: *mut ffi::lua_Debug) {
    if !is_due() {
        // SAFETY: LuaJIT calls the hook on the thread that is inside the state.
        unsafe { ffi::lua_sethook(state, None, 0, 0) };
        return;
    }
    if !RAISED.replace(true) {
        // SAFETY: as above.
        LOCATION.set(unsafe { location(state) });
    }
    // SAFETY: LuaJIT catches the error at the nearest protected call, which every run is inside of;
    // invariant C.
    unsafe { ffi::luaL_error(state, c"the script's time is up".as_ptr()) };
}
