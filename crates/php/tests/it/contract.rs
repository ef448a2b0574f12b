//! No jump may cross a Rust frame: what Rust calls returns. `shim_run_script` is the one exception.
//! It takes the image itself, so the way back ends in a frame that it has made, after the last one
//! of Rust.

use std::fs;
use std::path::{Path, PathBuf};

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().path())
        .flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] })
        .collect()
}

#[test]
fn what_rust_calls_does_not_roll_memory_back() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("c");
    let mut seen = 0;
    for path in files_below(&folder) {
        let text = fs::read_to_string(&path).unwrap();
        // A definition begins in the first column, and its body ends with a brace there.
        for definition in text.split("\n}\n") {
            let Some((head, body)) = definition.split_once("\n{\n") else { continue };
            let head = head.rsplit("\n\n").next().unwrap();
            let name = head.split('(').next().unwrap().rsplit([' ', '*', '\n']).next().unwrap();
            if !name.starts_with("shim_") {
                continue;
            }
            seen += 1;
            let jumps = ["roll_back(", "begin_worker(", "longjmp", "zend_bailout"];
            let jump = jumps.iter().find(|jump| body.contains(**jump));
            assert_eq!(jump, None, "{name} in {}", path.display());
        }
    }
    assert!(seen >= 15, "{seen} functions that Rust calls");
}
