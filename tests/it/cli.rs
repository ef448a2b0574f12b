use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::harness::extensions::{SCAN_DIRECTORY, scan_directory};
use crate::harness::is_root;

/// A directory to type commands in.
struct Desk {
    folder: TempDir,
}

/// What a command answered.
#[derive(Debug)]
struct Answer {
    code: i32,
    out: String,
    err: String,
}

impl Desk {
    /// With a PHP application, and a configuration if `toml` is not empty.
    fn new(toml: &str) -> Desk {
        let desk = Desk { folder: TempDir::new().expect("a folder") };
        desk.write("index.php", "<?php echo 1;");
        if !toml.is_empty() {
            desk.write("tokamak.toml", toml);
        }
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// Runs `tokamak` here, with no variables of ours but the given ones.
    fn tokamak(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Answer {
        let mut command = Command::new("timeout");
        command
            .arg("20")
            .arg(env!("CARGO_BIN_EXE_tokamak"))
            .args(arguments)
            .current_dir(self.folder.path());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TOKAMAK_") {
                command.env_remove(name);
            }
        }
        let Output { status, stdout, stderr } = command
            .env(SCAN_DIRECTORY, scan_directory())
            .envs(environment.iter().copied())
            .output()
            .expect("timeout(1) runs");
        Answer {
            code: status.code().expect("it exits"),
            out: String::from_utf8(stdout).expect("text"),
            err: String::from_utf8(stderr).expect("text"),
        }
    }

    /// The effective value of a key of the top level or of any table, as `check --print` shows it.
    fn effective(&self, key: &str, arguments: &[&str], environment: &[(&str, &str)]) -> String {
        let answer = self.tokamak(&[&["check", "--print"], arguments].concat(), environment);
        assert_eq!(answer.code, 0, "{answer:?}");
        let prefix = format!("{key} = ");
        let value = answer.out.lines().find_map(|line| line.strip_prefix(&prefix));
        value.unwrap_or_else(|| panic!("no {key} in {}", answer.out)).to_owned()
    }
}

#[test]
fn check_says_that_a_configuration_is_good() {
    let desk = Desk::new("listen = '127.0.0.1:81'\n[[site]]\n[site.pool]\nworkers = 3\n");
    let answer = desk.tokamak(&["check"], &[]);
    assert_eq!(
        answer.out,
        "configuration is good: 1 site, at most 3 PHP workers, http://127.0.0.1:81\n"
    );
    assert_eq!((answer.code, answer.err.as_str()), (0, ""));
}

#[test]
fn check_warns_of_what_does_not_hold_in_a_part_of_a_site() {
    let desk = Desk::new(
        "[[site]]\nroot = '.'\nlua_raw_url = 'a.lua'\n[[site.route]]\npath = '/r'\n\
         lua_raw_url = 'b.lua'\n[[site.rule]]\ndeny = 'all'\n\
         [[site]]\npath = '/m'\nroot = '.'\n",
    );
    ["a.lua", "b.lua"].iter().for_each(|name| desk.write(name, ""));
    let answer = desk.tokamak(&["check"], &[]);
    let lines: Vec<&str> = answer.err.lines().collect();
    assert_eq!(answer.code, 0, "{answer:?}");
    for (line, part) in lines.iter().zip(["route /r has its own lua_raw_url", "is mounted in"]) {
        assert!(line.starts_with("tokamak: warning: site ") && line.contains(part), "{answer:?}");
    }
    assert_eq!(lines.len(), 2, "{answer:?}");
}

