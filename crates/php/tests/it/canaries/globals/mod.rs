//! Everything that PHP and its extensions keep once for a process, and what becomes of it when a
//! request of async mode waits. Nothing here is from a list of what somebody thought of: the fields
//! are those of PHP's headers, and the changes are what `watcher.c` sees in the memory of PHP and
//! of its extensions while the canaries take turns. `shared.txt` says for each that is not a
//! request's own why others may change it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use regex_lite::Regex;

use super::{mixed, rows, start_in};
use crate::harness::extensions::{SCAN_DIRECTORY, extension_directory, scan_directory};
use crate::harness::*;

/// The tables whose rows async mode exchanges.
const ROWS: &[&str] = &[
    include_str!("../../../../c/async/own_memory.c"),
    include_str!("../../../../c/ground/compat.h"),
];

/// A macro of PHP, the variable that it reads, and how the declaration of that one's type begins or
/// ends.
const VARIABLES: &[(&str, &str, &str)] = &[
    ("EG", "executor_globals", "struct _zend_executor_globals {"),
    ("CG", "compiler_globals", "struct _zend_compiler_globals {"),
    ("PG", "core_globals", "struct _php_core_globals {"),
    ("SG", "sapi_globals", "struct _sapi_globals_struct {"),
    ("OG", "output_globals", "struct _zend_output_globals {"),
    ("BG", "basic_globals", "struct _php_basic_globals {"),
    ("FG", "file_globals", "} php_file_globals;"),
    ("PS", "ps_globals", "struct _php_ps_globals {"),
    ("JSON_G", "json_globals", "struct _zend_json_globals {"),
    ("PCRE_G", "pcre_globals", "struct _zend_pcre_globals {"),
    ("RANDOM_G", "random_globals", "struct _zend_random_globals {"),
    ("SIGG", "zend_signal_globals", "struct _zend_signal_globals_t {"),
    ("INI_SCNG", "ini_scanner_globals", "struct _zend_ini_scanner_globals {"),
    ("LANG_SCNG", "language_scanner_globals", "struct _zend_php_scanner_globals {"),
];

/// What `watcher.c` finds by this name, and how the declaration of its type begins or ends.
const MODULES: &[(&str, &str, &str)] = &[
    ("cwd", "virtual_cwd_globals", "struct _virtual_cwd_globals {"),
    ("date", "zend_date_globals", "struct _zend_date_globals {"),
    ("mbstring", "zend_mbstring_globals", "struct _zend_mbstring_globals {"),
];

/// What is between the braces that begin, or end, with this text.
fn declaration<'a>(headers: &'a str, begin_or_end: &str) -> &'a str {
    let at = headers.find(begin_or_end).unwrap_or_else(|| panic!("no {begin_or_end}"));
    let mut depth = 0_i32;
    let step = |c: char| i32::from(c == '{') - i32::from(c == '}');
    if begin_or_end.ends_with('{') {
        let inside = &headers[at + begin_or_end.len()..];
        let end = inside.find(|c| {
            depth += step(c);
            depth < 0
        });
        &inside[..end.expect("an end")]
    } else {
        let inside = &headers[..at];
        let begin = inside.rfind(|c| {
            depth -= step(c);
            depth < 0
        });
        &inside[begin.expect("a beginning") + 1..]
    }
}

/// The fields of a struct. Those of a few bits have no place that C could name: they are in words
/// that have others' names, or none.
fn fields(declaration: &str) -> Vec<String> {
    let innermost = Regex::new(r"\{[^{}]*\}").unwrap();
    let of_function = Regex::new(r"\(\s*\*\s*(\w+)").unwrap();
    let last_word = Regex::new(r"(\w+)\s*(\[[^\]]*\]\s*)*$").unwrap();
    let mut flat = declaration.to_owned();
    while innermost.is_match(&flat) {
        flat = innermost.replace_all(&flat, "").into_owned();
    }
    let mut names = Vec::new();
    for member in flat.split(';').map(str::trim).filter(|member| !member.is_empty()) {
        if let Some(function) = of_function.captures(member) {
            names.push(function[1].to_owned());
            continue;
        }
        let members = member.split(',').filter(|one| !one.contains(':'));
        names.extend(members.filter_map(|one| Some(last_word.captures(one)?[1].to_owned())));
    }
    names
}

/// The fields as rows for `watcher.c`.
fn field_rows(headers: &str) -> String {
    let mut text = String::new();
    for (macro_name, variable, begin) in VARIABLES {
        for name in fields(declaration(headers, begin)) {
            text += &format!("FIELD({macro_name}, {variable}, {name})\n");
        }
    }
    for (module, kind, begin) in MODULES {
        for name in fields(declaration(headers, begin)) {
            text += &format!("FIELD_OF_MODULE(\"{module}\", {kind}, {name})\n");
        }
    }
    text
}

