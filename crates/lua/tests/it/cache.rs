//! The script cache: what becomes of files that change, break, or go.

use std::thread::sleep;
use std::time::{Duration, Instant};

use tokamak_lua::{Limits, Outcome, ScriptError};

use crate::harness::{Memory, Site};

/// Asks until the answer is as expected: a change must be seen within 1.2 seconds, and the machine
/// may be busy.
fn ask_until(site: &Site, expected: impl Fn(&Outcome, &Memory) -> bool) -> Memory {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let (outcome, memory) = site.ask("test.lua");
        if expected(&outcome, &memory) {
            return memory;
        }
        assert!(Instant::now() < end, "{outcome:?} {} {:?}", memory.text(), memory.log);
        sleep(Duration::from_millis(20));
    }
}

const COUNT: &str = "_G.n = (_G.n or 0) + 1 lighty.content = { 'one ' .. _G.n } return 200";

#[test]
fn a_change_is_seen_and_keeps_the_globals() {
    let site = Site::new(Limits::default(), &[("test.lua", COUNT)]);
    assert_eq!(site.ask("test.lua").1.text(), "one 1");
    assert_eq!(site.ask("test.lua").1.text(), "one 2");
    let path = site.folder.path().join("test.lua");
    std::fs::write(&path, COUNT.replace("one", "two")).expect("a writable folder");
    let began = Instant::now();
    let memory = ask_until(&site, |_, memory| memory.text().starts_with("two"));
    assert_ne!(memory.text(), "two 1");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn a_broken_change_is_reported_once_and_the_last_good_version_stays() {
    let site = Site::new(Limits::default(), &[("test.lua", "return 200")]);
    assert_eq!(site.ask("test.lua").0, Outcome::Answer(200));
    let path = site.folder.path().join("test.lua");
    std::fs::write(&path, "\n\nreturn return").expect("a writable folder");
    let memory = ask_until(&site, |_, memory| !memory.log.is_empty());
    let log = memory.log.join("\n");
    assert!(log.contains("test.lua:3:") && log.contains("last good version stays"), "{log}");
    let (outcome, memory) = site.ask("test.lua");
    assert_eq!(outcome, Outcome::Answer(200));
    assert!(memory.log.is_empty(), "{:?}", memory.log);
    std::fs::write(&path, "return 404").expect("a writable folder");
    ask_until(&site, |outcome, _| *outcome == Outcome::Answer(404));
}

#[test]
fn a_script_that_never_was_good_fails_with_its_line() {
    let site = Site::new(Limits::default(), &[("test.lua", "local a =\n\n= 5")]);
    for _ in 0..2 {
        let (outcome, memory) = site.ask("test.lua");
        assert_eq!(outcome, Outcome::Failed(ScriptError::Error));
        assert!(memory.log[0].contains("test.lua:3:"), "{:?}", memory.log);
    }
}

/// A text that closes the function which the cache puts around it is no script.
#[test]
fn a_script_cannot_leave_its_function() {
    for text in ["end return function() end, function()", "end) (function()", "return 200 end do"] {
        let site = Site::new(Limits::default(), &[("test.lua", text)]);
        assert_eq!(site.ask("test.lua").0, Outcome::Failed(ScriptError::Error), "{text}");
    }
}

#[test]
fn a_deleted_script_fails_and_comes_back() {
    let site = Site::new(Limits::default(), &[("test.lua", "return 200")]);
    assert_eq!(site.ask("test.lua").0, Outcome::Answer(200));
    let path = site.folder.path().join("test.lua");
    std::fs::remove_file(&path).expect("it was there");
    let memory = ask_until(&site, |outcome, _| *outcome == Outcome::Failed(ScriptError::Error));
    assert!(memory.log[0].contains("test.lua failed: No such file"), "{:?}", memory.log);
    std::fs::write(&path, "return 204").expect("a writable folder");
    ask_until(&site, |outcome, _| *outcome == Outcome::Answer(204));
}

#[test]
fn lines_are_counted_as_in_the_file() {
    for (text, line) in
        [("#!/usr/bin/lua\nerror('x')", 2), ("error('x')", 1), ("--[[\n]] error('x') -- end", 2)]
    {
        let site = Site::new(Limits::default(), &[("test.lua", text)]);
        let (_, memory) = site.ask("test.lua");
        assert!(memory.log[0].contains(&format!("test.lua:{line}: x")), "{:?}", memory.log);
    }
}

#[test]
fn modules_are_found_beside_the_script_and_loaded_once() {
    let site = Site::new(
        Limits::default(),
        &[
            (
                "test.lua",
                "lighty.content = { tostring(require('lib.part').n), require('lib.part').n } \
                    return 200",
            ),
            ("loop.lua", "require 'loop'"),
            ("none.lua", "require 'nothing'"),
        ],
    );
    std::fs::create_dir(site.folder.path().join("lib")).expect("a writable folder");
    std::fs::write(
        site.folder.path().join("lib/part.lua"),
        "_G.n = (_G.n or 0) + 1 return { n = _G.n }",
    )
    .expect("a writable folder");
    assert_eq!(site.ask("test.lua").1.text(), "11");
    assert_eq!(site.ask("test.lua").1.text(), "11");
    let (_, memory) = site.ask("loop.lua");
    assert!(memory.log[0].contains("loop in the modules"), "{:?}", memory.log);
    let (_, memory) = site.ask("none.lua");
    assert!(memory.log[0].contains("module 'nothing' not found"), "{:?}", memory.log);
}
