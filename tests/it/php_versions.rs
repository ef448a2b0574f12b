//! A site chooses the version of PHP that runs it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::harness::{Kind, Server, Setup, eventually, get, program};
use crate::operate::{configure, reload};

/// A folder of programs `tokamak-phpX.Y`, each of which is the one that was built, and says to its
/// scripts by which name it was started.
fn programs(folder: &Path, versions: &[&str]) -> String {
    let php = program().with_file_name("tokamak-php");
    for version in versions {
        let file = folder.join(format!("tokamak-php{version}"));
        let script = format!("#!/bin/sh\nSTARTED_AS={version} exec '{}' \"$@\"\n", php.display());
        fs::write(&file, script).expect("a program");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("it can be run");
    }
    let path = std::env::var("PATH").expect("a search path");
    format!("{}:{path}", folder.display())
}

const SITES: &str = r#"
[[site]]
host = "a.example"
root = "$ROOT"
php = "7.1"
[[site]]
host = "b.example"
root = "$ROOT"
php = "9.12"
[[site]]
host = "c.example"
root = "$ROOT"
"#;

fn started_as(server: &Server, host: &str) -> String {
    let request = get("/started_as.php").header("Host", host);
    server.send(&request).expect(200).text().to_owned()
}

#[test]
fn each_site_is_run_by_its_version() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("for all");
    let path = programs(folder.path(), &["7.1", "9.12"]);
    let server = Setup::new(Kind::Classic).sites(SITES).server_env("PATH", &path).start();
    assert_eq!(started_as(&server, "a.example"), "7.1");
    assert_eq!(started_as(&server, "b.example"), "9.12");
    assert_eq!(started_as(&server, "c.example"), "", "tokamak-php comes before all versions");

    // A version that is not installed leaves what serves, and says which ones are.
    configure(&server, "\"9.12\"", "\"9.2\"");
    let answer = reload(&server).expect_err("there is no 9.2");
    for part in ["b.example", "no program for PHP 9.2", "installed: 7.1, 9.12", "tokamak-php9.2"] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
    assert_eq!(started_as(&server, "b.example"), "9.12");

    // One that was installed meanwhile is found by a reload.
    programs(folder.path(), &["9.2"]);
    reload(&server).expect("it is installed now");
    assert_eq!(started_as(&server, "a.example"), "7.1");
    assert_eq!(started_as(&server, "b.example"), "9.2");
}

#[test]
fn a_check_knows_what_is_installed() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("index.php"), "<?php echo 1;").expect("a script");
    let check = |version: &str, programs_of: &[&str]| {
        let path = programs(folder.path(), programs_of);
        let mut command = Command::new(program());
        command.args(["check", "--php", version]).arg(folder.path()).env("PATH", path);
        let output = command.output().expect("it runs");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    let (code, text) = check("7.1", &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("no program for PHP 7.1") && text.contains("no other version"), "{text}");
    assert_eq!(check("7.1", &["7.1"]), (Some(0), String::new()));
    let (code, text) = check("8.4", &["7.1", "8.1"]);
    assert!(code == Some(1) && text.contains("installed: 7.1, 8.1"), "{text}");
    let (code, text) = check("8", &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("two numbers, such as \"8.4\""), "{text}");
}

#[test]
fn a_check_without_any_php_names_a_package() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("index.php"), "<?php echo 1;").expect("a script");
    let alone = folder.path().join("tokamak");
    fs::copy(program(), &alone).expect("a copy");
    let mut command = Command::new(alone);
    command.arg("check").arg(folder.path()).env("PATH", "").env_remove("TOKAMAK_PHP");
    // A process that another test has just started may still hold the copy open for writing.
    let output = eventually(Duration::from_secs(20), || command.output().ok()).expect("it runs");
    let text = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("site default: nothing here runs PHP: `apt install tokamak-php"),
        "{text}"
    );
}