/// The folder with the settings that load the extension, which is compiled for the PHP under test.
fn watcher() -> &'static str {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("watcher");
        fs::create_dir_all(&folder).unwrap();
        let source = folder.join("watcher.c");
        fs::write(&source, include_str!("watcher.c")).unwrap();
        fs::write(folder.join("headers.h"), include_str!("headers.h")).unwrap();
        let headers = compile(&["-E"], &folder.join("headers.h"), &folder.join("headers.i"));
        let headers = fs::read_to_string(headers).unwrap();
        let lines: Vec<_> = headers.lines().filter(|line| !line.starts_with('#')).collect();
        fs::write(folder.join("fields.h"), field_rows(&lines.join("\n"))).unwrap();
        let made = compile(&["-shared", "-fPIC", "-O2"], &source, &folder.join("watcher.so"));
        let line = format!("extension={}\n", made.display());
        fs::write(folder.join("watcher.ini"), line).unwrap();
        folder
    });
    folder.to_str().unwrap()
}

fn compile(how: &[&str], source: &Path, made: &Path) -> PathBuf {
    let config = std::env::var("PHP_CONFIG").unwrap_or_else(|_| "php-config".into());
    let includes = Command::new(&config).arg("--includes").output().unwrap();
    let extensions = Command::new(config).arg("--extension-dir").output().unwrap();
    let folder = String::from_utf8(extensions.stdout).unwrap();
    let made_at = Command::new("cc")
        .args(how)
        .args(["-D_GNU_SOURCE", &format!("-DEXTENSIONS=\"{}\"", folder.trim()), "-o"])
        .args([made, source])
        .args(String::from_utf8(includes.stdout).unwrap().split_whitespace())
        .status()
        .unwrap();
    assert!(made_at.success(), "{} does not compile", source.display());
    made.to_owned()
}

fn site() -> Site {
    let folders = format!("{}:{}", scan_directory(), watcher());
    start_in(&[(SCAN_DIRECTORY, &folders)], &[("seed", "4711")])
}

fn ask_watcher(site: &mut Site, function: &str) -> Vec<String> {
    let text = site.get(&format!("/?watcher={function}")).text();
    text.lines().map(str::to_owned).collect()
}

/// Names of `shared.txt`, each group of which stands below its reason.
fn shared() -> BTreeSet<String> {
    let lines = include_str!("shared.txt").lines().filter(|line| line.starts_with(' '));
    let names: Vec<_> = lines.flat_map(str::split_whitespace).map(str::to_owned).collect();
    let set: BTreeSet<_> = names.iter().cloned().collect();
    assert_eq!(names.len(), set.len(), "a name stands in shared.txt twice");
    set
}

/// How many words of a file may change that have no name, by `shared.txt`.
fn most_nameless(file: &str) -> usize {
    let has_opcache = file == "libphp.so" && !extension_directory().join("opcache.so").exists();
    let most = shared().into_iter().filter_map(|name| {
        let (of, most) = name.split_once('+')?;
        let is_of = of == file || has_opcache && of == "opcache.so";
        is_of.then(|| most.parse::<usize>().expect("a number"))
    });
    most.sum()
}

/// The places that the rows of async mode have, as macros of PHP; those of a whole variable by its
/// name.
fn own() -> BTreeSet<String> {
    let row = Regex::new(r"ROW\((\w+(?:\(\w+\))?),").unwrap();
    ROWS.iter().flat_map(|text| row.captures_iter(text)).map(|found| found[1].to_owned()).collect()
}

#[test]
fn each_field_of_phps_headers_is_a_requests_own_or_has_a_reason() {
    let (own, shared) = (own(), shared());
    let whole = |field: &str| {
        VARIABLES.iter().any(|(name, variable, _)| {
            own.contains(*variable) && field.starts_with(&format!("{name}("))
        })
    };
    let mut site = site();
    let found = ask_watcher(&mut site, "watched_fields");
    assert!(found.iter().any(|field| field == "EG(symbol_table)"), "{found:?}\n{}", site.log());
    let is_known =
        |field: &&String| own.contains(*field) || whole(field) || shared.contains(*field);
    let unknown: Vec<_> = found.iter().filter(|field| !is_known(field)).collect();
    assert!(
        unknown.is_empty(),
        "make each of these a row of own_memory.c, or say in shared.txt why it need not be: \
         {unknown:#?}"
    );
}

#[test]
fn a_request_that_goes_on_finds_the_memory_of_php_as_it_left_it() {
    let shared = shared();
    let mut site = site();
    let own: Vec<_> = rows(&mut site).into_iter().filter(|row| row.instead.is_none()).collect();
    assert_eq!(mixed(&mut site, &own, 4711, 1), Vec::<String>::new());
    let watched = ask_watcher(&mut site, "watched");
    let (count, changed) = watched.split_first().expect("a count");
    assert!(count.parse::<u64>().unwrap() > 1000, "{watched:?}\n{}", site.log());
    let file = |name: &str| name.split_once('+').map(|(file, _)| file.to_owned());
    let is_known = |name: &&String| match file(name) {
        Some(of) => {
            let all = changed.iter().filter(|other| file(other).as_ref() == Some(&of)).count();
            all <= most_nameless(&of)
        }
        None => shared.contains(*name),
    };
    let unknown: Vec<_> = changed.iter().filter(|name| !is_known(name)).collect();
    assert!(
        unknown.is_empty(),
        "others have changed it while a request waited: {unknown:#?}\n{}",
        site.log()
    );
}
