//! `tokamak php` runs scripts of the command line as a site would.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::harness::{is_root, program};

const CONFIGURATION: &str = r#"
[[site]]
host = "shop.example"
root = "shop/public"
php_value.memory_limit = "77M"
php_value.error_prepend_string = '''it's ${GREETING} "quoted" \'''
php_value.error_append_string = '''it's "quoted" \'''
php_value.error_reporting = "E_ALL & ~E_NOTICE"
php_value.docref_root = "none"
php_admin_value.precision = "5"
env.GREETING = "hello"

[[site]]
host = "blog.example"
root = "blog"
inherit_env = false
"#;

/// A folder with two sites.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("a folder");
    for folder in ["shop/public", "blog"] {
        fs::create_dir_all(place.path().join(folder)).expect("a folder");
    }
    fs::write(place.path().join("tokamak.toml"), CONFIGURATION).expect("a file");
    place
}

/// `tokamak php` in this folder.
fn php(place: &Path, folder: &str) -> Command {
    let mut command = Command::new(program());
    command.arg("php").current_dir(place.join(folder));
    command.env("TOKAMAK_CONFIG", place.join("tokamak.toml")).env("INHERITED", "yes");
    command
}

fn run(command: &mut Command) -> Output {
    command.output().expect("it runs")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("text")
}

#[test]
fn settings_and_environment_are_those_of_the_site() {
    let place = place();
    let script = "foreach (['memory_limit', 'error_prepend_string', \
        'error_append_string', 'error_reporting', 'docref_root', 'precision'] as $name) { \
        echo ini_get($name), '|'; } \
        echo getenv('GREETING'), '|', getenv('INHERITED') ?: '-', '|', PHP_SAPI;";
    for (folder, site) in [("shop", None), ("blog", Some("shop.example"))] {
        let mut command = php(place.path(), folder);
        command.args(site.map(|site| format!("--site={site}"))).args(["-r", script]);
        let expected = "77M|it's hello \"quoted\" \\|it's \"quoted\" \\|32759||5|hello|yes|cli";
        assert_eq!(text(&run(&mut command)), expected, "{folder}");
    }
    // Everybody on the machine sees the options of a program.
    let own = "echo file_get_contents('/proc/self/cmdline');";
    let options = text(&run(php(place.path(), "shop").args(["-r", own])));
    assert!(options.contains("memory_limit") && !options.contains("77M"), "{options}");

    let all = text(&run(php(place.path(), "blog").args(["-r", script])));
    assert!(all.ends_with("||-|cli"), "{all}");
    assert!(!all.contains("77M"), "{all}");
}

/// The files of settings are those that PHP reads when it serves, not those of the command line.
#[test]
fn php_reads_the_same_files() {
    let place = place();
    let served_by = program().with_file_name("tokamak-php");
    let info = run(Command::new(served_by).args(["--show", "info"]));
    let info = String::from_utf8(info.stdout).expect("text");
    let served = |name: &str| {
        let mut lines =
            info.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(" => "));
        lines.next().expect(name).to_owned()
    };
    let script = "echo php_ini_loaded_file(), '|', php_ini_scanned_files(), '|', PHP_VERSION;";
    let found = text(&run(php(place.path(), "shop").args(["-r", script])));
    let parts: Vec<&str> = found.split('|').collect();
    assert_eq!(parts[0], served("Loaded Configuration File"));
    assert!(parts[1].starts_with(&served("Scan this dir for additional .ini files")), "{found}");
    assert_eq!(parts[2], served("PHP Version"));
}

