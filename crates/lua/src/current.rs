//! The request that the script belongs to which this thread is executing.
//!
//! Functions that scripts call are made once and know no request. A run takes its seat here before
//! it enters Lua and leaves it afterwards; between the two nothing else of this thread runs.

use std::cell::RefCell;
use std::task::{Context, Poll};

use crate::call::{Value, Waiting};
use crate::host::{Host, HttpContext, Program};

/// What the functions of a script work on.
pub struct Seat {
    /// The request.
    pub host: Box<dyn Host>,
    /// What the script waits for, or is about to.
    pub waits: Waits,
    /// What it has waited for last.
    pub brought: Value,
    /// What is to be said of the script as a whole.
    pub remarks: Vec<String>,
}

/// What one script waits for, by numbers; forgotten with the script.
#[derive(Default)]
pub struct Waits {
    pub all: Vec<(u32, Waiting)>,
    last: u32,
}

impl Waits {
    /// The first that is ready, and what it brought.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<(u32, Result<Value, String>)> {
        for (index, (number, waiting)) in self.all.iter_mut().enumerate() {
            if let Poll::Ready(result) = waiting.as_mut().poll(context) {
                let number = *number;
                drop(self.all.swap_remove(index));
                return Poll::Ready((number, result));
            }
        }
        Poll::Pending
    }

    /// Adds something, and gives it a number.
    fn add(&mut self, waiting: Waiting) -> u32 {
        self.last = self.last.wrapping_add(1);
        self.all.push((self.last, waiting));
        self.last
    }
}

impl Seat {
    /// Adds something that the script will wait for; its number.
    pub fn wait_for(&mut self, waiting: Waiting) -> u32 {
        self.waits.add(waiting)
    }

    /// Ends what was begun under that number.
    pub fn forget(&mut self, number: u32) {
        self.waits.all.retain(|(other, _)| *other != number);
    }
}

/// Tells the operator something about the script, at its line or else under its name.
///
/// # Errors
/// As [`with`].
pub fn remark(location: Option<String>, text: &str) -> mlua::Result<()> {
    with(|seat| match location {
        Some(location) => seat.host.log(&format!("lua: {location}: {text}")),
        None => seat.remarks.push(text.to_owned()),
    })
}

thread_local! {
    static CURRENT: RefCell<Option<Seat>> = const { RefCell::new(None) };
}

/// Takes the seat for the time of `enter`.
pub fn seated<R>(seat: Seat, enter: impl FnOnce() -> R) -> (Seat, R) {
    let before = CURRENT.replace(Some(seat));
    debug_assert!(before.is_none(), "a script runs inside a script");
    let result = enter();
    let seat = CURRENT.take();
    (seat.unwrap_or_else(|| unreachable!("nobody else takes the seat")), result)
}

/// Does something with the current request.
///
/// # Errors
/// Fails if no script runs on this thread.
pub fn with<R>(act: impl FnOnce(&mut Seat) -> R) -> mlua::Result<R> {
    CURRENT.with_borrow_mut(|seat| match seat {
        Some(seat) => Ok(act(seat)),
        None => Err(mlua::Error::runtime("there is no request")),
    })
}

/// Where what the script has waited for last stays until the seat is left; nothing if no script
/// runs.
pub fn brought() -> *const Value {
    CURRENT
        .with_borrow(|seat| seat.as_ref().map_or(std::ptr::null(), |seat| &raw const seat.brought))
}

/// Does something with the HTTP request.
///
/// # Errors
/// Fails if the run is not for an HTTP request.
pub fn http<R>(act: impl FnOnce(&mut dyn HttpContext) -> R) -> mlua::Result<R> {
    with(|seat| seat.host.http().map(act))?
        .ok_or_else(|| mlua::Error::runtime("there is no HTTP request"))
}

/// Does something with the program's streams.
///
/// # Errors
/// Fails if the run is not in the place of a program.
pub fn program<R>(act: impl FnOnce(&mut dyn Program) -> R) -> mlua::Result<R> {
    with(|seat| seat.host.program().map(act))?
        .ok_or_else(|| mlua::Error::runtime("there is no program"))
}
