//! The Lua state of one event loop.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::{Engine, Shared};
use crate::scripts::{Absent, ScriptId};
use crate::vm::Vm;

/// The Lua state of one event loop. Only one thread uses it; the lock is there because the type
/// must be `Sync`.
pub struct LuaState {
    shared: Arc<Shared>,
    /// It is replaced when its memory is full; suspended runs keep the one in which they began.
    vm: Mutex<Arc<Vm>>,
}

impl LuaState {
    /// A state for the scripts of an engine.
    ///
    /// # Errors
    /// Fails if the memory limit is too small for a state without scripts.
    pub fn new(engine: &Engine) -> Result<LuaState, String> {
        let shared = engine.shared().clone();
        let vm = Vm::new(&shared).map_err(|error| error.to_string())?;
        Ok(LuaState { shared, vm: Mutex::new(Arc::new(vm)) })
    }

    /// The script of the engine's folder that a request names by its path.
    ///
    /// # Errors
    /// Fails if the script does not exist or may not be run.
    pub fn find(&self, name: &[u8]) -> Result<ScriptId, Absent> {
        self.shared.scripts.find(name)
    }

    /// Bytes that Lua uses.
    pub fn memory(&self) -> usize {
        self.vm().used()
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn vm(&self) -> MutexGuard<'_, Arc<Vm>> {
        self.vm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces `worn`, whose memory is full and cannot be freed, by a fresh state. Returns the
    /// line for the log.
    pub(crate) fn replace(&self, worn: &Arc<Vm>) -> Option<String> {
        let mut vm = self.vm();
        if !Arc::ptr_eq(&vm, worn) {
            return None;
        }
        match Vm::new(&self.shared) {
            Ok(fresh) => *vm = Arc::new(fresh),
            Err(error) => return Some(format!("no fresh Lua state: {error}")),
        }
        Some(format!(
            "scripts keep {} of {} MiB in use: the event loop's Lua state, and all that _G had in \
                it, was replaced",
            worn.used() >> 20,
            self.shared.limits.memory >> 20
        ))
    }
}