#[test]
fn a_script_gets_its_arguments_and_answers_for_itself() {
    let place = place();
    let script = place.path().join("shop/console");
    fs::write(
        &script,
        "#!/usr/bin/env php\n<?php\n\
            echo implode(',', $argv), '|', stream_get_contents(STDIN), '|', getcwd();\n\
            if (($argv[1] ?? '') === 'die') { posix_kill(getmypid(), SIGTERM); }\nexit(7);\n",
    )
    .expect("a script");
    let mut command = php(place.path(), "shop");
    command.args(["console", "--site", "-v"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    child.stdin.take().expect("a pipe").write_all(b"typed").expect("it is read");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(7));
    let here = fs::canonicalize(place.path().join("shop")).expect("it is there");
    let expected = format!("console,--site,-v|typed|{}", here.display());
    assert_eq!(String::from_utf8(output.stdout).expect("text"), expected);

    let output = run(php(place.path(), "shop").args(["console", "die"]).stdin(Stdio::null()));
    assert_eq!(output.status.signal(), Some(15), "it is PHP itself that was started");

    // Like Composer and WP-CLI, which lie in the search path.
    let path = format!("{}:/usr/bin:/bin", place.path().join("shop").display());
    let mut command = php(place.path(), "blog");
    command.args(["--site=shop.example", "console", "a"]).env("PATH", path).stdin(Stdio::null());
    let output = run(&mut command);
    assert_eq!(output.status.code(), Some(7));
    let answer = String::from_utf8(output.stdout).expect("text");
    assert!(answer.starts_with(&format!("{},a|", script.display())), "{answer}");
}

#[test]
fn errors_of_php_name_what_is_missing() {
    let place = place();
    let said = |command: &mut Command| {
        let output = run(command);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).expect("text")
    };
    let answer = said(php(place.path(), ".").args(["-r", "1;"]));
    assert!(answer.contains("choose one by --site: shop.example, blog.example"), "{answer}");
    let answer = said(php(place.path(), ".").args(["--site=mail", "-r", "1;"]));
    assert!(answer.contains("there is no site `mail`"), "{answer}");
    let answer = said(php(place.path(), "shop").args(["-r", "1;"]).env("PATH", "/nowhere"));
    assert!(answer.contains("install the package php8.") && answer.contains("-cli"), "{answer}");
}

#[test]
fn it_runs_as_the_sites_user() {
    if !is_root() {
        return;
    }
    let place = place();
    let file = place.path().join("tokamak.toml");
    let lines = CONFIGURATION.replace("env.GREETING", "user = \"games\"\nenv.GREETING");
    fs::write(&file, lines).expect("a file");
    let script = "echo posix_getpwuid(posix_geteuid())['name'], '|', getenv('HOME'), '|', \
        getenv('USER');";
    assert_eq!(
        text(&run(php(place.path(), "shop").args(["-r", script]))),
        "games|/usr/games|games"
    );

    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    let mut command = Command::new("setpriv");
    command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]).arg(program());
    command.args(["php", "--site=shop.example", "-r", script]).current_dir(place.path());
    let output = run(&mut command);
    assert_eq!(output.status.code(), Some(1));
    let answer = String::from_utf8(output.stderr).expect("text");
    assert!(
        answer.contains("has a user of its own; call this as that user, or as root"),
        "{answer}"
    );
}

/// A file that others than root may write to does not say as whom a script of root's runs.
#[test]
fn root_takes_no_configuration_from_others() {
    if !is_root() {
        return;
    }
    let place = place();
    let (uid, gid) = tokamak_sys::process::find_user("games").expect("a user of every Debian");
    let script = ["php", "--site=shop.example", "-r", "echo posix_geteuid();"];
    let here = || {
        let mut command = Command::new(program());
        command.args(script).current_dir(place.path()).env_remove("TOKAMAK_CONFIG");
        run(&mut command)
    };
    assert_eq!(text(&here()), "0", "it is root's own");
    std::os::unix::fs::chown(place.path().join("tokamak.toml"), Some(uid), Some(gid))
        .expect("root may do that");
    let output = here();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let answer = String::from_utf8(output.stderr).expect("text");
    assert!(answer.contains("may be written by others than root"), "{answer}");
}
