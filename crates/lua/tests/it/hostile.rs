//! Scripts that mean harm, or have lost their way: each costs its own request, and nothing else.

use std::time::{Duration, Instant};

use tokamak_lua::{Limits, Outcome, ScriptError};

use crate::harness::{Site, run, show};

fn strict() -> Limits {
    Limits { stretch: Duration::from_millis(200), memory: 16 << 20, ..Limits::default() }
}

/// Enough time for a busy machine to fill the memory.
fn patient() -> Limits {
    Limits { stretch: Duration::from_secs(20), ..strict() }
}

/// Runs a script that must be ended, and a good one after it in the same state.
fn ended(script: &str, error: ScriptError) -> String {
    let limits = if error == ScriptError::TooLong { strict() } else { patient() };
    let site = Site::new(
        limits,
        &[("bad.lua", script), ("good.lua", "lighty.content = {'fine'} return 200")],
    );
    let mut log = String::new();
    for _ in 0..2 {
        let began = Instant::now();
        let (outcome, memory) = site.ask("bad.lua");
        assert_eq!(outcome, Outcome::Failed(error), "{script}\n{:?}", memory.log);
        assert!(began.elapsed() < Duration::from_secs(25), "{script}: {:?}", began.elapsed());
        log = memory.log.join("\n");
        let (outcome, memory) = site.ask("good.lua");
        assert_eq!(
            (outcome, memory.text().as_str()),
            (Outcome::Answer(200), "fine"),
            "{script}\n{:?}",
            memory.log
        );
    }
    log
}

/// Fails if LuaJIT was built without `LUAJIT_ENABLE_CHECKHOOK`: then a compiled loop looks at
/// nothing, and never ends.
#[test]
fn a_compiled_loop_ends() {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        sender.send(ended("local i = 0\nwhile true do i = i + 1 end", ScriptError::TooLong))
    });
    let log = receiver.recv_timeout(Duration::from_secs(60)).expect("it ends");
    assert!(log.contains("bad.lua:2:") || log.contains("bad.lua:1:"), "{log}");
}

#[test]
fn endless_loops_end() {
    ended("while true do end", ScriptError::TooLong);
    ended("for i = 1, 1e308 do local x = i * 2 end", ScriptError::TooLong);
    // Never compiled: the compiler does not know this function.
    ended("while true do setfenv(function() end, {}) end", ScriptError::TooLong);
    ended(
        "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end}) return t[1]",
        ScriptError::Error,
    );
    ended("goto again ::again:: goto again", ScriptError::TooLong);
}

#[test]
fn the_end_cannot_be_caught() {
    ended("while true do pcall(function() while true do end end) end", ScriptError::TooLong);
    ended(
        "local function f() return pcall(f) end while true do xpcall(f, f) end",
        ScriptError::TooLong,
    );
    ended(
        "while true do coroutine.wrap(function() pcall(function() while true do end end) end)() end",
        ScriptError::TooLong,
    );
    ended(
        "local function forever() while true do end end \
         xpcall(forever, forever) setmetatable({}, {__gc = forever}) forever()",
        ScriptError::TooLong,
    );
    ended(
        "local co co = coroutine.create(function() while true do coroutine.yield() end end) \
           while true do coroutine.resume(co) end",
        ScriptError::TooLong,
    );
    ended(
        "table.sort({3, 1, 2, 5, 4, 9, 7}, function() while true do end end)",
        ScriptError::TooLong,
    );
    ended("string.gsub(('x'):rep(9), '.', function() while true do end end)", ScriptError::TooLong);
}

#[test]
fn endless_recursion_is_an_error() {
    let log = ended("local function f() return 1 + f() end f()", ScriptError::Error);
    assert!(log.contains("stack overflow"), "{log}");
    ended("local function f() return f() end f()", ScriptError::TooLong);
    ended(
        "local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x",
        ScriptError::Error,
    );
    ended("local function f(...) return f(1, ...) end f()", ScriptError::TooLong);
}

