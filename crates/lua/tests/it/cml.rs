//! `require "cml"`: scripts of lighttpd's mod_cml.

use std::fs;

use tokamak_lua::{Limits, Outcome, ScriptError, Stage};

use crate::harness::{Memory, Site, request};

/// Answers a request for a script of mod_cml that is this text, in a folder with these files.
fn serve(
    script: &str,
    files: &[(&str, &str)],
    change: impl FnOnce(&mut Memory),
) -> (Outcome, Memory) {
    let hook = "return require('cml').serve { memory = tokamak.shared.main }";
    let site = Site::new(Limits::default(), &[("hook.lua", hook)]);
    for (name, text) in files.iter().chain(&[("index.cml", script)]) {
        fs::write(site.folder.path().join(name), text).expect("a writable folder");
    }
    let root = site.folder.path().display().to_string();
    let mut memory = request();
    for (name, value) in [
        ("physical.path", format!("{root}/")),
        ("physical.doc-root", root),
        ("uri.path", "/".to_string()),
        ("uri.query", "id=7&name=a%20b".to_string()),
    ] {
        memory.attributes.insert(name, value.into_bytes());
    }
    change(&mut memory);
    site.ask_at(Stage::Physical, "hook.lua", memory)
}

const FILES: [(&str, &str); 2] = [("head.html", "<h1>"), ("tail.html", "</h1>")];

#[test]
fn a_hit_is_the_files() {
    let script = "output_contenttype = 'text/html' output_include = { 'head.html', request.CWD .. \
        'tail.html' } return CACHE_HIT";
    let (outcome, memory) = serve(script, &FILES, |_| {});
    assert_eq!(
        (outcome, memory.text().as_str()),
        (Outcome::Answer(200), "<h1></h1>"),
        "{:?}",
        memory.log
    );
    assert_eq!(memory.header("content-type"), ["text/html"]);
    let modified = memory.header("last-modified").remove(0);
    assert!(modified.ends_with(" GMT"), "{modified}");

    let known = "output_include = { 'head.html' } return 0";
    let same = |memory: &mut Memory| {
        memory
            .request
            .push(("If-Modified-Since".into(), b"Thu, 01 Jan 1970 00:16:40 GMT".to_vec()));
        let root = String::from_utf8(memory.attributes["physical.doc-root"].clone()).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1000);
        fs::File::options()
            .append(true)
            .open(format!("{root}/head.html"))
            .unwrap()
            .set_modified(time)
            .unwrap();
    };
    assert_eq!(serve(known, &FILES, same).0, Outcome::Answer(304));
}

#[test]
fn a_miss_goes_to_the_handler() {
    let miss = "trigger_handler = 'make page.php' return CACHE_MISS";
    let gone = "trigger_handler = 'make page.php' output_include = { 'gone.html' } return 0";
    for script in [miss, gone] {
        let (outcome, memory) = serve(script, &FILES, |_| {});
        assert_eq!(outcome, Outcome::Restart, "{script}: {:?}", memory.log);
        assert_eq!(
            memory.attribute("request.uri").as_deref(),
            Some("/make%20page.php?id=7&name=a%20b")
        );
    }
}

#[test]
fn scripts_that_cannot_decide_are_errors() {
    for (script, said) in [
        ("return 1", "a miss, and there is no trigger_handler"),
        ("output_include = { 'gone.html' } return 0", "a file is missing"),
        ("return 0", "output_include is missing"),
        ("output_include = { {} } return 0", "not a string"),
        ("\nerror('broken')", "index.cml:2: broken"),
        ("if then", "index.cml:1:"),
    ] {
        let (outcome, memory) = serve(script, &FILES, |_| {});
        assert_eq!(outcome, Outcome::Failed(ScriptError::Error), "{script}");
        assert!(memory.log[0].contains(said), "{script}: {:?}", memory.log);
    }
}

#[test]
fn what_scripts_may_ask() {
    let check = "assert(get.id == '7' and get.name == 'a%20b') \
        assert(request.REQUEST_URI == '/se%61rch?q=lua' and request.SCRIPT_NAME == '/' and \
        request.BASEURL == '/') \
        assert(request.SCRIPT_FILENAME == request.CWD .. 'index.cml' and request.DOCUMENT_ROOT .. \
        '/' == request.CWD) \
        assert(md5('a') == '0cc175b9c0f1b6a831c399e269772661') \
        assert(file_mtime(request.CWD .. 'head.html') > 1e9 and file_mtime('/nothing') == nil) \
        assert(file_isreg(request.CWD .. 'head.html') == 1 and file_isreg(request.CWD) == 0) \
        assert(file_isdir(request.CWD) == 1 and file_isdir('/nothing') == nil) \
        local n = 0 for name in dir_files(request.CWD) do n = n + 1 end assert(n == 4, n) \
        assert(not memcache_exists('a')) tokamak.shared.main:set('a', '12') \
        tokamak.shared.main:set('b', 'x') \
        assert(memcache_exists('a') and memcache_get_string('a') == '12' and \
        memcache_get_long('a') == 12) \
        assert(memcache_get_long('b') == nil and memcache_get_string('c') == nil) \
        own = 1 assert(_G.own == nil) output_include = { 'head.html' } return CACHE_HIT";
    let (outcome, memory) = serve(check, &FILES, |_| {});
    assert_eq!(outcome, Outcome::Answer(200), "{:?}", memory.log);
}

#[test]
fn other_requests_pass() {
    let other = |path: &'static str| {
        move |memory: &mut Memory| {
            let root = String::from_utf8(memory.attributes["physical.doc-root"].clone()).unwrap();
            memory.attributes.insert("physical.path", format!("{root}{path}").into_bytes());
        }
    };
    assert_eq!(serve("return 1", &FILES, other("/head.html")).0, Outcome::GoOn);
    assert_eq!(serve("return 1", &FILES, other("/other/")).0, Outcome::GoOn);
}
