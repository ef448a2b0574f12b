//! Scripts that take the place of programs: their streams, their variables, and the globals that
//! they share.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::ready;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokamak_lua::{
    Absent, Call, Engine, Host, Limits, LuaState, Outcome, Program, RedisServer, ScriptError,
    Stage, Value, Waiting,
};

use crate::harness::wait_for;

/// Bytes of a response that may wait here.
const ROOM: usize = 100_000;

/// A program's streams in memory.
#[derive(Default)]
struct Console {
    input: Vec<u8>,
    output: Vec<u8>,
    errors: Vec<u8>,
    variables: BTreeMap<&'static str, &'static str>,
    log: Vec<String>,
    /// Bytes of the output that wait, and how often the script waited for them.
    waiting: Arc<AtomicUsize>,
    waits: Arc<AtomicUsize>,
}

impl Host for Console {
    fn program(&mut self) -> Option<&mut dyn Program> {
        Some(self)
    }

    fn variable(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        self.variables.get(std::str::from_utf8(name).ok()?).map(|value| value.as_bytes().to_vec())
    }

    fn log(&mut self, text: &str) {
        self.log.push(text.to_owned());
    }

    fn sleep(&mut self, _: Duration) -> Waiting {
        Box::pin(std::future::pending())
    }

    fn call(&mut self, call: Call<'_>) -> Waiting {
        Box::pin(ready(Ok(Value::Bytes(format!("{call:?}").into_bytes()))))
    }

    fn redis(&mut self, _: RedisServer) -> Result<u32, String> {
        Err("there is no Redis".to_owned())
    }
}

impl Program for Console {
    fn read(&mut self, most: usize) -> io::Result<Vec<u8>> {
        // In pieces that end anywhere.
        let rest = self.input.split_off(self.input.len().min(most).min(7));
        Ok(std::mem::replace(&mut self.input, rest))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<bool, String> {
        self.output.extend_from_slice(bytes);
        let waiting = self.waiting.fetch_add(bytes.len(), Relaxed) + bytes.len();
        if waiting > ROOM { Err("too much".to_owned()) } else { Ok(waiting > ROOM / 2) }
    }

    fn write_stderr(&mut self, bytes: &[u8]) {
        self.errors.extend_from_slice(bytes);
    }

    fn sent(&mut self) -> Waiting {
        let (waiting, waits) = (self.waiting.clone(), self.waits.clone());
        Box::pin(async move {
            waiting.store(0, Relaxed);
            waits.fetch_add(1, Relaxed);
            Ok(Value::Nil)
        })
    }
}

/// A folder with scripts, and what runs them.
struct Programs {
    folder: TempDir,
    _engine: Engine,
    state: Arc<LuaState>,
}

impl Programs {
    fn new(scripts: &[(&str, &str)]) -> Programs {
        Programs::limited(Limits::default(), scripts)
    }

    fn limited(limits: Limits, scripts: &[(&str, &str)]) -> Programs {
        let folder = tempfile::tempdir().expect("a folder");
        let engine = Engine::below(limits, &BTreeMap::new(), folder.path());
        let state = Arc::new(LuaState::new(&engine).expect("memory for Lua"));
        let programs = Programs { folder, _engine: engine, state };
        scripts.iter().for_each(|(name, text)| programs.write(name, text));
        programs
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).expect("a writable folder");
    }

    fn find(&self, name: &str) -> Result<(), Absent> {
        self.state.find(self.folder.path().join(name).as_os_str().as_encoded_bytes()).map(|_| ())
    }

    fn run(&self, name: &str, console: Console) -> (Outcome, Console) {
        let path = self.folder.path().join(name);
        let script = self.state.find(path.as_os_str().as_encoded_bytes()).expect("a script");
        let (host, outcome) = wait_for(self.state.run(script, Stage::Content, Box::new(console)));
        let host: Box<dyn Any> = host;
        (outcome, *host.downcast::<Console>().expect("our own host"))
    }

    /// What a script prints.
    fn prints(&self, name: &str) -> String {
        let (outcome, console) = self.run(name, Console::default());
        assert_eq!(outcome, Outcome::GoOn, "{:?}", console.log);
        String::from_utf8(console.output).expect("text")
    }
}