/// Which limit is reached first depends on the machine.
#[test]
fn what_grows_slowly_ends_in_one_way_or_another() {
    for script in [
        "return load(function() return 'local x = 1 ' end)",
        "local co = function(f) return coroutine.wrap(function() f(f) end)() end co(co)",
        "local function f() return pcall(f) end f()",
        "local function f() pcall(f) end f()",
        "local function f() return (('x'):gsub('.', f)) end f()",
        "local t = setmetatable({}, {}) getmetatable(t).__index = function() return \
            (('x'):gsub('.', t)) end return t.x",
        "local function f() table.sort({1, 2}, f) end f()",
        "local t = setmetatable({}, {}) getmetatable(t).__lt = function(a, b) table.sort({a, b}) \
            end table.sort({t, t})",
        "local t = setmetatable({}, {}) getmetatable(t).__tostring = function(t) return \
            ('%s'):format(t) end tostring(t)",
        "local t = setmetatable({}, {}) getmetatable(t).__tostring = function(t) print(t) end \
            print(t)",
        "local t = setmetatable({}, {}) getmetatable(t).__tostring = function(t) return \
            tostring(t) end tostring(t)",
        "local function h() xpcall(error, h) end xpcall(error, h)",
        "local function h() local a = nil + 1 end xpcall(h, function() xpcall(h, h) end)",
        "local t = setmetatable({}, {}) getmetatable(t).__concat = function(a, b) return a .. b \
            end return t .. t",
        "local t = setmetatable({}, {}) getmetatable(t).__pairs = function(t) return pairs(t) end \
            pairs(t)",
        "local t = setmetatable({}, {}) getmetatable(t).__newindex = t t.x = 1",
        "local function f() return load(function() f() return nil end) end f()",
        "local function f() return require('x' .. tostring(f)) end package.preload = \
            setmetatable({}, {__index = f}) f()",
        "local s = ('('):rep(1e5) .. (')'):rep(1e5) return load('return ' .. s)",
        "return (('('):rep(1e5)):find(('('):rep(1e5))",
        "return (('x'):rep(1e5)):find(('x?'):rep(1e5))",
        "return (('x'):rep(1e6)):match(('%f[x]'):rep(1e5))",
    ] {
        let site = Site::new(strict(), &[("bad.lua", script), ("good.lua", "return 200")]);
        for _ in 0..2 {
            assert!(
                matches!(site.ask("bad.lua").0, Outcome::Failed(_) | Outcome::GoOn),
                "{script}"
            );
            assert_eq!(site.ask("good.lua").0, Outcome::Answer(200), "{script}");
        }
    }
}

#[test]
fn endless_memory_is_no_memory() {
    for script in [
        "local t = {} while true do t[#t + 1] = ('x'):rep(100000) .. #t end",
        "local t = {} while true do t[#t + 1] = tokamak.http.post('http://a', ('x'):rep(20000) .. \
            #t).body end",
        "return ('x'):rep(1e9)",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} for i = 1, 1e9 do t[i] = i end",
        "return string.format('%' .. 99 .. 'd', 1):rep(1e8)",
        "local t = {} for i = 1, 1e6 do t[i] = ('x'):rep(1000) end return table.concat(t)",
        "local s = ('x'):rep(1e6) return (s:gsub('x', ('y'):rep(1000)))",
    ] {
        ended(script, ScriptError::NoMemory);
    }
}

/// LuaJIT would match these for hours, in C, where no limit reaches.
#[test]
fn patterns_that_take_for_ever_end() {
    let text = "local s = ('a'):rep(30000) ";
    for search in [
        "local r = s:find('.-.-.-.-b')",
        "local r = s:match('a*a*a*a*b')",
        "local r = s:match('^(.*)(.*)(.*)(.*)b$')",
        "local r = (s:gsub('.-.-.-b', 'x'))",
        "for m in s:gmatch('.-.-.-.-b') do end",
        "local r = s:find(('a?'):rep(60) .. ('a'):rep(60) .. 'b')",
    ] {
        let log = ended(&format!("{text}\n{search} return 0"), ScriptError::TooLong);
        assert!(log.contains("bad.lua:2:"), "{log}");
    }
}

