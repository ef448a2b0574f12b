//! State of a request is apart from state of the process, in C as well: a process that has several
//! requests under way must be able to change from one to another by one pointer. So no variable of
//! a C file may be a request's. Reads the source files; starts nothing.

use std::fs;
use std::path::{Path, PathBuf};

use crate::layers::root;

/// The variables of the C files that are not constants, by file. All of them are the process's:
/// set once, or meant to be the same for all requests that it serves. Of a request is what is in
/// `request_state` (`crates/php/c/ground/state.h`), and a new variable that means something only
/// while one request is served belongs there.
const OF_THE_PROCESS: &[(&str, &str)] = &[
    ("async.c", "async"),
    ("async_functions.c", "deadlock_class timeout_class"),
    ("awaitables.c", "awaitables_class coroutine_handlers deferred_class deferred_handlers"),
    ("backtrace.c", "text used"),
    ("boot.c", "compile_original substitutes"),
    ("boot_reads.c", "functions read_count reads"),
    ("calls.c", "calls"),
    ("cancellation.c", "cancellation cancellation_error log_error"),
    ("child_fibers.c", "children do_jobs_function"),
    ("classic.c", "base is_learned known"),
    ("collecting.c", "collecting"),
    ("connection_groups.c", "connection_groups"),
    ("connections.c", "held is_hopeless opener"),
    ("context.c", "handlers"),
    ("coroutines.c", "coroutines_class"),
    ("critical_section.c", "critical_section"),
    ("default_link.c", "known real_connect real_pconnect"),
    ("dependencies.c", "begun is_noting noted own own_count"),
    ("descriptors.c", "notes"),
    ("descriptors_boot.c", "descriptors_boot hung_up own refusal"),
    ("directory.c", "directory directory_at directory_len moved"),
    ("encodings.c", "base real_regex_encoding regex_has_changed"),
    ("environment.c", "import_of_php learned"),
    ("extend.c", "too_many_ranges"),
    ("fatal_errors.c", "is_marking_due"),
    ("ffi.c", "real_##function"),
    ("fiber_tags.c", "tags"),
    ("fibers.c", "fibers fibers_switches is_of_php serve_function"),
    ("fibers_suspended.c", "last resumed"),
    ("functions.c", "fed shim_module"),
    ("gateway.c", "gateway"),
    ("handlers.c", "error exception"),
    ("heap.c", "counted"),
    ("heap_roots.c", "answers"),
    ("heap_walk.c", "walk"),
    ("in_use.c", "in_use is_of_php"),
    ("ini_files.c", "is_scanned_ours scanned scanned_before search"),
    ("kinds.c", "kinds"),
    (
        "libraries.c",
        "clear_rrd_error learned magick mysql_statistics next_openssl_name openssl_errors \
         peek_openssl_error posix_error real_##function real_##function real_##function \
         real_set_resource_limit sockets_error sqlite was_used was_used",
    ),
    ("lifecycle.c", "first_directory"),
    ("locale.c", "locale"),
    ("long_turns.c", "turns"),
    ("mappings.c", "is_child watcher"),
    ("opcache.c", "holds_use holds_write idle_since last_check lock_file wants_use"),
    ("out_of_memory.c", "is_limit_raised"),
    (
        "outdated.c",
        "cache_reason file_count file_room files is_for_one_request reason younger_than_boot",
    ),
    ("own_connections.c", "all in_place left spare"),
    ("own_extensions.c", "fresh_xml reset_xml_error"),
    ("own_loops.c", "is_exchanging loops"),
    ("own_memory.c", "learned"),
    ("own_openssl.c", "openssl"),
    ("own_process.c", "put_environment"),
    ("own_settings.c", "functions real_##set"),
    ("own_state.c", "real_##function xml_errors"),
    ("parts.c", "part_slot parts_have_breaks parts_throw_cancelled"),
    ("paths.c", "in_image learned lifetime paths"),
    ("patterns.c", "in_image noted"),
    ("peek.c", "request_copy target target_memory"),
    ("peers.c", "peers"),
    ("persistent.c", "entries entry_count has_lost place_count places"),
    ("php_classes.c", "autoload"),
    ("process_state.c", "kept_state of_zygote own"),
    ("program_memory.c", "learned learned_count"),
    ("promises.c", "search"),
    (
        "randomness.c",
        "culprit handler_count handlers is_seeded real_##function real_uuid_create \
         salted",
    ),
    ("reactor.c", "reactor"),
    ("region.c", "region"),
    ("request_cycle.c", "handlers"),
    ("reset.c", "base"),
    ("sample.c", "known outer piece text used"),
    ("sapi.c", "shim_sapi"),
    ("script.c", "boot_script own"),
    ("sealed.c", "backtrace_signal collect_cycles life opcache script_path"),
    ("semaphores.c", "done of_boot refusal"),
    ("session.c", "base"),
    ("shutdown.c", "boot_objects boot_resources shutdown_count shutdowns writer_count writers"),
    ("signals.c", "before_fork blocked blocked_known shadow"),
    ("sockets.c", "kept lost polled watched watched_bits watched_count"),
    ("sqlite.c", "count databases"),
    ("state.c", "frames_left oldest_request only_request serving shim"),
    ("superglobals.c", "base"),
    ("taint.c", "tainted_by"),
    ("text_domains.c", "chosen chosen_count real_bind_textdomain_codeset real_bindtextdomain"),
    ("time_limit.c", "has_ticks"),
    ("userini.c", "directories ready"),
    ("values.c", "path_cache path_cache_learned"),
    ("variables.c", "constants key_https key_self keys places template value_on"),
    ("waiting.c", "empty held is_taken sent"),
    ("waiting_lock.c", "contenders"),
    ("waiting_names.c", "last_host threads"),
];

