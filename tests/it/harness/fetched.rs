//! Programs that are brought before the tests run: by scripts that fetch and build them, or by
//! packages of Debian that a machine may do without.

use std::path::{Path, PathBuf};

use crate::layers::root;

/// Where a program is that `scripts/fetch-FOLDER` has fetched. `None` if it was not, as on a
/// machine without a network: the test does without. In CI it panics, since nobody would see that
/// the test has not run.
#[track_caller]
pub fn fetched(folder: &str, name: &str) -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), Into::into);
    let ci = std::env::var("CI").unwrap_or_default();
    present(target.join(folder).join(name), &format!("scripts/fetch-{folder}"), is_on(&ci))
}

/// As `scripts/fetch-for-tests` reads it.
fn is_on(ci: &str) -> bool {
    !matches!(ci, "" | "false" | "0")
}

#[track_caller]
fn present(program: PathBuf, script: &str, is_ci: bool) -> Option<PathBuf> {
    if program.exists() {
        return Some(program);
    }
    assert!(!is_ci, "{} is missing, and CI is set: run {script} first", program.display());
    eprintln!("not tested: run {script} first");
    None
}

/// Where a program of one of Debian's packages is. `None` without it, but in CI it panics: see
/// [`fetched`].
#[track_caller]
pub fn installed(name: &str) -> Option<PathBuf> {
    let program = ["/usr/sbin", "/usr/bin"].map(|folder| Path::new(folder).join(name));
    let program = program.into_iter().find(|program| program.exists());
    let ci = std::env::var("CI").unwrap_or_default();
    present(program.unwrap_or(name.into()), "scripts/setup test", is_on(&ci))
}

#[test]
fn what_is_missing_is_left_out() {
    assert_eq!(present("/none".into(), "scripts/fetch-it", false), None);
    assert!(present(Path::new("/").into(), "scripts/fetch-it", true).is_some());
    assert_eq!(["", "false", "0", "true", "1"].map(is_on), [false, false, false, true, true]);
}

#[test]
#[should_panic(expected = "/none is missing, and CI is set: run scripts/fetch-it first")]
fn what_is_missing_in_ci_is_a_failure() {
    present("/none".into(), "scripts/fetch-it", true);
}

/// The step of `scripts/test` before it.
#[test]
fn what_cannot_be_fetched_in_ci_is_a_failure() {
    for (ci, status, expected) in [
        (None, 0, 0),
        (None, 3, 0),
        (None, 1, 1),
        (Some("false"), 3, 0),
        (Some("true"), 0, 0),
        (Some("true"), 3, 1),
        (Some("true"), 7, 7),
    ] {
        let mut command = std::process::Command::new(root().join("scripts/fetch-for-tests"));
        command.args(["sh", "-c", &format!("exit {status}")]).env_remove("CI");
        let output = command.envs(ci.map(|ci| ("CI", ci))).output().expect("bash runs");
        assert_eq!(output.status.code(), Some(expected), "CI {ci:?}, exit status {status}");
        let is_noted =
            String::from_utf8_lossy(&output.stderr).contains("its tests would be left out");
        assert_eq!(is_noted, status == 3 && expected == 1, "{output:?}");
    }
}
