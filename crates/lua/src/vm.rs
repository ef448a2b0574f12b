//! One Lua state with everything that its scripts find in it, and the scripts that it has compiled.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mlua::{Function, LightUserData, Lua, Table, Thread, Value};

use crate::api;
use crate::engine::Shared;
use crate::raw::{self, Slot};
use crate::scripts::{ScriptEntry, ScriptId, Scripts, Text};

const SANDBOX: &str = include_str!("prelude/sandbox.lua");
const BOUNDED: &str = include_str!("prelude/bounded.lua");
const LIGHTY: &str = include_str!("prelude/lighty.lua");
const PROGRAM: &str = include_str!("prelude/program.lua");
const SHARED: &str = include_str!("prelude/shared.lua");
const TOKAMAK: &str = include_str!("prelude/tokamak.lua");
const LFS: &str = include_str!("prelude/lfs.lua");
const CACHE: &str = include_str!("prelude/cache.lua");
const CML: &str = include_str!("prelude/cml.lua");
const DRIVER: &str = include_str!("prelude/driver.lua");

/// The part of the memory limit above which a state is not worth keeping: runs would fail for want
/// of memory that nothing can free.
const FULL: f64 = 0.8;

/// How often the memory is looked at, in runs. Memory grows slowly, so a tenth would look for
/// nothing most of the time; ten times more would let a script that leaks go further beyond the
/// mark before the state is replaced.
const LOOK: u32 = 1024;

/// Most coroutines that are kept for the next runs. It should cover the runs that wait at once on
/// one event loop: with a tenth, busy sites would make new ones all the time. Each holds its stack,
/// so ten times more would hold memory after a peak.
const MOST_IDLE: usize = 64;

/// What a coroutine yields with the number that a script returned.
const DONE: LightUserData = LightUserData(std::ptr::without_provenance_mut(1));

/// What it yields when the script waits.
const WAIT: LightUserData = LightUserData(std::ptr::without_provenance_mut(2));

/// A Lua state.
pub struct Vm {
    /// Its watched side.
    pub slot: Slot,
    lua: Lua,
    compile: Function,
    body: Function,
    paused: Function,
    go_on: Function,
    memory: usize,
    books: Mutex<Books>,
}

/// What changes from run to run.
#[derive(Default)]
struct Books {
    /// By their numbers, as far as they have been run.
    scripts: Vec<Option<Compiled>>,
    /// Coroutines that run no script now.
    idle: Vec<Thread>,
    /// Runs that have ended well, to look at the memory now and then.
    runs: u32,
}

/// What a state has of one script file.
struct Compiled {
    /// The file.
    entry: Arc<ScriptEntry>,
    /// Which text it has looked at.
    version: u64,
    /// Why there is nothing to run: neither this text nor an earlier one could be compiled, or the
    /// file is not there.
    fault: Option<String>,
}

/// Whether a script can be run.
pub enum Ready<'a> {
    /// It can; and perhaps not as the file has it now, because this is wrong with that.
    Yes(VmGuard<'a>, Option<String>),
    /// It cannot, and this is why.
    No(String),
}

/// A script's turn to run in a state, in which no other begins until this one waits or has ended.
pub struct VmGuard<'a> {
    vm: &'a Vm,
    books: MutexGuard<'a, Books>,
    id: ScriptId,
}

/// Where a run has come to.
pub enum Step {
    /// The script returned this number.
    Finished {
        /// The number.
        number: i32,
        /// Whether it is time to look at the memory.
        is_due: bool,
    },
    /// It waits.
    Waiting(Pause),
    /// It raised an error.
    Failed(String),
}

/// A run that waits.
pub struct Pause {
    /// The run, in the words of the driver, which knows how it goes on; absent if it just does.
    run: Option<Table>,
    /// Its coroutine.
    thread: Thread,
}

impl Vm {
    /// A fresh state.
    ///
    /// # Errors
    /// Fails if the memory limit is too small for a state without scripts.
    pub fn new(shared: &Shared) -> mlua::Result<Vm> {
        let lua = raw::open();
        lua.set_memory_limit(shared.limits.memory)?;
        let host = api::functions(&lua, &shared.counters, &shared.dictionaries)?;
        let part =
            |name: &str, text: &str| lua.load(text).set_name(format!("={name}")).into_function();
        let bounded: Table = part("bounded", BOUNDED)?.call(&host)?;
        let reset: Function = bounded.get("reset")?;
        let (new_globals, pairs): (Function, Function) =
            part("sandbox", SANDBOX)?.call((&host, bounded))?;
        let dictionaries: Function = part("shared", SHARED)?.call(&host)?;
        host.set("shared", dictionaries)?;
        host.set("cache", part("cache", CACHE)?)?;
        host.set("tokamak", part("tokamak", TOKAMAK)?)?;
        let lighty: Table = part("lighty", LIGHTY)?.call((&host, pairs, &new_globals))?;
        let calls: Table = lighty.get("calls")?;
        let modules = lua.create_table()?;
        modules.set("lfs", part("lfs", LFS)?.call::<Function>(calls)?)?;
        modules.set(
            "cml",
            part("cml", CML)?.call::<Function>((&host, lighty.get::<Function>("new")?))?,
        )?;
        host.set("modules", modules)?;
        let dialect: Table = match shared.scripts.folder() {
            Some(folder) => {
                let folder = lua.create_string(folder.as_os_str().as_bytes())?;
                let globals: Table = new_globals.call(folder)?;
                part("program", PROGRAM)?.call((&host, lighty, globals))?
            }
            None => lighty,
        };
        let (compile, body, paused, go_on) =
            part("driver", DRIVER)?.call((&host, dialect, reset, [DONE, WAIT]))?;
        // What scripts must not have is not merely hidden from them.
        lua.globals().clear()?;
        Ok(Vm {
            slot: shared.watchdog.watch(&lua)?,
            lua,
            compile,
            body,
            paused,
            go_on,
            memory: shared.limits.memory,
            books: Mutex::default(),
        })
    }

