//! The request that the script belongs to which this thread is executing.
//!
//! Functions that scripts call are made once and know no request. A run takes its seat here before it enters Lua and
//! leaves it afterwards; between the two nothing else of this thread runs.

use std::cell::RefCell;

use crate::host::{Exchange, Host, Program, Waiting};

/// What the functions of a script work on.
pub struct Seat {
    /// The request.
    pub host: Box<dyn Host>,
    /// What the script is about to wait for.
    pub waiting: Option<Waiting>,
}

thread_local! {
    static CURRENT: RefCell<Option<Seat>> = const { RefCell::new(None) };
}

/// Takes the seat for the time of `enter`.
pub fn seated<R>(host: Box<dyn Host>, enter: impl FnOnce() -> R) -> (Seat, R) {
    let before = CURRENT.replace(Some(Seat { host, waiting: None }));
    debug_assert!(before.is_none(), "a script runs inside a script");
    let result = enter();
    let seat = CURRENT.take();
    (seat.unwrap_or_else(|| unreachable!("nobody else takes the seat")), result)
}

/// Does something with the current request.
///
/// # Errors
/// There is none: a function was called while no script runs.
pub fn with<R>(act: impl FnOnce(&mut Seat) -> R) -> mlua::Result<R> {
    CURRENT.with_borrow_mut(|seat| match seat {
        Some(seat) => Ok(act(seat)),
        None => Err(mlua::Error::runtime("there is no request")),
    })
}

/// Does something with the HTTP request.
///
/// # Errors
/// There is none.
pub fn exchange<R>(act: impl FnOnce(&mut dyn Exchange) -> R) -> mlua::Result<R> {
    with(|seat| seat.host.exchange().map(act))?
        .ok_or_else(|| mlua::Error::runtime("there is no HTTP request"))
}

/// Does something with the program's streams.
///
/// # Errors
/// There are none.
pub fn program<R>(act: impl FnOnce(&mut dyn Program) -> R) -> mlua::Result<R> {
    with(|seat| seat.host.program().map(act))?.ok_or_else(|| mlua::Error::runtime("there is no program"))
}
