//! The C files of a PHP worker stand on floors: a file needs those of its own folder and of lower
//! floors only, modes do not know one another, and no two files need each other. Reads the source
//! files; starts nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::circles::{Edges, circles, sources};
use crate::layers::root;

/// From the lowest floor up. Folders of one floor do not know one another.
const FLOORS: &[&[&str]] = &[
    // What C and Rust call of each other; and protocols of databases, as bytes.
    &["shim", "wire"],
    // PHP's way to its request and its response, and what every mode needs of PHP.
    &["ground"],
    // What the kernel keeps for the process.
    &["process"],
    // One request from its begin to its end, and the script in which it runs.
    &["cycle"],
    // The modes: what becomes of a process between two requests.
    &["classic", "sealed", "async"],
    // Whatever knows all modes.
    &["top"],
];

/// A file below `crates/php/c`: its folder and its name, and its text without comments and
/// literals.
struct Source {
    name: String,
    raw: String,
    code: String,
}

fn folder(name: &str) -> &str {
    name.split('/').next().expect("a part")
}

fn floor(name: &str) -> usize {
    let found = FLOORS.iter().position(|folders| folders.contains(&folder(name)));
    found.unwrap_or_else(|| panic!("{name} stands on no floor of {}", file!()))
}

/// Whether a file of the one name may need a file of the other.
fn may_need(from: &str, to: &str) -> bool {
    folder(from) == folder(to) || floor(to) < floor(from)
}

/// The text without comments, and with empty literals.
fn code_of(text: &str) -> String {
    let (mut code, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(['/', '"', '\'']) {
        let (before, from) = rest.split_at(at);
        code.push_str(before);
        let end = match from.as_bytes() {
            [b'/', b'*', ..] => from.find("*/").map_or(from.len(), |end| end + 2),
            [b'/', ..] => {
                code.push('/');
                1
            }
            [quote, ..] => literal(from, *quote),
            [] => unreachable!("something was found"),
        };
        rest = &from[end..];
    }
    code + rest
}

/// The length of the literal with which a text begins.
fn literal(text: &str, quote: u8) -> usize {
    let mut is_escaped = true; // the opening mark ends nothing
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            byte if byte == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn is_of_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter| !is_of_word(letter)).filter(|word| !word.is_empty())
}

/// What a C file defines for others: functions and variables that begin in the first column.
fn defined(code: &str) -> Vec<&str> {
    const OTHER: &[&str] =
        &["static", "typedef", "extern", "enum", "union", "return", "INTERPOSE", "ZEND_METHOD"];
    let mut found = Vec::new();
    for line in code.lines() {
        let Some(first) = words(line).next() else { continue };
        if !line.starts_with(first) || OTHER.contains(&first) || line.ends_with(':') {
            continue;
        }
        let head = line.split(['(', '=', '[', ';']).next().expect("a part");
        let is_name = line.len() > head.len() && words(head).count() > 1;
        // `struct x {` defines a type.
        if is_name && !head.contains('{') {
            found.extend(words(head).last());
        }
    }
    found
}

fn all() -> Vec<Source> {
    let top = root().join("crates/php/c");
    let is_c = |path: &PathBuf| path.extension().is_some_and(|end| end == "c" || end == "h");
    let read = |path: PathBuf| {
        let name = path.strip_prefix(&top).expect("below it").to_string_lossy().into_owned();
        let raw = fs::read_to_string(&path).expect("a readable file");
        Source { name, code: code_of(&raw), raw }
    };
    sources(&top).into_iter().filter(is_c).map(read).collect()
}

/// Which C file uses what another one defines, and what that is.
fn uses(files: &[Source]) -> Vec<(&str, &str, &str)> {
    let sources = || files.iter().filter(|file| Path::new(&file.name).extension().unwrap() == "c");
    let mut owners = BTreeMap::new();
    for file in sources() {
        owners.extend(defined(&file.code).into_iter().map(|name| (name, &*file.name)));
    }
    let of = |file| {
        let Source { name, code, .. }: &Source = file;
        let (name, owners) = (&**name, &owners);
        let found = words(code).filter_map(move |word| Some((name, *owners.get(word)?, word)));
        found.filter(move |(user, owner, _)| owner != user).collect::<Vec<_>>()
    };
    sources().flat_map(of).collect()
}