    /// Whether what remains after a collection is close to the limit.
    pub fn is_full(&self) -> bool {
        let most = (self.memory as f64 * FULL) as usize;
        self.lua.used_memory() > most
            && (self.lua.gc_collect().is_err() || self.lua.used_memory() > most)
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.lua.used_memory()
    }

    /// Makes the newest text of a script that compiles the one that runs.
    pub fn ready(&self, id: ScriptId, all: &Scripts) -> Ready<'_> {
        let mut books = self.books();
        if books.scripts.len() <= id.0 {
            books.scripts.resize_with(id.0 + 1, || None);
        }
        let new = || Compiled { entry: all.entry(id), version: 0, fault: None };
        let compiled = books.scripts[id.0].get_or_insert_with(new);
        let mut notice = None;
        if compiled.version != compiled.entry.version() {
            match self.renew(id, compiled) {
                Ok(news) => notice = news,
                Err(error) => return Ready::No(error.to_string()),
            }
        }
        match &compiled.fault {
            Some(fault) => Ready::No(fault.clone()),
            None => Ready::Yes(VmGuard { vm: self, books, id }, notice),
        }
    }

    /// Looks at a text that this state has not seen yet; what is wrong with it, if that is news and
    /// an older one runs on.
    fn renew(&self, id: ScriptId, compiled: &mut Compiled) -> mlua::Result<Option<String>> {
        let entry = &compiled.entry;
        let text = entry.text();
        let had_one = compiled.version > 0 && compiled.fault.is_none();
        let fault = self.compile(id, entry, &text)?;
        let is_first =
            fault.is_some() && had_one && text.source.is_ok() && entry.reports(text.version);
        compiled.version = text.version;
        if had_one && text.source.is_ok() {
            return Ok(fault
                .filter(|_| is_first)
                .map(|fault| format!("{fault}; its last good version stays")));
        }
        compiled.fault = fault;
        Ok(None)
    }

    /// Compiles a text; what is wrong with it, if anything is.
    fn compile(
        &self,
        id: ScriptId,
        entry: &ScriptEntry,
        text: &Text,
    ) -> mlua::Result<Option<String>> {
        let path = entry.path.display();
        let source = match &text.source {
            Ok(source) => self.lua.create_string(without_interpreter(source))?,
            Err(error) => return Ok(Some(format!("loading script {path} failed: {error}"))),
        };
        let directory = entry.path.parent().unwrap_or(Path::new("."));
        let directory = self.lua.create_string(directory.as_os_str().as_bytes())?;
        let file = self.lua.create_string(entry.path.as_os_str().as_bytes())?;
        let problem: Option<mlua::String> =
            self.compile.call((id.0, source, file, directory, text.changed()))?;
        Ok(problem
            .map(|problem| format!("loading script {path} failed: {}", problem.to_string_lossy())))
    }

    /// Goes on with a run that waited: the result of that wait is in its context.
    pub fn go_on(&self, pause: Pause, number: u32) -> mlua::Result<Step> {
        let Pause { run, thread } = pause;
        if let Some(run) = run {
            let step = self.go_on.call((run, number))?;
            return self.step(thread, step);
        }
        let yielded = thread.resume(())?;
        self.after(thread, yielded)
    }

    /// What a run's coroutine has yielded.
    fn after(&self, thread: Thread, yielded: (Value, Value)) -> mlua::Result<Step> {
        match yielded {
            (Value::LightUserData(DONE), Value::Integer(number)) => {
                Ok(self.books().keep(thread, number))
            }
            (Value::LightUserData(WAIT), _) => Ok(Step::Waiting(Pause { run: None, thread })),
            (mark, value) => self.step(thread, self.paused.call::<Value>((mark, value))?),
        }
    }

    /// What the driver returned of a coroutine.
    fn step(&self, thread: Thread, value: Value) -> mlua::Result<Step> {
        match value {
            Value::Integer(number) => Ok(self.books().keep(thread, number)),
            Value::Table(run) => Ok(Step::Waiting(Pause { run: Some(run), thread })),
            Value::String(problem) => Ok(Step::Failed(problem.to_string_lossy())),
            value => Err(mlua::Error::runtime(format!("the driver returned {value:?}"))),
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        // One thread uses a state; the lock makes it shareable.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl VmGuard<'_> {
    /// Begins the run.
    pub fn start(mut self) -> mlua::Result<Step> {
        let VmGuard { vm, books, id } = &mut self;
        let idle = books.idle.pop();
        let thread = idle.map_or_else(|| vm.lua.create_thread(vm.body.clone()), Ok)?;
        let yielded = thread.resume(id.0)?;
        if let (Value::LightUserData(DONE), Value::Integer(number)) = yielded {
            return Ok(books.keep(thread, number));
        }
        let vm = *vm;
        drop(self);
        vm.after(thread, yielded)
    }
}

impl Books {
    /// Keeps a coroutine whose run has ended well, with that number.
    fn keep(&mut self, thread: Thread, number: i64) -> Step {
        self.runs = self.runs.wrapping_add(1);
        if self.idle.len() < MOST_IDLE {
            self.idle.push(thread);
        }
        Step::Finished { number: number as i32, is_due: self.runs.is_multiple_of(LOOK) }
    }
}

/// Without the line that says which program runs a file.
fn without_interpreter(source: &[u8]) -> &[u8] {
    match source {
        [b'#', ..] => {
            &source[source.iter().position(|&byte| byte == b'\n').unwrap_or(source.len())..]
        }
        _ => source,
    }
}