/// What a script prints that reads this.
fn reads(script: &str, input: &str) -> String {
    let console = Console { input: input.into(), ..Console::default() };
    let (outcome, console) = Programs::new(&[("test.lua", script)]).run("test.lua", console);
    assert_eq!(outcome, Outcome::GoOn, "{script}: {:?}", console.log);
    String::from_utf8(console.output).expect("text")
}

fn prints(script: &str) -> String {
    reads(script, "")
}

fn until<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(Instant::now() < end, "nothing came of it");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn print_adds_nothing_between_or_behind() {
    for (script, printed) in [
        ("print('a', 'b') print('c')", "abc"),
        ("print()", ""),
        ("print(1, 1.5, true, nil, false)", "11.5truenilfalse"),
        ("print(setmetatable({}, { __tostring = function() return 'own' end }))", "own"),
        ("io.write('a', 1, 2.5) io.stdout:write('b'):write('c') io.flush()", "a12.5bc"),
        ("io.output():write('x') print(io.type(io.stdout), io.type(1) or 'none')", "xfilenone"),
        ("print('a\\0b\\r\\n')", "a\0b\r\n"),
    ] {
        assert_eq!(prints(script), printed, "{script}");
    }
}

#[test]
fn the_body_is_read_as_a_file_is() {
    for (script, input, printed) in [
        ("print(io.read('*a'))", "all of it,\nevery line", "all of it,\nevery line"),
        ("print(io.read('*a'), '|', io.read('*a'), '|', tostring(io.read()))", "abc", "abc||nil"),
        (
            "print(io.read(), '|', io.read(), '|', tostring(io.read()))",
            "the first line\nand another",
            "the first line|and another|nil",
        ),
        ("print(io.read('L'), io.stdin:read('*l'))", "one\ntwo\n", "one\ntwo"),
        (
            "print(io.read(3), '|', io.read(0), '|', io.read(100), '|', tostring(io.read(1)))",
            "abcdefghij",
            "abc||defghij|nil",
        ),
        ("print(io.read(0) or 'end')", "", "end"),
        (
            "for line in io.lines() do print('[', line, ']') end",
            "a\n\nlong line\n",
            "[a][][long line]",
        ),
        (
            "local a, b = io.read('*n', '*n') print(a, ' ', b, '|', io.read('*a'))",
            "  12 -3.5e1 rest",
            "12 -35| rest",
        ),
        ("print(io.read('*n'), '|', io.read('*a'))", "0x1f.", "31|."),
        ("print(tostring(io.read('*n')), io.read('*a'))", "word", "nilword"),
        ("print(io.read(1, 1, 1))", "ab", "abnil"),
        ("print(pcall(io.read, '*x'))", "", "falsebad argument to 'read' (invalid format)"),
        ("print(io.stdin:read('*a'):len())", &"x".repeat(100_000), "100000"),
    ] {
        assert_eq!(reads(script, input), printed, "{script}");
    }
}

#[test]
fn variables_are_the_requests_alone() {
    let programs = Programs::new(&[(
        "test.lua",
        "print(os.getenv('QUERY_STRING'), os.getenv('PATH') or 'no path') print(pcall(os.getenv))",
    )]);
    let variables = BTreeMap::from([("QUERY_STRING", "a=b")]);
    let (_, console) = programs.run("test.lua", Console { variables, ..Console::default() });
    let text = String::from_utf8(console.output).expect("text");
    assert!(text.starts_with("a=bno pathfalsebad argument #1 to 'getenv'"), "{text}");
}

#[test]
fn errors_go_to_the_error_stream_and_to_the_log() {
    let programs = Programs::new(&[(
        "test.lua",
        "io.stderr:write('oh', 1) print('x')\nlocal t = nil\nt.x = 1",
    )]);
    let (outcome, console) = programs.run("test.lua", Console::default());
    assert_eq!(outcome, Outcome::Failed(ScriptError::Error));
    assert_eq!(console.errors, b"oh1");
    let said = &console.log[0];
    assert!(
        said.contains("test.lua:3: attempt to index local 't'") && said.contains("traceback"),
        "{said}"
    );
}

