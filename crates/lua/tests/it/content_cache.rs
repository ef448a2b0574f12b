//! `tokamak.cache`: what scripts say to the content cache reaches the cache.

use std::fs;
use std::time::{Duration, SystemTime};

use tokamak_lua::cache::{Override, Purge};
use tokamak_lua::{Limits, Outcome, ScriptError};

use crate::harness::{Site, run, show};

#[test]
fn overrides() {
    for (script, expected) in [
        ("set { key = 'news ' .. 1 }", Override::Key(b"news 1".to_vec())),
        ("set { lifetime = 60 }", Override::Lifetime(Duration::from_secs(60))),
        ("set { lifetime = '1.5' }", Override::Lifetime(Duration::from_millis(1500))),
        ("set { lifetime = 1/0 }", Override::Lifetime(Duration::from_secs(3_200_000_000))),
        ("set { stale_while_revalidate = 10 }", Override::WhileRevalidate(Duration::from_secs(10))),
        ("set { stale_if_error = 0 }", Override::IfError(Duration::ZERO)),
        ("set { tags = { 'a', 'b c' } }", Override::Tags(vec!["a".into(), "b c".into()])),
        ("set { tags = 'a' }", Override::Tags(vec!["a".into()])),
        ("set { bypass = true }", Override::Bypass(true)),
        ("depends {}", Override::Since(SystemTime::UNIX_EPOCH)),
    ] {
        let (outcome, memory) = run(&format!("tokamak.cache.{script}"));
        assert_eq!(outcome, Outcome::GoOn, "{script}: {:?}", memory.log);
        assert_eq!(memory.overrides, [expected], "{script}");
    }
    let (_, memory) = run("tokamak.cache.set { key = 'a', lifetime = 1, tags = 'b' }");
    assert_eq!(memory.overrides.len(), 3);
}

#[test]
fn what_a_page_depends_on() {
    let scripts = [
        (
            "files.lua",
            "local d = package.path:match('^(.*)/%?.lua;') tokamak.cache.depends { files = { d .. \
                '/files.lua', d .. '/old' } }",
        ),
        ("gone.lua", "tokamak.cache.depends { files = '/nothing' }"),
        (
            "keys.lua",
            "local d = tokamak.shared.main d:set('a', 1000.5) d:set('b', 'x') \
                      tokamak.cache.depends { keys = { 'a', 'b', 'c' }, memory = d }",
        ),
    ];
    let site = Site::new(Limits::default(), &scripts);
    let old = fs::File::create(site.folder.path().join("old")).unwrap();
    old.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(5)).unwrap();
    let since = |name: &str| {
        let (outcome, memory) = site.ask(name);
        assert_eq!(outcome, Outcome::GoOn, "{:?}", memory.log);
        match memory.overrides[..] {
            [Override::Since(time)] => time,
            _ => panic!("{:?}", memory.overrides),
        }
    };
    let changed = fs::metadata(site.folder.path().join("files.lua")).unwrap().modified().unwrap();
    let difference =
        since("files.lua").duration_since(changed).unwrap_or_else(|error| error.duration());
    assert!(difference < Duration::from_micros(10), "{difference:?}");
    assert!(since("gone.lua") > SystemTime::now() + Duration::from_secs(3600));
    assert_eq!(since("keys.lua"), SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_500));
}

#[test]
fn purges() {
    for (script, expected) in [
        ("{ all = true }", Purge::All),
        ("{ key = 'a' }", Purge::Key(b"a".to_vec())),
        ("{ url = 'http://x/' }", Purge::Url("http://x/".into())),
        ("{ prefix = 'x/a' }", Purge::Prefix("x/a".into())),
        ("{ tag = 7 }", Purge::Tag("7".into())),
    ] {
        let (outcome, memory) =
            run(&format!("lighty.r.resp_body.set('' .. tokamak.cache.purge {script}) return 200"));
        assert_eq!(
            (outcome, memory.text().as_str()),
            (Outcome::Answer(200), "3"),
            "{:?}",
            memory.log
        );
        assert_eq!(memory.purges, [expected], "{script}");
    }
}

#[test]
fn what_is_kept() {
    let kept = "local k = tokamak.cache.find() return show(k.status, k.age, k.ttl, k.length)";
    assert_eq!(show(kept), "200 5 -2 7");
    assert_eq!(show("return show(tokamak.cache.find('nothing'))"), "nil");
    assert_eq!(show("return show(tokamak.cache.answer('nothing'))"), "nil");
    let (outcome, memory) = run("return tokamak.cache.answer('a')");
    assert_eq!((outcome, memory.text().as_str()), (Outcome::Answer(203), "a"));
}

#[test]
fn mistakes_are_errors_with_a_line() {
    for bad in [
        "set()",
        "set { lifetme = 1 }",
        "set { lifetime = -1 }",
        "set { lifetime = 0/0 }",
        "set { key = '' }",
        "set { tags = 5 }",
        "set { tags = { {} } }",
        "set { bypass = 1 }",
        "purge {}",
        "purge { url = 'a', tag = 'b' }",
        "purge { all = false }",
        "purge { every = 'a' }",
        "depends { file = 'a' }",
        "depends { keys = 'a' }",
        "find('')",
        "answer()",
    ] {
        let (outcome, memory) = run(&format!("tokamak.cache.{bad}"));
        assert_eq!(outcome, Outcome::Failed(ScriptError::Error), "{bad}");
        assert!(memory.log[0].contains("test.lua:1:"), "{bad}: {:?}", memory.log);
    }
}