/// Memory that a script keeps in `_G` is not lost to all others for ever.
#[test]
fn a_state_that_is_full_is_replaced() {
    let site = Site::new(
        patient(),
        &[
            (
                "hoard.lua",
                "_G.t = _G.t or {} while true do _G.t[#_G.t + 1] = ('x'):rep(10000) .. #_G.t end",
            ),
            ("good.lua", "lighty.content = { ('y'):rep(5e6) } return 200"),
        ],
    );
    let (outcome, memory) = site.ask("hoard.lua");
    assert_eq!(outcome, Outcome::Failed(ScriptError::NoMemory));
    let log = memory.log.join("\n");
    assert!(log.contains("Lua state, and all that _G had in it, was replaced"), "{log}");
    let (outcome, memory) = site.ask("good.lua");
    assert_eq!(outcome, Outcome::Answer(200), "{:?}", memory.log);
    assert!(site.state.memory() < 14 << 20);
}

#[test]
fn what_could_end_or_open_the_process_is_not_there() {
    for gone in [
        "ffi",
        "newproxy",
        "gcinfo",
        "module",
        "debug.sethook",
        "debug.getregistry",
        "debug.setmetatable",
        "debug.getupvalue",
        "debug.setupvalue",
        "debug.getlocal",
        "debug.setfenv",
        "debug.getmetatable",
        "io.stdout",
        "io.stdin",
        "io.output",
        "io.read",
        "io.write",
        "os.setlocale",
        "string.dump",
        "package.loadlib",
        "package.cpath",
        "package.loaders",
        "jit.off",
        "jit.opt",
        "jit.util",
    ] {
        assert_eq!(show(&format!("return show({gone})")), "nil", "{gone}");
    }
    for refused in [
        "os.exit()",
        "os.execute('true')",
        "io.popen('true')",
        "require 'ffi'",
        "require 'jit.opt'",
    ] {
        assert!(
            show(&format!("return show(pcall(function() {refused} end))")).starts_with("false"),
            "{refused}"
        );
    }
}

#[test]
fn byte_code_is_refused() {
    let byte_code = "'\\27LJ\\2\\0\\0'";
    for load in ["loadstring", "load"] {
        let said = show(&format!("return show({load}({byte_code}))"));
        assert!(said.contains("attempt to load chunk with wrong mode"), "{said}");
    }
    let said = show(&format!("return show(load({byte_code}, 'x', 'b'))"));
    assert!(said.contains("wrong mode"), "{said}");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("code.lua");
    std::fs::write(&path, b"\x1bLJ\x02\0\0").expect("a writable folder");
    let said = show(&format!("return show(loadfile('{}'))", path.display()));
    assert!(said.contains("wrong mode"), "{said}");
}

/// Nothing that one run does to its environment, or to what it can reach, is there for another.
#[test]
fn globals_of_one_run_never_reach_another() {
    let leaks = [
        "x = 'leak'",
        "setfenv(1, {lighty = lighty, setfenv = setfenv}) x = 'leak'",
        "getfenv(1).x = 'leak'",
        "getfenv(0).x = 'leak'",
        "getfenv(2).x = 'leak'",
        "getfenv(3).x = 'leak'",
        "getfenv(print).x = 'leak'",
        "getfenv(string.upper).x = 'leak'",
        "pcall(setfenv, 0, {x = 'leak'})",
        "pcall(setfenv, 2, {x = 'leak'})",
        "pcall(setfenv, print, {x = 'leak'})",
        "pcall(function() getmetatable(getfenv(1)).__index.x = 'leak' end)",
        "pcall(function() getmetatable('').__index.x = 'leak' end)",
        "pcall(function() getmetatable('').__index = function() return 'leak' end end)",
        "pcall(setmetatable, _G, {__index = function() return 'leak' end})",
        "rawset(_G, 'x', 'leak')",
        "_G.x = 'leak'",
        "loadstring(\"x = 'leak'\")()",
        "string.x = 'leak'",
        "string.upper = function() return 'leak' end",
        "table.concat = function() return 'leak' end",
        "package.loaded.x = 'leak' package.loaded.string.x = 'leak'",
        "rawset(lighty, 'x', 'leak') rawset(lighty.c, 'urlenc', function() return 'leak' end)",
        "lighty.x = 'leak'",
        "lighty.header.x = 'leak' lighty.content = {'leak'}",
        "coroutine.wrap(function() x = 'leak' getfenv(0).x = 'leak' end)()",
        "debug.getinfo(1, 'f') local i = debug.getinfo(2, 'f') if i and i.func then \
            setfenv(i.func, {x = 'leak'}) end",
        "local env = _ENV _ENV = {x = 'leak'}",
        "function string.find() return 'leak' end",
        "math.random = function() return 'leak' end",
        "pairs = function() return 'leak' end error = 'leak'",
    ];
    let look = "local t = {} for _, v in ipairs { tostring(x), tostring(string.x), \
        tostring(lighty.x), ('a'):upper(), \
                string.upper('a'), table.concat({'b'}), lighty.c.urlenc('c'), \
                tostring(lighty.header.x), tostring(('a').x), \
                tostring(package.loaded.x), type(math.random()), type(pairs), type(error), \
                type(getfenv), \
                tostring(('x'):find('x')) } do t[#t + 1] = v end \
                lighty.r.resp_body.set(table.concat(t, ' ')) return 200";
    let clean = "nil nil nil A A b c nil nil nil number function function function 1";
    for leak in leaks {
        let site = Site::new(Limits::default(), &[("leak.lua", leak), ("look.lua", look)]);
        for _ in 0..2 {
            site.ask("leak.lua");
            let (outcome, memory) = site.ask("look.lua");
            assert_eq!(
                (outcome, memory.text().as_str()),
                (Outcome::Answer(200), clean),
                "{leak}\n{:?}",
                memory.log
            );
        }
    }
    // Globals proper do not even reach the next run of the same script.
    let site = Site::new(
        Limits::default(),
        &[("test.lua", "local was = x x = 'leak' lighty.content = { tostring(was) } return 200")],
    );
    for _ in 0..3 {
        assert_eq!(site.ask("test.lua").1.text(), "nil");
    }
}