/// C files without a header of their own, and the one that they share.
const WITHOUT_HEADER: &[(&str, &str)] = &[
    ("boot_files.c", "shim.h"),
    ("extend.c", "image.h"),
    ("info.c", "shim.h"),
    ("interpose.c", "libc's headers"),
    ("lifecycle.c", "shim.h"),
    ("sample.c", "shim.h"),
    ("waiting_lock.c", "waiting.h"),
    ("waiting_names.c", "waiting.h"),
    ("waiting_process.c", "waiting.h"),
    ("waiting_transfer.c", "waiting.h"),
    ("wire_mysql.c", "wire_kinds.h"),
    ("wire_postgresql.c", "wire_kinds.h"),
    ("wire_redis.c", "wire_kinds.h"),
];

/// The folders whose C files become part of a worker.
const FOLDERS: &[&str] = &["crates/image/c", "crates/php/c"];

/// Words by which a line at the margin begins that defines no variable.
const NO_VARIABLE: &[&str] = &["typedef", "extern", "enum", "struct", "union", "return", "else"];

/// A C file without its comments.
fn without_comments(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((code, comment)) = rest.split_once("/*") {
        out.push_str(code);
        rest = comment.split_once("*/").map_or("", |(_, rest)| rest);
    }
    out + rest
}

/// By how much a letter changes the number of braces and brackets around what follows.
fn step(letter: char) -> i32 {
    match letter {
        '{' | '[' => 1,
        '}' | ']' => -1,
        _ => 0,
    }
}

/// A text without what stands between braces or brackets.
fn without_bodies(text: &str) -> String {
    let mut depth = 0;
    let is_outside = |letter: &char| {
        let was_outside = depth == 0;
        depth += step(*letter);
        was_outside && depth == 0
    };
    text.chars().filter(is_outside).collect()
}

fn is_of_name(letter: char) -> bool {
    // `##` joins the parts of a name in a macro.
    letter.is_alphanumeric() || letter == '_' || letter == '#'
}

/// The variables of one definition, up to its semicolon, that may be written to.
fn variables(definition: &str) -> Vec<String> {
    let bare = without_bodies(definition);
    let bare = bare.split('=').next().unwrap_or_default();
    if let Some((_, pointer)) = bare.split_once("(*") {
        // A pointer to a function, unless another parenthesis comes before: a function with one.
        let is_function = bare.find('(') != bare.find("(*");
        let name = pointer.split(|letter| !is_of_name(letter)).next().unwrap_or_default();
        return if is_function { vec![] } else { vec![name.to_owned()] };
    }
    if bare.contains('(') {
        return vec![];
    }
    let is_const = |words: &str| words.split_whitespace().any(|word| word == "const");
    let is_constant = |declared: &str, kind: &str| match declared.rsplit_once('*') {
        Some((_, behind)) => is_const(behind),
        None => is_const(kind),
    };
    let kind = bare.split(['*', ',']).next().unwrap_or_default();
    bare.split(',')
        .filter(|declared| !is_constant(declared, kind))
        .filter_map(|declared| {
            let declared = declared.trim_end();
            let start = declared.rfind(|letter| !is_of_name(letter)).map_or(0, |at| at + 1);
            Some(declared[start..].to_owned()).filter(|name| !name.is_empty())
        })
        .collect()
}

