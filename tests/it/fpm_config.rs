//! `tokamak fpm` reads configurations as php-fpm does: both are given the same files and must say
//! the same.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A configuration with all kinds of directives, in which `DIR` is its folder.
const EVERYTHING: &str = r#"
; comment
[global]
pid = DIR/fpm.pid
error_log = DIR/error.log
log_level = notice
log_limit = 4096
emergency_restart_threshold = 10
emergency_restart_interval = 1m
process_control_timeout = 10s
process.max = 128
daemonize = no
rlimit_core = unlimited
include = DIR/pool.d/*.conf
[two]
listen = 127.0.0.1:9002
user = nobody
pm = ondemand
pm.max_children = 3
pm.process_idle_timeout = 10s;
"#;

const POOL: &str = r#"
[www]
user = nobody
group = nogroup
listen = DIR/$pool.sock
listen.backlog = 511
listen.owner = nobody
listen.mode = 0666
listen.allowed_clients = 127.0.0.1
process.priority = 5
pm = dynamic
pm.max_children = 5
pm.min_spare_servers = 1
pm.max_spare_servers = 3
pm.max_requests = 500
pm.status_path = /status
ping.path = /ping
access.log = DIR/$pool.access.log
access.format = "%R - %u %t \"%m %r%Q%q\" %s %f %{milli}d %{kilo}M %C%%"
access.suppress_path[] = /ping
access.suppress_path[] = /health_check.php
slowlog = DIR/$pool.log.slow
request_slowlog_timeout = 5
request_terminate_timeout = 1h
rlimit_files = 1024
chdir = DIR
catch_workers_output = yes
clear_env = no
security.limit_extensions = .php .php3
env[HOSTNAME] = $HOSTNAME
env[TMP] = "/tmp"
php_admin_value[sendmail_path] = /usr/sbin/sendmail -t -i -f www@my.domain.com
php_flag[display_errors] = off
php_admin_value[error_log] = log/fpm-php.www.log
php_admin_flag[log_errors] = on
php_admin_value[error_reporting] = E_ALL & ~E_NOTICE
php_value[x] = 'it''s'
"#;

const LEAST: &str = "[global]\nerror_log = DIR/e.log\n[www]\nuser = nobody\nlisten = 9000\npm = \
    static\npm.max_children = 1\n";

/// Writes files with `DIR` replaced.
fn write(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text.replace("DIR", dir.to_str().expect("text"))).expect("a file");
}

fn php_fpm(dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(crate::harness::php_fpm());
    command.arg("-n").args(words).current_dir(dir).output().expect("php-fpm")
}

fn tokamak(dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tokamak"));
    command.args(["fpm", "-n"]).args(words).current_dir(dir).output().expect("tokamak")
}

/// What was said, without the times and without lines that must differ.
fn said(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines =
        text.lines().map(|line| line.split_once("] ").map_or(line, |(_, line)| line).to_string());
    // php-fpm forgets to tell a level that nobody has set; we warn of what we make nothing of.
    lines
        .filter(|line| !line.contains("\tlog_level = ") && !line.contains("has no effect here"))
        .collect()
}

fn assert_same(dir: &Path, words: &[&str], about: &str) {
    let (theirs, ours) = (php_fpm(dir, words), tokamak(dir, words));
    assert_eq!(said(&ours), said(&theirs), "{about}");
    assert_eq!(ours.status.code(), theirs.status.code(), "{about}");
}

#[test]
fn a_whole_configuration_is_shown_alike() {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path(), "fpm.conf", EVERYTHING);
    write(dir.path(), "pool.d/www.conf", POOL);
    let ours = tokamak(dir.path(), &["-tt", "-y", "fpm.conf"]);
    assert!(said(&ours).len() > 100, "{:#?}", said(&ours));
    assert_same(dir.path(), &["-tt", "-y", "fpm.conf"], "everything");
    assert_same(dir.path(), &["-t", "--fpm-config=fpm.conf"], "only a test");
}

#[test]
fn what_is_wrong_is_said_alike() {
    let faults = [
        "nonsense = 1",
        "nonsense[a] = 1",
        "pm.max_children",
        "pm.max_children = x",
        "pm.max_children = 0",
        "pm = dynamic",
        "pm = dynamic\npm.min_spare_servers = 1\npm.max_spare_servers = 1\npm.start_servers = 2",
        "pm = ondemand\npm.process_idle_timeout = 0",
        "request_terminate_timeout = 5x",
        "catch_workers_output = perhaps",
        "rlimit_core = -2",
        "env[] = x",
        "env[A] =",
        "php_flag[a] = perhaps",
        "access.suppress_path[a] = /x",
        "access.suppress_path[] = x",
        "access.log = DIR/a.log\naccess.format = %Z",
        "access.log = DIR/a.log\naccess.format = \"%{x}d %s\"",
        "access.log = DIR/a.log\naccess.format = \"%{x}s %s\"",
        "access.log = DIR/a.log\naccess.format = \"%{x\"",
        "access.log = DIR/none/a.log",
        "slowlog = DIR/none/slow\nrequest_slowlog_timeout = 1",
        "request_slowlog_timeout = 1",
        "request_slowlog_trace_depth = 1",
        "chdir = DIR/none",
        "chroot = DIR/none",
        "chroot = DIR\nchdir = /none",
        "prefix = DIR/none",
        "process.priority = 30",
        "pm.status_path = status",
        "pm.status_path = /",
        "pm.status_path = /a%20b",
        "ping.path = ping",
        "ping.path = /ping\nping.response =",
        "listen =",
        "user = no-such-user",
        "group = no-such-group",
        "listen.owner = no-such-user",
        "listen.group = no-such-group",
        "[two]\nuser = nobody\nlisten = 9000\npm = static\npm.max_children = 1",
        "pm.status_listen = 9000",
        "[global]\nlog_level = loud",
        "[global]\nlog_limit = 64",
        "[global]\nprocess.max = -1",
        "[global]\nprocess.priority = 30",
        "[global]\nsyslog.facility = none",
        "[global]\nevents.mechanism = kqueue",
        "[global]\npid = /run/$pool.pid",
        "[global]\nlisten = 9000",
        "[global]\nenv[A] = b",
        "[global]\nerror_log = DIR/none/e.log",
        "include = DIR/fpm.conf",
        "include = DIR/none.conf",
    ];
    let dir = tempfile::tempdir().expect("a folder");
    for fault in faults {
        write(dir.path(), "fpm.conf", &format!("{LEAST}{fault}\n"));
        let words =
            ["-t", "-y", dir.path().join("fpm.conf").to_str().expect("text")].map(str::to_string);
        assert_same(dir.path(), &words.each_ref().map(String::as_str), fault);
    }
    assert_same(dir.path(), &["-t", "-y", "/no/such/file"], "no file");
    assert_same(dir.path(), &["-t", "-p", "/no/such/folder"], "no prefix");
    write(dir.path(), "fpm.conf", "[global]\nerror_log = DIR/e.log\n");
    assert_same(dir.path(), &["-t", "-y", "fpm.conf"], "no pool");
}

#[test]
fn the_options_are_shown_for_one_that_does_not_exist() {
    let dir = tempfile::tempdir().expect("a folder");
    for (words, status) in
        [(&["-Z"][..], 64), (&["--memory-limit=1G"], 64), (&["-y"], 64), (&["-h"], 0)]
    {
        let ours = tokamak(dir.path(), words);
        assert!(String::from_utf8_lossy(&ours.stdout).starts_with("Usage: "), "{words:?}");
        assert_eq!(ours.status.code(), Some(status), "{words:?}");
        assert_eq!(ours.status.code(), php_fpm(dir.path(), words).status.code(), "{words:?}");
    }
}

#[test]
fn php_says_of_itself_what_it_says_in_php_fpm() {
    let dir = tempfile::tempdir().expect("a folder");
    let text = |output: Output| String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text(tokamak(dir.path(), &["-v"])), text(php_fpm(dir.path(), &["-v"])));
    let modules = text(tokamak(dir.path(), &["-m"]));
    assert!(modules.starts_with("[PHP Modules]\n") && modules.contains("\nsession\n"), "{modules}");
    assert!(modules.contains("\n[Zend Modules]\n"), "{modules}");
    let info = text(tokamak(dir.path(), &["-dmemory_limit=77M", "-i"]));
    assert!(info.contains("memory_limit => 77M => 77M"), "{info}");
}
