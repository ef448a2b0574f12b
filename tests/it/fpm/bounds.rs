//! What a pool's processes may use: files, core files, a place in line for the processors.

use std::fs;

use super::client::{Client, Request};
use super::pool;
use crate::harness::is_root;

/// The hard limit of a process, as `/proc` names it.
fn limit(pid: &str, name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/limits")).expect("a process");
    let line = text.lines().find(|line| line.starts_with(name)).expect("a limit");
    line[name.len()..].split_whitespace().nth(1).expect("a hard limit").to_string()
}

/// How nice a process is.
fn nice(pid: &str) -> i32 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let fields = text.rsplit_once(") ").expect("a name").1;
    fields.split(' ').nth(16).expect("a number").parse().expect("a number")
}

#[test]
fn the_limits_of_a_pool_are_those_of_its_workers() {
    let setup = pool(1).fpm_line("rlimit_files = 123").fpm_line("rlimit_core = 4096");
    let server = setup.fpm_line("process.priority = 7").start();
    let pid = Client::connect(&server).ask(&Request::new(&server, "/pid.php")).body();
    assert_eq!(limit(&pid, "Max open files"), "123");
    assert_eq!(limit(&pid, "Max core file size"), "4096");
    if is_root() {
        assert_eq!(nice(&pid), 7);
    } else {
        server
            .log_line(&["'process.priority' directive is ignored when FPM is not running as root"]);
    }
}

#[test]
fn the_limits_of_the_master_are_those_of_all_processes() {
    let setup = pool(1)
        .fpm_line("[global]")
        .fpm_line("rlimit_files = 321")
        .fpm_line("process.priority = 5");
    let server = setup.fpm_line("[tests]").start();
    let pid = Client::connect(&server).ask(&Request::new(&server, "/pid.php")).body();
    assert_eq!(limit(&pid, "Max open files"), "321");
    if is_root() {
        assert_eq!(nice(&pid), 5);
    }
}
