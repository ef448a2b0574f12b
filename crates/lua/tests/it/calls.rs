//! Calls of scripts: what reaches the caller, and what the script gets back.

use std::time::Duration;

use tokamak_lua::{Limits, Outcome, ScriptError};

use crate::harness::{Site, run, show};

/// The message of a script that raises an error.
fn raised(script: &str) -> String {
    let (outcome, memory) = run(script);
    assert_eq!(outcome, Outcome::Failed(ScriptError::Error), "{script}");
    memory.log.join("\n")
}

#[test]
fn requests_are_made_as_asked() {
    let body = show(
        "local r = tokamak.http.request { url = 'http://a/b?c', method = 'PUT', body = 'text', \
            timeout = 0.25,
         max_body = 99, socket = '/run/s', headers = { ['X-One'] = 1 } } return show(r.body)",
    );
    for part in ["(PUT)", "method: [80, 85, 84]", "socket: Some", "timeout: 250ms", "most: 99"] {
        assert!(part == "(PUT)" || body.contains(part), "{part}: {body}");
    }
    let methods = "local function method(r) return (r.body:match('method: %[([%d, ]+)%]')) end
                   return show(method(tokamak.http.get('http://a/')), \
                   method(tokamak.http.post('http://a/', 'x')),
                       method(tokamak.http.request { url = 'http://a/', body = '' }))";
    assert_eq!(show(methods), r#""71, 69, 84" "80, 79, 83, 84" "80, 79, 83, 84""#);
    let own = "local r = tokamak.fetch('/page?x', { headers = { a = 'b' } })
               return show(r.status, r.headers.A, r.body:find('url: [47, 112', 1, true) ~= nil)";
    assert_eq!(show(own), r#"203 "b" true"#);
}

#[test]
fn responses_have_their_fields_in_any_spelling() {
    let script = "local r, problem = tokamak.http.get('http://a/', { headers = { accept = { \
        'one', 'two' }, n = 5 } })
                  return show(r.status, problem, r.headers.Accept[1], r.headers.ACCEPT[2], \
                  r.headers.N, r.headers.other,
                      r.headers[1])";
    assert_eq!(show(script), r#"203 nil "one" "two" "5" nil nil"#);
}

#[test]
fn trouble_is_nil_and_a_message() {
    assert_eq!(
        show("return show(tokamak.http.get('http://down/'))"),
        r#"nil "no connection to down""#
    );
    assert!(
        show("return show(tokamak.file.read('/nonexistent/x'))")
            .starts_with("nil \"/nonexistent/x: ")
    );
}

#[test]
fn what_can_never_succeed_is_an_error_with_its_line() {
    for (script, message) in [
        ("tokamak.http.get()", "there is no 'url'"),
        ("tokamak.http.get('http://a', 5)", "table expected, got number"),
        ("tokamak.http.get('http://a', { tiemout = 5 })", "no option 'tiemout'"),
        ("tokamak.http.get('http://a', { timeout = 'x' })", "'timeout' must be a number"),
        ("tokamak.http.get('http://a', { headers = { a = {{}} } })", "'headers' must have strings"),
        ("tokamak.http.post('http://a', {})", "'body' must be a string"),
        ("tokamak.redis('a b')", "no address of a Redis server"),
        ("tokamak.redis { hots = 'a' }", "no option 'hots'"),
        ("tokamak.redis('a').get('key')", "with a colon"),
        ("tokamak.redis('a'):get(nil)", "argument 1 of a Redis command is a nil"),
        ("tokamak.redis('a'):call()", "a Redis command has a name"),
        ("tokamak.redis('a'):pipeline('x')", "a list of commands is expected"),
        ("tokamak.redis('a'):pipeline { 'x' }", "each command is a list"),
        ("tokamak.redis('a').x = 1", "read-only"),
        ("tokamak.http.put = 1", "read-only"),
        ("tokamak.fetch({})", "string expected, got table"),
        ("tokamak.fetch('/', { socket = '/s' })", "no option 'socket'"),
        ("tokamak.file.read()", "string expected, got nil"),
        ("tokamak.all(5)", "table expected, got number"),
        ("tokamak.all { 5 }", "functions expected, got a number"),
        (
            "local f = {} for n = 1, 101 do f[n] = print end tokamak.all(f)",
            "more than 100 functions",
        ),
    ] {
        let log = raised(&format!("\n{script}"));
        assert!(log.contains(message) && log.contains("test.lua:2:"), "{script}: {log}");
    }
}

#[test]
fn redis_commands_are_methods() {
    let script = "local redis = tokamak.redis('127.0.0.1:6379')
                  assert(redis == tokamak.redis('127.0.0.1:6379'))
                  assert(redis == tokamak.redis { host = '127.0.0.1', port = 6379 })
                  return show(redis:set('k', 1, 2.5, -0.1, 2^53), redis:call('hGet', 'h', \
                  'a\\0b'), redis:nothing())";
    assert_eq!(show(script), r#""set k 1 2.5 -0.1 9007199254740992" "hGet h a\0b" nil"#);
    let script =
        "local redis = tokamak.redis('h') return show(redis:pipeline { { 'set', 'a', 1 }, { \
            'get', 'a' } },
                  (redis:transaction { { 'incr', 'n' } }))";
    assert_eq!(show(script), r#""7 Pipeline: set a 1; get a" "7 Transaction: incr n""#);
}

#[test]
fn redis_replies_are_values() {
    assert_eq!(show("return show(tokamak.redis('h'):wrong())"), r#"nil "ERR wrong""#);
    let script = "local v = tokamak.redis('h'):values()
                  return show(#v, v[1], v[2] == tokamak.null, #v[3], v[4], v[5], v[6][1][1], \
                  v[6][1][2])";
    assert_eq!(show(script), r#"6 -3 true 2 true 0.5 false "ERR inner""#);
}

#[test]
fn redis_servers_are_named_in_several_ways() {
    let named = |script: &str| {
        let (outcome, memory) = run(script);
        assert_eq!(outcome, Outcome::GoOn, "{:?}", memory.log);
        memory.log.join("\n")
    };
    for (script, part) in [
        ("tokamak.redis('db:1234')", r#"address: Ok(("db", 1234))"#),
        ("tokamak.redis('db')", r#"address: Ok(("db", 6379))"#),
        ("tokamak.redis('[::1]:99')", r#"address: Ok(("::1", 99))"#),
        ("tokamak.redis('unix:/run/redis.sock')", r#"address: Err("/run/redis.sock")"#),
        (
            "tokamak.redis { socket = '/s', user = 'u', password = 'p', database = 3, timeout = \
                0.5 }",
            r#"address: Err("/s"), user: Some("u"), password: Some("p"), database: 3, timeout: 500ms"#,
        ),
        (
            "tokamak.redis {}",
            r#"address: Ok(("127.0.0.1", 6379)), user: None, password: None, database: 0, timeout: 10s"#,
        ),
    ] {
        assert!(named(script).contains(part), "{script}: {}", named(script));
    }
}

#[test]
fn functions_run_side_by_side() {
    // The four that pause come to their ends only when all of them have begun.
    let script = "local begun = 0
                  local function pause(...) local results = { ... }
                      return function()
                          begun = begun + 1
                          while begun < 4 do tokamak.sleep(0.01) end
                          return unpack(results)
                      end
                  end
                  local got, problems = tokamak.all { slow = pause('a'), pause(nil, 'missing'),
                      quick = function() return 1 end,
                      call = function() return tokamak.redis('h'):get('k') end, none = function() \
                      end,
                      both = function()
                          local inner = tokamak.all { pause('x'), pause('y') }
                          return inner[1] .. inner[2]
                      end }
                  local empty = tokamak.all {}
                  tokamak.sleep(0.01)
                  return show(got.slow, got[1], problems[1], got.quick, got.call, got.none, \
                  got.both, next(empty))";
    assert_eq!(show(script), r#""a" nil "missing" 1 "get k" nil "xy" nil"#);
}

#[test]
fn an_error_in_one_of_several_is_an_error_after_all_have_ended() {
    let script = "local ended
                  local good, problem = pcall(tokamak.all, {
                      function() tokamak.sleep(0.05) ended = true end, function() error('broken') \
                      end })
                  return show(good, problem:match('test.lua:%d+: (%a+)'), ended)";
    assert_eq!(show(script), r#"false "broken" true"#);
    for bad in ["coroutine.yield()", "coroutine.wrap(function() tokamak.sleep(0) end)()"] {
        let script = format!("tokamak.all {{ function() {bad} end }}");
        assert!(raised(&script).contains("coroutine"), "{bad}");
    }
    assert!(
        raised("coroutine.wrap(function() tokamak.all {} end)()")
            .contains("not a coroutine of its own")
    );
}

#[test]
fn what_a_script_changes_no_other_sees() {
    let site = Site::new(
        Limits::default(),
        &[
            (
                "bad.lua",
                "tokamak.http.get = 1 tokamak.file.read = 1 tokamak.sleep = 1
                         rawset(tokamak.redis('h'), 'get', 1) return 204",
            ),
            (
                "good.lua",
                "tokamak.sleep(0) assert(tokamak.http.get('http://a/')) \
                    assert(tokamak.redis('h'):get('k'))
                          assert(not tokamak.file.read('/nonexistent')) return 204",
            ),
        ],
    );
    assert_eq!(site.ask("bad.lua").0, Outcome::Answer(204));
    let (outcome, memory) = site.ask("good.lua");
    assert_eq!(outcome, Outcome::Answer(204), "{:?}", memory.log);
}

/// A script that could resume one of the coroutines that it runs in would run in two places.
#[test]
fn scripts_cannot_get_the_coroutine_of_a_branch() {
    let script = "local got = tokamak.all { function() tokamak.sleep(0.01) return \
            tostring(coroutine.running()) end }
                  return show(got[1], coroutine.running())";
    assert_eq!(show(script), r#""nil" nil"#);
}

#[test]
fn branches_are_bounded_as_scripts_are() {
    let limits = Limits {
        stretch: Duration::from_millis(200),
        total: Duration::from_millis(400),
        ..Limits::default()
    };
    let site = Site::new(
        limits,
        &[
            (
                "spin.lua",
                "tokamak.all { function() tokamak.sleep(0.05) while true do end end, function() \
                    tokamak.sleep(9) end }",
            ),
            (
                "wait.lua",
                "tokamak.all { function() tokamak.sleep(9) end, function() tokamak.sleep(8) end }",
            ),
            (
                "good.lua",
                "local t = tokamak.all { function() tokamak.sleep(0) return 204 end } return t[1]",
            ),
        ],
    );
    for name in ["spin.lua", "wait.lua", "spin.lua"] {
        assert_eq!(site.ask(name).0, Outcome::Failed(ScriptError::TooLong), "{name}");
        assert_eq!(site.ask("good.lua").0, Outcome::Answer(204));
    }
}