#[test]
fn c_files_need_lower_floors_only() {
    let files = all();
    let mut wrong = Vec::new();
    for Source { name, raw, .. } in &files {
        for line in raw.lines().filter_map(|line| line.strip_prefix("#include \"")) {
            let included = line.trim_end_matches('"');
            let is_ours = files.iter().any(|file| file.name == included);
            if is_ours && !may_need(name, included) {
                wrong.push(format!("{name} includes {included}"));
            }
        }
    }
    for (user, owner, word) in uses(&files) {
        if !may_need(user, owner) {
            wrong.push(format!("{user} uses {word} of {owner}"));
        }
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "C files that need a higher floor:\n{}", wrong.join("\n"));
}

#[test]
fn no_c_files_need_each_other() {
    let files = all();
    let mut edges = Edges::new();
    for (user, owner, _) in uses(&files) {
        edges.entry(user.to_owned()).or_default().insert(owner.to_owned());
        edges.entry(owner.to_owned()).or_default();
    }
    assert!(edges.len() > 80, "only {} files use others", edges.len());
    let found: Vec<_> = circles(&edges).iter().map(|circle| circle.join(", ")).collect();
    assert!(found.is_empty(), "C files that need each other:\n{}", found.join("\n"));
}

#[test]
fn files_below_the_modes_do_not_ask_which_mode_runs() {
    let modes = floor("sealed/sealed.c");
    let asks = |file: &&Source| floor(&file.name) < modes && file.code.contains("shim.sealed");
    let wrong: Vec<_> = all().iter().filter(asks).map(|file| file.name.clone()).collect();
    assert!(wrong.is_empty(), "ask a field of `struct mode` (ground/mode.h) in {wrong:?}");
}

/// Lines of a C file and of a C function that one reads at once.
const LONGEST_FILE: usize = 500;
const LONGEST_FUNCTION: usize = 80;

/// Where functions begin, and how many lines they have from brace to brace.
fn functions(text: &str) -> Vec<(usize, usize)> {
    let (mut found, mut begin) = (Vec::new(), None);
    for (number, line) in text.lines().enumerate() {
        match line {
            "{" => begin = Some(number),
            "}" => found.extend(begin.take().map(|begin| (begin, number - begin + 1))),
            _ => {}
        }
    }
    found
}

#[test]
fn c_files_and_functions_stay_readable() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for Source { name, raw, .. } in &all() {
        let lines = raw.lines().count();
        if lines > LONGEST_FILE {
            wrong.push(format!("{name}: {lines} lines, at most {LONGEST_FILE}"));
        }
        for (begin, lines) in functions(raw) {
            seen += 1;
            if lines > LONGEST_FUNCTION {
                wrong.push(format!("{name}:{begin}: {lines} lines, at most {LONGEST_FUNCTION}"));
            }
        }
    }
    assert!(seen > 1000, "only {seen} functions were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn uses_of_c_files_are_seen() {
    let source = |name: &str, text: &str| Source {
        name: name.to_owned(),
        raw: text.to_owned(),
        code: code_of(text),
    };
    let files = [
        source("ground/a.c", "int a_count;\nstatic int own;\nvoid a_run(void)\n{\n}\n"),
        source(
            "ground/b.c",
            "/* a_run() */\nchar *b(int x)\n{\n    say(\"a_run \\\" a_count\"); a_run();\n}\n",
        ),
    ];
    assert_eq!(defined(&files[0].code), ["a_count", "a_run"]);
    assert_eq!(uses(&files), [("ground/b.c", "ground/a.c", "a_run")]);
    assert!(may_need("cycle/a.c", "ground/b.h") && may_need("cycle/a.c", "cycle/b.h"));
    assert!(!may_need("ground/a.c", "cycle/b.h") && !may_need("sealed/a.c", "async/b.h"));
}