#[test]
fn scripts_share_one_global_environment_and_keep_their_own_apart() {
    let programs = Programs::new(&[
        ("one.lua", "mine = 1 _G.ours = (_G.ours or 0) + 1 print(ours)"),
        ("two.lua", "print(tostring(mine), ours)"),
    ]);
    assert_eq!(programs.prints("one.lua"), "1");
    assert_eq!(programs.prints("one.lua"), "2");
    assert_eq!(programs.prints("two.lua"), "nil2");
}

#[test]
fn the_cache_and_the_number_of_requests_can_be_looked_at() {
    let programs = Programs::new(&[(
        "test.lua",
        "local e for path, entry in pairs(magnet.cache) do e = entry \
            assert(path:find('test.lua')) end
         print(e.hits, type(e.script), e.mtime > 1e9, magnet.conns_served)",
    )]);
    assert_eq!(programs.prints("test.lua"), "1functiontrue1");
    assert_eq!(programs.prints("test.lua"), "2functiontrue2");
}

#[test]
fn scripts_cannot_damage_the_cache() {
    let programs = Programs::new(&[(
        "test.lua",
        "if not magnet then return print('fine') end
         for path in pairs(magnet.cache) do magnet.cache[path].hits = 'x' magnet.cache[path] = \
         nil end
         magnet.conns_served = nil setmetatable(magnet, { __newindex = error }) _G.magnet = nil \
         print('fine')",
    )]);
    for _ in 0..3 {
        assert_eq!(programs.prints("test.lua"), "fine");
    }
}

#[test]
fn modules_are_found_in_the_folder() {
    let programs = Programs::new(&[
        (
            "test.lua",
            "local greeting = require 'greeting' print(greeting.text, lighty.c.md('md5', ''))",
        ),
        ("greeting.lua", "return { text = 'hello' }"),
    ]);
    assert_eq!(programs.prints("test.lua"), "helloD41D8CD98F00B204E9800998ECF8427E");
}

#[test]
fn only_files_below_the_folder_are_scripts() {
    let programs = Programs::new(&[("test.lua", "print(1)")]);
    let folder = programs.folder.path();
    std::fs::create_dir(folder.join("sub")).expect("a writable folder");
    std::os::unix::fs::symlink("/etc/hostname", folder.join("link.lua")).expect("a link");
    std::os::unix::fs::symlink("test.lua", folder.join("inner.lua")).expect("a link");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(folder.join("pipe"))
            .status()
            .is_ok_and(|s| s.success())
    );
    for (name, found) in [
        ("test.lua", Ok(())),
        ("sub/../test.lua", Ok(())),
        ("inner.lua", Ok(())),
        ("no.lua", Err(Absent::Missing)),
        ("test.lua/x", Err(Absent::Missing)),
        ("no\0.lua", Err(Absent::Missing)),
        ("sub", Err(Absent::Unnamed)),
        ("", Err(Absent::Unnamed)),
        ("link.lua", Err(Absent::Forbidden)),
        ("../../etc/hostname", Err(Absent::Forbidden)),
        ("../no/such/file", Err(Absent::Missing)),
        ("/etc/hostname", Err(Absent::Forbidden)),
        ("pipe", Err(Absent::Forbidden)),
    ] {
        assert_eq!(programs.find(name), found, "{name}");
    }
    assert_eq!(programs.state.find(b"test.lua"), Err(Absent::Unnamed));
    assert_eq!(programs.state.find(b""), Err(Absent::Unnamed));
}

#[test]
fn files_are_changed_broken_deleted_and_come_back() {
    let programs = Programs::new(&[("test.lua", "print('one')")]);
    assert_eq!(programs.prints("test.lua"), "one");
    programs.write("test.lua", "print('two' .. '')");
    until(|| (programs.prints("test.lua") == "two").then_some(()));
    programs.write("test.lua", "print('three'");
    let said = until(|| programs.run("test.lua", Console::default()).1.log.pop());
    assert!(said.contains("test.lua:1:") && said.contains("its last good version stays"), "{said}");
    assert_eq!(programs.prints("test.lua"), "two");
    std::fs::remove_file(programs.folder.path().join("test.lua")).expect("a file");
    until(|| (programs.find("test.lua") == Err(Absent::Missing)).then_some(()));
    programs.write("test.lua", "print('four')");
    assert_eq!(programs.find("test.lua"), Ok(()));
    assert_eq!(programs.prints("test.lua"), "four");
}

