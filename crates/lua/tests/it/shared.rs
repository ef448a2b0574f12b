//! `tokamak.shared`: what scripts of all event loops share.

use std::sync::Arc;

use tokamak_lua::{Limits, LuaState, Outcome, ScriptError, Stage};

use crate::harness::{Site, request, run, show, wait_for};

#[track_caller]
fn shown(script: &str, expected: &str) {
    assert_eq!(show(&format!("local d = tokamak.shared.main {script}")), expected, "{script}");
}

#[test]
fn types_are_kept() {
    shown("d:set('t', true) d:set('f', false) return show(d:get('t'), d:get('f'))", "true false");
    shown(
        "d:set('n', 1.5) d:set('i', 7) return show(d:get('n'), d:get('i'), type(d:get('i')))",
        r#"1.5 7 "number""#,
    );
    shown("d:set('s', 'a\\0b') d:set('e', '') return show(#d:get('s'), d:get('e'))", r#"3 """#);
    shown("return show(d:get('nothing'))", "nil");
    shown("d:set('x', 1) d:set('x', nil) return show(d:get('x'))", "nil");
    shown("d:set(5, 'five') return show(d:get('5'))", r#""five""#);
}

#[test]
fn writes_return_their_outcome() {
    shown("return show(d:set('a', 1))", "true nil false");
    shown("d:add('a', 1) return show(d:add('a', 2))", r#"false "exists" false"#);
    shown(
        "d:add('a', 1) d:replace('a', 2) return show(d:get('a'), d:replace('b', 1))",
        r#"2 false "not found" false"#,
    );
    shown("d:set('a', 1) return show(d:delete('a'), d:get('a'))", "true nil");
    shown("return show(d:set('a', {}))", r#"false "bad value type" false"#);
    shown("return show(d:add('a'))", r#"nil "attempt to add or replace nil values""#);
    shown("return show(d:set(nil, 1))", r#"nil "nil key""#);
    shown("return show(d:get(''))", r#"nil "empty key""#);
    shown("return show(d:get(('x'):rep(65536)))", r#"nil "key too long""#);
}

#[test]
fn numbers_are_counted() {
    shown("return show(d:incr('a', 1))", r#"nil "not found" false"#);
    shown("return show(d:incr('a', 1, 10))", "11 nil false");
    shown("d:incr('a', 1, 10) return show(d:incr('a', -0.5, 10))", "10.5 nil false");
    shown("d:set('a', '1') return show(d:incr('a', 1))", r#"nil "not a number" false"#);
    shown("return show(d:incr('a', '2', '3'))", "5 nil false");
}

#[test]
fn values_have_a_time() {
    let wait = "tokamak.sleep(0.05)";
    shown(
        &format!("d:set('a', 1, 0.03) {wait} return show(d:get('a'), d:add('a', 2))"),
        "nil true nil false",
    );
    shown(&format!("d:incr('a', 1, 0, 0.03) {wait} return show(d:incr('a', 1, 5))"), "6 nil false");
    shown(
        &format!("d:set('a', 1, 0.03) {wait} return show(d:replace('a', 2))"),
        r#"false "not found" false"#,
    );
    shown(
        &format!("d:set('a', 1, 0.03) d:expire('a', 0) {wait} return show(d:get('a'), d:ttl('a'))"),
        "1 0 nil",
    );
    shown(
        "d:set('a', 1, 10) local t = d:ttl('a') return show(t > 9 and t <= 10, d:ttl('b'))",
        r#"true nil "not found""#,
    );
    shown("return show(d:expire('a', 1))", r#"false "not found""#);
    // Counting goes on within the time that the first call gave.
    shown("d:incr('a', 1, 0, 10) d:incr('a', 1, 0, 99) return show(d:ttl('a') <= 10)", "true");
    shown("d:set('a', 1, 1e300) return show(d:get('a'), d:ttl('a'))", "1 0 nil");
}

#[test]
fn a_dictionary_as_a_whole() {
    shown(
        "d:set('a', 1) d:set('b', 1) local k = d:get_keys() table.sort(k) return show(unpack(k))",
        r#""a" "b""#,
    );
    shown("for i = 1, 9 do d:set(i, 1) end return show(#d:get_keys(3), #d:get_keys(0))", "3 9");
    shown(
        "d:set('a', 1) d:flush_all() return show(d:get('a'), d:free_space() == d:capacity())",
        "nil true",
    );
    shown(
        "d:set('a', 1, 0.001) d:set('b', 1) tokamak.sleep(0.02) return show(#d:get_keys(), \
            d:flush_expired())",
        "1 1",
    );
    shown(
        "local s = tokamak.shared.small return show(s:capacity(), tokamak.shared.other)",
        "4096 nil",
    );
}

#[test]
fn what_is_full_lets_go_of_the_least_used() {
    let fill = "local s = tokamak.shared.small local x = ('x'):rep(900) s:set('a', x) s:set('b', \
        x) s:set('c', x) s:get('a')";
    assert_eq!(show(&format!("{fill} return show(s:set('d', x))")), "true nil true");
    assert_eq!(
        show(&format!("{fill} s:set('d', x) return show(s:get('b'), #s:get('a'))")),
        "nil 900"
    );
    assert_eq!(
        show(&format!("{fill} return show(s:set('a', x:rep(5)))")),
        r#"false "no memory" false"#
    );
}

#[test]
fn mistakes_are_errors_with_a_line() {
    for bad in [
        "tokamak.shared.main:set('a', 1, -1)",
        "tokamak.shared.main:set('a', 1, 'soon')",
        "tokamak.shared.main:set('a', 1, 0/0)",
        "tokamak.shared.main:incr('a', {})",
        "tokamak.shared.main:incr('a', 1, nil, 5)",
        "tokamak.shared.main:expire('a')",
        "tokamak.shared.main:get_keys(-1)",
        "tokamak.shared.main.gets = 1",
        "tokamak.shared.mine = {}",
        "tokamak.shared.nobody:get('a')",
    ] {
        let (outcome, memory) = run(bad);
        assert_eq!(outcome, Outcome::Failed(ScriptError::Error), "{bad}");
        assert!(memory.log[0].contains("test.lua:1:"), "{bad}: {:?}", memory.log);
    }
}

/// Two event loops, and two scripts.
#[test]
fn event_loops_and_scripts_share() {
    let add = "tokamak.shared.main:incr('n', 1, 0)";
    let tell = "lighty.r.resp_body.set(tostring(tokamak.shared.main:get('n'))) return 200";
    let site = Site::new(Limits::default(), &[("add.lua", add), ("tell.lua", tell)]);
    let other = Arc::new(LuaState::new(&site.engine).expect("memory for Lua"));
    assert_eq!(site.ask("add.lua").0, Outcome::GoOn);
    let (_, outcome) =
        wait_for(other.run(site.script("add.lua"), Stage::RawUrl, Box::new(request())));
    assert_eq!(outcome, Outcome::GoOn);
    assert_eq!(site.ask("tell.lua").1.text(), "2");
}

/// However many keys there were: those that fit are there.
#[test]
fn a_full_dictionary_stays_full() {
    shown(
        "local s = tokamak.shared.small for i = 1, 2000 do s:set(i, i) end \
         return show(#s:get_keys(0), s:get('2000'), s:get('1'))",
        "24 2000 nil",
    );
}