/// What a run leaves behind still belongs to it: a function that is kept sees the environment of
/// its own run.
#[test]
fn a_kept_function_keeps_its_environment() {
    let site = Site::new(
        Limits::default(),
        &[(
            "test.lua",
            "n = (n or 0) + 1 _G.keep = _G.keep or function() n = n + 1 return n end \
                        lighty.content = { _G.keep(), ' ', n } return 200",
        )],
    );
    let texts: Vec<String> = (0..3).map(|_| site.ask("test.lua").1.text()).collect();
    assert_eq!(texts, ["2 2", "3 1", "4 1"]);
}

#[test]
fn coroutines_of_scripts_work_and_stay_theirs() {
    assert_eq!(
        show(
            "local f = coroutine.wrap(function(a) local b = coroutine.yield(a + 1) return b * 2 \
                end) return show(f(1), f(5))"
        ),
        "2 10"
    );
    assert_eq!(show("return show(coroutine.running())"), "nil");
    let site = Site::new(
        Limits::default(),
        &[(
            "test.lua",
            "if _G.co then coroutine.resume(_G.co) end \
             _G.co = coroutine.create(function() coroutine.yield() error('x') end) \
             coroutine.resume(_G.co) return 200",
        )],
    );
    for _ in 0..3 {
        assert_eq!(site.ask("test.lua").0, Outcome::Answer(200));
    }
    assert_eq!(
        run("coroutine.wrap(function() error('inside') end)()").0,
        Outcome::Failed(ScriptError::Error)
    );
}

/// A function that a script has kept may be called by a later run, but not when no run is on.
#[test]
fn tables_of_one_run_show_the_present_request() {
    let site = Site::new(
        Limits::default(),
        &[(
            "test.lua",
            "_G.r = _G.r or lighty.r _G.set = _G.set or lighty.r.resp_body.set _G.set('here') \
                return 200",
        )],
    );
    for _ in 0..3 {
        let (outcome, memory) = site.ask("test.lua");
        assert_eq!((outcome, memory.text().as_str()), (Outcome::Answer(200), "here"));
    }
}

#[test]
fn a_flood_of_words_is_bounded() {
    let (_, memory) = run("print(('x'):rep(1e6)) print('a', nil, {} ~= nil, 5)");
    assert!(memory.log[0].len() < 10_000);
    assert_eq!(memory.log[1], "(lua-print) a\tnil\ttrue\t5");
    let (outcome, memory) = run("for i = 1, 1e5 do lighty.status['flood.' .. i] = 1 end");
    assert_eq!(outcome, Outcome::Failed(ScriptError::Error));
    assert!(memory.log[0].contains("no room"), "{:?}", memory.log);
}