/// A deployment puts another release in the place of a folder.
#[test]
fn a_folder_may_be_a_link_that_moves() {
    let top = tempfile::tempdir().expect("a folder");
    let at = |name: &str| top.path().join(name);
    for release in ["one", "two"] {
        std::fs::create_dir(at(release)).expect("a writable folder");
        std::fs::write(at(release).join("test.lua"), format!("print('{release}')"))
            .expect("a file");
    }
    std::os::unix::fs::symlink("one", at("current")).expect("a link");
    let engine = Engine::below(Limits::default(), &BTreeMap::new(), &at("current"));
    let state = Arc::new(LuaState::new(&engine).expect("memory for Lua"));
    let name = at("current/test.lua");
    let prints = || {
        let script = state.find(name.as_os_str().as_encoded_bytes()).expect("a script");
        let (host, _) = wait_for(state.run(script, Stage::Content, Box::new(Console::default())));
        let host: Box<dyn Any> = host;
        host.downcast::<Console>().expect("our own host").output
    };
    assert_eq!(prints(), b"one");
    std::os::unix::fs::symlink("two", at("next")).expect("a link");
    std::fs::rename(at("next"), at("current")).expect("a link");
    until(|| (prints() == b"two").then_some(()));
}

#[test]
fn a_long_response_waits_for_its_reader() {
    let programs = Programs::new(&[
        ("long.lua", "for n = 1, 1000 do print(('x'):rep(999), '\\n') end"),
        (
            "inside.lua",
            "coroutine.wrap(function() for n = 1, 1000 do print(('x'):rep(999), '\\n') end end)()",
        ),
        ("callback.lua", "(('x'):rep(100000)):gsub('x', function(x) print(x) end)"),
    ]);
    let (outcome, console) = programs.run("long.lua", Console::default());
    assert_eq!((outcome, console.output.len()), (Outcome::GoOn, 1_000_000));
    assert!(console.waits.load(Relaxed) > 10);
    // Where a script cannot wait, there is an end.
    let (outcome, console) = programs.run("inside.lua", Console::default());
    assert_eq!(outcome, Outcome::Failed(ScriptError::Error));
    assert!(console.log[0].contains("too much"), "{:?}", console.log);
    assert_eq!(programs.prints("callback.lua").len(), 100_000);
}

#[test]
fn what_has_been_printed_is_on_its_way_while_a_script_waits() {
    let limits = Limits { total: Duration::from_millis(100), ..Limits::default() };
    let programs = Programs::limited(limits, &[("test.lua", "print('before') tokamak.sleep(100)")]);
    let script = programs.folder.path().join("test.lua");
    let script = programs.state.find(script.as_os_str().as_encoded_bytes()).expect("a script");
    let mut run =
        Box::pin(programs.state.run(script, Stage::Content, Box::new(Console::default())));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(run.as_mut().poll(&mut context).is_pending());
    drop(run);
    // The next one finds nothing of it.
    programs.write("next.lua", "print('next')");
    assert_eq!(programs.prints("next.lua"), "next");
}

#[test]
fn endless_scripts_end() {
    let limits =
        Limits { stretch: Duration::from_millis(200), memory: 16 << 20, ..Limits::default() };
    for (script, error) in [
        ("while true do end", ScriptError::TooLong),
        ("local function f() return f() + 1 end f()", ScriptError::Error),
        ("local t = {} while true do t[#t + 1] = ('x'):rep(#t) end", ScriptError::NoMemory),
        ("print(io.read('*a'):rep(1e9))", ScriptError::NoMemory),
        ("os.exit()", ScriptError::Error),
    ] {
        let programs =
            Programs::limited(limits, &[("test.lua", script), ("fine.lua", "print('fine')")]);
        let console = Console { input: b"x".to_vec(), ..Console::default() };
        let (outcome, console) = programs.run("test.lua", console);
        assert_eq!(outcome, Outcome::Failed(error), "{script}: {:?}", console.log);
        assert!(
            console.log[0].contains("test.lua") || error == ScriptError::NoMemory,
            "{:?}",
            console.log
        );
        assert_eq!(programs.prints("fine.lua"), "fine", "after {script}");
    }
}
