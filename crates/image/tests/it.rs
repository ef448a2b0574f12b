//! Runs the cases of `c/cases.c`, each in a process of its own, built as the worker is and with
//! sanitizers.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The C files in a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "c")).collect()
}

/// Built once for all tests of this program.
fn program(sanitized: bool) -> &'static Path {
    static PLAIN: OnceLock<PathBuf> = OnceLock::new();
    static SANITIZED: OnceLock<PathBuf> = OnceLock::new();
    let (once, name) = if sanitized { (&SANITIZED, "sanitized") } else { (&PLAIN, "plain") };
    once.get_or_init(|| {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let program = directory.join("cases");
        let mut compiler = Command::new(std::env::var_os("CC").unwrap_or("cc".into()));
        compiler
            .args([
                "-std=gnu11",
                "-D_GNU_SOURCE",
                "-O2",
                "-g",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-rdynamic",
                "-Wl,-z,now",
            ])
            .arg("-I")
            .arg(here.join("c"))
            .args(sources(&here.join("c")))
            .arg(here.join("tests/c/cases.c"))
            .arg("-o")
            .arg(&program);
        if sanitized {
            // Not the address sanitizer and not valgrind: both keep notes about memory in memory
            // that the roll-back would turn back, and neither expects its mappings to be replaced.
            compiler.args(["-fsanitize=undefined", "-fno-sanitize-recover=all"]);
        }
        let built = compiler.output().expect("a C compiler is needed");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        program
    })
}

fn run(name: &str, sanitized: bool, page_scan: bool) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-k", "1", "100"]).arg(program(sanitized)).arg(name);
    if !page_scan {
        command.env("WITHOUT_PAGE_SCAN", "1");
    }
    command.output().unwrap()
}

fn passes(name: &str) {
    for (sanitized, page_scan) in [(false, true), (false, false), (true, true)] {
        let output = run(name, sanitized, page_scan);
        assert!(
            output.status.success(),
            "{name}, sanitized {sanitized}, page scan {page_scan}: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

macro_rules! cases {
    ($($function:ident $name:literal)*) => {$(
        #[test]
        fn $function() {
            passes($name);
        }
    )*};
}

cases! {
    every_kind_of_data_goes_back "data"
    from_any_depth "depth"
    mappings_are_undone "mappings"
    marks_of_forks_are_wiped "forks"
    the_break_goes_back "break"
    executable_memory_stays_executable "code"
    system_calls_write_into_the_image "calls"
    ten_thousand_rounds_of_random_writes "rounds"
    what_libc_maps_by_itself_is_taken_away "libc"
    chunks_are_reused "chunks"
    a_process_adds_to_the_image "extended"
    a_process_adds_to_the_image_again "extended-again"
    changed_chunks_are_not "changed-chunks"
    other_memory_is_reused_and_cleared "spare"
    shared_memory_is_brought_without_a_look "shared"
    the_image_is_sealed_although_a_page_is_held "held"
    a_worker_can_signal_itself "signals"
    tainted_by_protection "taint-protection"
    tainted_by_a_mapping_over_the_image "taint-over"
    tainted_by_memory_gone_behind_our_back "taint-behind"
    tainted_by_a_thread "taint-thread"
    tainted_by_too_many_mappings "taint-mappings"
}

#[test]
fn threads_are_refused() {
    let output = run("refused-threads", false, true);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("2 threads run"), "{said}");
}
