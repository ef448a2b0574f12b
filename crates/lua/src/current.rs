//! The request that the script belongs to which this thread is executing.
//!
//! Functions that scripts call are made once and know no request. A run sets its context here
//! before it enters Lua and leaves it afterwards; between the two nothing else of this thread runs.

use std::cell::RefCell;
use std::task::{Context, Poll};

use crate::call::{Value, Waiting};
use crate::host::{Host, HttpContext, Program};

/// What the functions of a script work on.
pub struct ScriptContext {
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

impl ScriptContext {
    /// Adds something that the script will wait for; its number.
    pub fn wait_for(&mut self, waiting: Waiting) -> u32 {
        self.waits.add(waiting)
    }

    /// Ends what was begun under that number.
    pub fn forget(&mut self, number: u32) {
        self.waits.all.retain(|(other, _)| *other != number);
    }
}

/// Logs a message about the script, with its line if there is one, else with its name.
///
/// # Errors
/// As [`with`].
pub fn remark(location: Option<String>, text: &str) -> mlua::Result<()> {
    with(|context| match location {
        Some(location) => context.host.log(&format!("lua: {location}: {text}")),
        None => context.remarks.push(text.to_owned()),
    })
}

thread_local! {
    static CURRENT: RefCell<Option<ScriptContext>> = const { RefCell::new(None) };
}

/// Sets the context for the duration of `enter`.
pub fn run_in<R>(context: ScriptContext, enter: impl FnOnce() -> R) -> (ScriptContext, R) {
    let before = CURRENT.replace(Some(context));
    debug_assert!(before.is_none(), "a script runs inside a script");
    let result = enter();
    let context = CURRENT.take();
    (context.unwrap_or_else(|| unreachable!("nothing else takes the context")), result)
}

/// Does something with the current request.
///
/// # Errors
/// Fails if no script runs on this thread.
pub fn with<R>(act: impl FnOnce(&mut ScriptContext) -> R) -> mlua::Result<R> {
    CURRENT.with_borrow_mut(|context| match context {
        Some(context) => Ok(act(context)),
        None => Err(mlua::Error::runtime("there is no request")),
    })
}

/// Where what the script has waited for last stays until the run leaves the context; nothing if no
/// script runs.
pub fn brought() -> *const Value {
    CURRENT.with_borrow(|context| {
        context.as_ref().map_or(std::ptr::null(), |context| &raw const context.brought)
    })
}

/// Does something with the HTTP request.
///
/// # Errors
/// Fails if the run is not for an HTTP request.
pub fn http<R>(act: impl FnOnce(&mut dyn HttpContext) -> R) -> mlua::Result<R> {
    with(|context| context.host.http().map(act))?
        .ok_or_else(|| mlua::Error::runtime("there is no HTTP request"))
}

/// Does something with the program's streams.
///
/// # Errors
/// Fails if the run is not in the place of a program.
pub fn program<R>(act: impl FnOnce(&mut dyn Program) -> R) -> mlua::Result<R> {
    with(|context| context.host.program().map(act))?
        .ok_or_else(|| mlua::Error::runtime("there is no program"))
}