/// The variables of a C file that live as long as the process and may be written to.
fn lasting(text: &str) -> Vec<String> {
    let text = without_comments(text);
    let mut found = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at + line.len() - line.trim_start().len();
        at += line.len();
        let first = line.split(|letter| !is_of_name(letter)).next().unwrap_or_default();
        let is_global = !first.is_empty() && !first.contains('#') && !NO_VARIABLE.contains(&first);
        if !is_global && !line.trim_start().starts_with("static ") {
            continue;
        }
        let definition = &text[start..];
        let mut depth = 0;
        let end = definition.find(|letter| {
            depth += step(letter);
            depth == 0 && letter == ';'
        });
        found.extend(variables(&definition[..end.unwrap_or(definition.len())]));
    }
    found.sort();
    found
}

/// All files of a folder and of those in it.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of C files");
    entries
        .map(|entry| entry.expect("an entry").path())
        .flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] })
        .collect()
}

/// The C files of a worker, by name.
fn c_files() -> Vec<(String, PathBuf)> {
    let mut found: Vec<_> = FOLDERS
        .iter()
        .flat_map(|folder| files_below(&root().join(folder)))
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .map(|path| (path.file_name().expect("a name").to_string_lossy().into_owned(), path))
        .collect();
    found.sort();
    found
}

#[test]
fn each_c_file_has_a_header() {
    let has_none = |(_, path): &(String, PathBuf)| !path.with_extension("h").exists();
    let without: Vec<_> = c_files().into_iter().filter(has_none).map(|(name, _)| name).collect();
    let listed: Vec<_> = WITHOUT_HEADER.iter().map(|(name, _)| *name).collect();
    assert_eq!(without, listed, "what a file tells others stands in a header of its name");
}

#[test]
fn no_variable_of_a_c_file_is_a_requests() {
    let mut found = Vec::new();
    for (name, path) in c_files() {
        let variables = lasting(&fs::read_to_string(path).expect("a readable file"));
        if !variables.is_empty() {
            found.push((name, variables.join(" ")));
        }
    }
    let listed: Vec<_> = OF_THE_PROCESS
        .iter()
        .map(|(file, names)| ((*file).to_owned(), (*names).to_owned()))
        .collect();
    let list = |rows: &[(String, String)], others: &[(String, String)]| {
        let only = rows.iter().filter(|row| !others.contains(row));
        only.map(|(file, names)| format!("    {file}: {names}\n")).collect::<String>()
    };
    assert!(
        found == listed,
        "in the code, and not in the list of {}:\n{}in the list, and not in the code:\n{}",
        file!(),
        list(&found, &listed),
        list(&listed, &found)
    );
}

#[test]
fn functions_and_constants_are_not_taken_for_variables() {
    let text = "\
/* static int in_a_comment; */
static int plain, *pointer;
static const char *moved, *const fixed = \"a\";
static const int constant = 1;
static struct {
    int member;
} table[4] = {{1}};
static const struct {
    int member;
} rows[] = {{1}};
static void (*called)(int);
static int function(int (*parameter)(void), int other)
{
    static char *inside;
    static const char text[] = \"b\";
    int local = 1;
    return local;
}
shim_state global;
extern int elsewhere;
const wire_kind kind = {.a = 1};
module known = {
    .a = 1,
};
#define NOTICE(name) \\
    static handler real_##name; \\
    static FUNCTION(notice_##name) \\
    { \\
    }
";
    let expected = [
        "called",
        "global",
        "inside",
        "known",
        "moved",
        "plain",
        "pointer",
        "real_##name",
        "table",
    ];
    assert_eq!(lasting(text), expected);
}