/// Root may enter each folder, so that only the server's processes would find it closed.
#[test]
fn check_as_root_looks_with_the_eyes_of_the_servers_user() {
    if !is_root() {
        return;
    }
    let desk = Desk::new("user = 'no-such-user'\n");
    let answer = desk.tokamak(&["check"], &[]);
    assert!(
        answer.code == 1 && answer.err.contains("there is no user \"no-such-user\""),
        "{answer:?}"
    );

    desk.write("tokamak.toml", "user = 'nobody'\n[[site]]\nroot = 'closed/site'\n");
    fs::create_dir_all(desk.path("closed/site")).unwrap();
    let permit = |name: &str, mode| {
        fs::set_permissions(desk.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    permit("", 0o755);
    permit("closed", 0o700);
    let answer = desk.tokamak(&["check"], &[]);
    let said = format!("may not enter {}, so nothing of", desk.path("closed").display());
    assert!(answer.code == 0 && answer.err.contains(&said), "{answer:?}");
    permit("closed", 0o711);
    let answer = desk.tokamak(&["check"], &[]);
    assert!(answer.code == 0 && !answer.err.contains("may not enter"), "{answer:?}");
}

#[test]
fn check_names_file_line_key_and_the_nearest_name_of_every_error() {
    let desk = Desk::new("");
    desk.write(
        "etc/my.toml",
        "lisen = ':80'\n\n[limits]\nbody = '1 potato'\n[[site]]\nroot = 'gone'\n",
    );
    let answer = desk.tokamak(&["check", "--config", "etc/my.toml"], &[]);
    let lines: Vec<&str> = answer.err.lines().collect();
    assert_eq!(lines[0], "etc/my.toml:1: lisen: unknown key; did you mean `listen`?");
    assert!(
        lines[1].starts_with("etc/my.toml:4: limits.body: `1 potato` is not a size; write "),
        "{answer:?}"
    );
    let gone = desk.path("etc/gone");
    let expected = format!("etc/my.toml:6: site.root: {} is not a directory", gone.display());
    assert!(lines[2].starts_with(&expected), "{answer:?}");
    assert_eq!(lines[3..], ["tokamak: the configuration has 3 errors"]);
    assert_eq!((answer.code, answer.out.as_str()), (1, ""));
}

#[test]
fn a_wrong_configuration_is_not_served() {
    let desk = Desk::new("[limits]\nbuffer = 1\n");
    for command in ["serve", "check"] {
        let answer = desk.tokamak(&[command], &[]);
        assert_eq!(answer.code, 1, "{answer:?}");
        assert!(
            answer.err.starts_with(
                "tokamak.toml:2: limits.buffer: 1 is out of bounds; use 16KiB to 1GiB\n"
            )
        );
    }
    let empty = Desk::new("");
    fs::remove_file(empty.path("index.php")).expect("it was there");
    let answer = empty.tokamak(&["serve"], &[]);
    assert_eq!(answer.code, 1);
    assert!(
        answer.err.contains("there is no public/index.php, index.php or index.html in "),
        "{answer:?}"
    );
}

#[test]
fn a_flag_wins_over_a_variable_and_that_over_the_file() {
    let desk = Desk::new("listen = '127.0.0.1:81'\n[[site]]\n[site.pool]\nworkers = 1\n");
    let listen = |arguments: &[&str], environment: &[(&str, &str)]| {
        desk.effective("listen", arguments, environment)
    };
    let variable = [("TOKAMAK_LISTEN", "127.0.0.1:82")];
    assert_eq!(listen(&[], &[]), "[\"127.0.0.1:81\"]");
    assert_eq!(listen(&[], &variable), "[\"127.0.0.1:82\"]");
    let flags = ["--listen", "127.0.0.1:83", "--listen", "[::1]:84"];
    assert_eq!(listen(&flags, &variable), "[\"127.0.0.1:83\", \"[::1]:84\"]");

    let workers = |arguments: &[&str], environment: &[(&str, &str)]| {
        desk.effective("workers", arguments, environment)
    };
    assert_eq!(workers(&[], &[]), "1");
    assert_eq!(workers(&[], &[("TOKAMAK_WORKERS", "2")]), "2");
    assert_eq!(workers(&["--workers", "3"], &[("TOKAMAK_WORKERS", "2")]), "3");
}

#[test]
fn the_file_may_be_named_by_a_variable_and_the_flag_wins() {
    let desk = Desk::new("loops = 1\n");
    desk.write("two.toml", "loops = 2\n");
    desk.write("three.toml", "loops = 3\n");
    let variable = [("TOKAMAK_CONFIG", "two.toml")];
    assert_eq!(desk.effective("loops", &[], &[]), "1");
    assert_eq!(desk.effective("loops", &[], &variable), "2");
    assert_eq!(desk.effective("loops", &["--config", "three.toml"], &variable), "3");
}

#[test]
fn a_worker_script_is_found_from_where_it_was_named() {
    let desk = Desk::new("");
    desk.write("app/public/index.php", "<?php");
    desk.write("app/boot.php", "<?php");
    desk.write("app/tokamak.toml", "[[site]]\nworker = 'boot.php'\n");
    let quoted = |name: &str| format!("{:?}", desk.path(name).display().to_string());
    assert_eq!(desk.effective("worker", &["app"], &[]), quoted("app/boot.php"));
    assert_eq!(desk.effective("mode", &["app"], &[]), "\"worker\"");
    assert_eq!(desk.effective("root", &["app"], &[]), quoted("app/public"));
    assert_eq!(desk.effective("mode", &["app", "--mode", "classic"], &[]), "\"classic\"");
    assert_eq!(desk.effective("worker", &["--worker", "index.php"], &[]), quoted("index.php"));
    let answer = desk.tokamak(&["check", "--worker", "boot.php"], &[]);
    assert!(answer.err.starts_with("command line --worker: site.worker: "), "{answer:?}");
    assert_eq!(
        desk.effective("boot", &["--mode", "sealed", "--boot", "index.php"], &[]),
        quoted("index.php")
    );
    let answer = desk.tokamak(&["check", "--boot", "index.php"], &[]);
    assert!(
        answer.err.starts_with("command line --boot: site.boot: only sealed mode"),
        "{answer:?}"
    );
}

#[test]
fn what_check_prints_means_the_same() {
    let desk = Desk::new(
        "[timeouts]\nidle = '90s'\n[[site]]\nhost = ['a.example']\n[site.php_value]\nA = 'b\"c'\n",
    );
    let first = desk.tokamak(&["check", "--print"], &[]);
    let other = Desk::new(&first.out);
    assert_eq!(other.tokamak(&["check", "--print"], &[]).out, first.out);
    assert!(first.out.contains("idle = \"90s\""), "{}", first.out);
}

#[test]
fn check_prints_no_secret() {
    let desk =
        Desk::new("[cache]\nredis = '127.0.0.1:6379'\n[[site]]\n[site.env]\nKEY = 's3cr3t'\n");
    let variables = [
        ("TOKAMAK_ADMIN", "127.0.0.1:9080"),
        ("TOKAMAK_ADMIN_TOKEN", "s3cr3t-s3cr3t-s3cr3t"),
        ("TOKAMAK_CACHE_REDIS_PASSWORD", "s3cr3t"),
    ];
    let printed = desk.tokamak(&["check", "--print"], &variables);
    assert_eq!(printed.code, 0, "{printed:?}");
    assert!(!printed.out.contains("s3cr3t") && !printed.err.contains("s3cr3t"), "{printed:?}");
    for key in ["admin_token", "redis_password", "env.KEY"] {
        assert!(printed.out.contains(&format!("# {key} is set, not shown\n")), "{}", printed.out);
    }
    let wrong = desk.tokamak(&["check"], &[variables[0], ("TOKAMAK_ADMIN_TOKEN", "s3cr3t")]);
    assert_eq!(wrong.code, 1, "{wrong:?}");
    assert!(
        !wrong.err.contains("s3cr3t") && wrong.err.contains("TOKAMAK_ADMIN_TOKEN"),
        "{wrong:?}"
    );
}

#[test]
fn a_directory_reached_by_a_symlink_keeps_its_name() {
    let desk = Desk::new("");
    desk.write("releases/1/index.php", "<?php");
    symlink("releases/1", desk.path("current")).expect("a symlink");
    let program = env!("CARGO_BIN_EXE_tokamak");
    let script = format!(
        "cd '{}' && exec timeout 20 {program} check --print",
        desk.path("current").display()
    );
    let output = Command::new("sh").args(["-c", &script]).output().expect("sh runs");
    let expected = format!("root = {:?}", desk.path("current").display().to_string());
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.lines().any(|line| line == expected), "{expected} in {printed}");
}

#[test]
fn a_mistyped_command_line_exits_with_2() {
    let desk = Desk::new("");
    for arguments in [&["sevre"][..], &["serve", "--lisen", "x"], &["check", "--mode", "fast"], &[]]
    {
        let answer = desk.tokamak(arguments, &[]);
        assert_eq!(answer.code, 2, "{arguments:?}: {answer:?}");
    }
    assert!(desk.tokamak(&["serve", "--lisen", "x"], &[]).err.contains("'--listen'"));
}

#[test]
fn version_names_the_program() {
    let answer = Desk::new("").tokamak(&["--version"], &[]);
    assert_eq!(answer.out, concat!("tokamak ", env!("CARGO_PKG_VERSION"), "\n"));
}

const COMMANDS: [&str; 11] = [
    "serve",
    "check",
    "reload",
    "upgrade",
    "status",
    "upstream",
    "demo",
    "php",
    "php-info",
    "completions",
    "man",
];

#[test]
fn completions_know_every_command() {
    let desk = Desk::new("");
    for shell in ["bash", "zsh", "fish"] {
        let answer = desk.tokamak(&["completions", shell], &[]);
        assert_eq!(answer.code, 0);
        for command in COMMANDS {
            assert!(answer.out.contains(command), "{shell} lacks {command}");
        }
        assert!(answer.out.contains("access-format"), "{shell} lacks flags");
    }
    desk.write("completions", &desk.tokamak(&["completions", "bash"], &[]).out);
    let syntax =
        Command::new("bash").arg("-n").arg(desk.path("completions")).status().expect("bash runs");
    assert!(syntax.success());
}

#[test]
fn the_manual_names_every_command_flag_and_variable() {
    let page = Desk::new("").tokamak(&["man"], &[]).out.replace("\\-", "-");
    assert!(page.contains(".TH tokamak 1"), "{page}");
    for command in COMMANDS {
        assert!(page.contains(&format!(".SH \"tokamak {command}\"")), "{command}");
    }
    for name in [
        "--listen",
        "--json",
        "--print",
        "TOKAMAK_CONFIG",
        "TOKAMAK_IMPORT",
        "TOKAMAK_PHP",
        "TOKAMAK_TIMEOUTS_IDLE",
        "tokamak.toml",
    ] {
        assert!(page.contains(name), "{name}");
    }
}

#[test]
fn php_info_is_the_worker_programs_answer() {
    let desk = Desk::new("");
    desk.write("php", "#!/bin/sh\necho \"asked $*\"\nexit 7\n");
    let program = desk.path("php");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("permissions");
    let answer = desk.tokamak(&["php-info"], &[("TOKAMAK_PHP", program.to_str().expect("text"))]);
    assert_eq!((answer.code, answer.out.as_str()), (7, "asked --info\n"));
    let answer = desk.tokamak(&["php-info"], &[("TOKAMAK_PHP", "/nowhere/php")]);
    assert_eq!(
        (answer.code, answer.err.as_str()),
        (1, "tokamak: /nowhere/php (from TOKAMAK_PHP) is not a file\n")
    );
}

#[test]
fn import_says_where_it_looked_for_its_program() {
    let desk = Desk::new("");
    let alone = desk.path("tokamak");
    fs::copy(env!("CARGO_BIN_EXE_tokamak"), &alone).expect("a copy");
    let mut command = Command::new(&alone);
    command.args(["import", "nginx", "site.conf"]).env("PATH", "").env_remove("TOKAMAK_IMPORT");
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = format!(
        "tokamak: cannot find tokamak-import beside {}, in {}, nor in PATH; `make install` puts it \
         there, or set TOKAMAK_IMPORT to its path\n",
        alone.display(),
        desk.path("../libexec/tokamak").display()
    );
    assert_eq!((output.status.code(), said), (Some(1), expected));
}

#[test]
fn reload_and_status_without_a_server_say_so() {
    let desk = Desk::new("");
    let socket = desk.path("none.sock");
    for command in ["reload", "status"] {
        let answer = desk.tokamak(&[command, "--control", socket.to_str().expect("text")], &[]);
        assert_eq!(answer.code, 1, "{answer:?}");
        assert!(answer.err.starts_with("tokamak: "), "{answer:?}");
    }
}

#[test]
fn a_server_can_be_named_by_where_it_listens() {
    // Nothing can listen on port 0, whatever else runs on this machine.
    let desk = Desk::new("");
    for command in ["reload", "status"] {
        let answer =
            desk.tokamak(&[command, "--listen", "localhost:0"], &[("TOKAMAK_CONTROL", "ignored")]);
        assert_eq!(answer.code, 1, "{answer:?}");
        assert!(answer.err.contains("no server of this user listens on 127.0.0.1:0"), "{answer:?}");
        let answer = desk.tokamak(&[command, "--listen", "nowhere"], &[]);
        assert_eq!(answer.code, 2, "{answer:?}");
        assert!(answer.err.contains("write IP:PORT"), "{answer:?}");
    }
}

#[test]
fn a_folder_without_an_application_leads_to_the_demo() {
    let desk = Desk::new("");
    fs::create_dir(desk.path("empty")).expect("a folder");
    let answer = desk.tokamak(&["serve", "empty"], &[]);
    assert_eq!(answer.code, 1, "{answer:?}");
    for part in ["public/index.php, index.php or index.html", "tokamak demo DIR"] {
        assert!(answer.err.contains(part), "{answer:?}");
    }
    let answer = desk.tokamak(&["demo", "empty"], &[]);
    assert!(answer.code == 0 && answer.out.contains("tokamak serve empty"), "{answer:?}");
    assert_eq!(desk.tokamak(&["check", "empty"], &[]).code, 0);
    let answer = desk.tokamak(&["demo", "empty"], &[]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.err.contains("the folder is not empty"), "{answer:?}");
}
