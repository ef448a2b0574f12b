//! What PHP does with a request over FastCGI, where it is more than what it does with any.

use std::fs;
use std::time::Duration;

use super::client::{Answer, Client, Request};
use super::pool;
use super::pools::with_second;
use crate::harness::{Server, eventually, free_address, is_root};

fn write(server: &Server, name: &str, code: &str) {
    fs::write(server.places.root().join(name), code).unwrap();
}

fn ask(server: &Server, request: &Request) -> Answer {
    Client::connect(server).ask(request)
}

#[test]
fn what_workers_print_is_in_the_log_if_it_is_caught() {
    for (line, is_caught) in
        [("catch_workers_output = yes", true), ("catch_workers_output = no", false)]
    {
        let server = pool(1).fpm_line(line).fpm_line("decorate_workers_output = yes").start();
        let code = "<?php file_put_contents('php://stderr', \"one\\ntwo\\n\"); \
            file_put_contents('php://stdout', 'three');
            error_log('four'); echo getmypid();";
        write(&server, "print.php", code);
        let answer = ask(&server, &Request::new(&server, "/print.php"));
        assert_eq!(String::from_utf8_lossy(&answer.stderr), "PHP message: four");
        let head = format!("WARNING: [pool tests] child {} said into ", answer.body());
        if is_caught {
            for (stream, text) in [("stderr", "one"), ("stderr", "two"), ("stdout", "three")] {
                server.log_line(&[&head, &format!("{stream}: \"{text}\"")]);
            }
            server.log_line(&[&head, "stderr: \"NOTICE: PHP message: four\""]);
        } else {
            assert!(
                !server.log().contains("said into") && !server.log().contains("two"),
                "{}",
                server.log()
            );
        }
    }
}

#[test]
fn the_end_of_a_request_ends_the_line_that_it_printed() {
    let server = pool(1)
        .fpm_line("catch_workers_output = yes")
        .fpm_line("decorate_workers_output = yes")
        .start();
    // The supervisor has read it before the end, or has not; and the request after it, which prints
    // nothing, begins no line.
    write(
        &server,
        "early.php",
        "<?php file_put_contents('php://stderr', 'early'); usleep(300000);",
    );
    write(&server, "late.php", "<?php file_put_contents('php://stderr', 'late');");
    for name in ["early", "late"] {
        ask(&server, &Request::new(&server, &format!("/{name}.php")));
        ask(&server, &Request::new(&server, "/hello.php"));
        server.log_line(&["said into stderr: ", &format!("\"{name}\"")]);
    }
}

#[test]
fn a_slow_request_is_in_the_slow_log() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("slow.log");
    let slow = format!("slowlog = {}", file.display());
    let server = pool(1).fpm_line(&slow).fpm_line("request_slowlog_timeout = 1s").start();
    write(
        &server,
        "slow.php",
        "<?php function wait() { usleep(2500000); }\nwait(); echo getmypid();",
    );
    let pid = ask(&server, &Request::new(&server, "/slow.php")).body();
    let said = || fs::read_to_string(&file).unwrap_or_default();
    let said = eventually(Duration::from_secs(20), || Some(said()).filter(|said| !said.is_empty()))
        .unwrap();
    let lines: Vec<&str> = said.lines().collect();
    let script = server.places.root().join("slow.php").display().to_string();
    assert!(
        lines[0].is_empty() && lines[1].ends_with(&format!("]  [pool tests] pid {pid}")),
        "{said}"
    );
    assert_eq!(lines[2], format!("script_filename = {script}"));
    assert!(
        lines[3].starts_with("[0x0000") && lines[3].ends_with(&format!("] usleep() {script}:1")),
        "{said}"
    );
    assert!(lines[4].ends_with(&format!("] wait() {script}:2")) && lines.len() == 5, "{said}");
}

/// CVE-2019-11043 and its like: no length of what is behind the script, and of PATH_INFO, makes
/// anything of what is beside it.
#[test]
fn a_path_info_of_any_length_is_what_was_sent() {
    let server = pool(1).start();
    write(
        &server,
        "info.php",
        "<?php echo $_SERVER['PATH_INFO'], '|', $_SERVER['HTTP_X'], '|', getmypid();",
    );
    let mut client = Client::connect(&server);
    let file = server.places.root().join("info.php").display().to_string();
    let mut pids = Vec::new();
    for length in (0..80).chain([1000, 1500, 1754, 1787, 2000]) {
        let behind = format!("{file}/PHP%0Ais_the_shittiest{}", "A".repeat(length));
        for info in ["", "/", "/PHP\nis"] {
            let request = Request::new(&server, "/info.php").param("SCRIPT_FILENAME", &behind);
            let request = request.param("PATH_INFO", info).param("HTTP_X", &"X".repeat(length));
            let body = client.ask(&request).body();
            let (rest, pid) = body.rsplit_once('|').unwrap_or_else(|| panic!("{length}: {body:?}"));
            assert_eq!(rest, format!("{info}|{}", "X".repeat(length)));
            pids.push(pid.to_owned());
        }
    }
    pids.dedup();
    assert_eq!(pids.len(), 1, "the worker is the same");
}

#[test]
fn only_scripts_with_the_endings_that_are_said_are_run() {
    let server = pool(1).fpm_line("security.limit_extensions = .php .inc").start();
    for name in ["a.inc", "a.jpg", "a.php.txt"] {
        write(&server, name, "<?php echo 'ran';");
    }
    assert_eq!(ask(&server, &Request::new(&server, "/a.inc")).body(), "ran");
    for name in ["/a.jpg", "/a.php.txt", "/a.jpg/x.php"] {
        let answer = ask(&server, &Request::new(&server, name));
        assert!(answer.head().starts_with("Status: 403 Forbidden\r\n"), "{name}: {answer:?}");
        assert_eq!(answer.body(), "Access denied.\n");
        let said = String::from_utf8_lossy(&answer.stderr).into_owned();
        assert!(said.contains("has been denied (see security.limit_extensions)"), "{said}");
    }
    let answer = ask(&server, &Request::new(&server, "/none.php"));
    assert!(answer.head().starts_with("Status: 404 Not Found\r\n"), "{answer:?}");
    assert_eq!(
        (&answer.body()[..], &answer.stderr[..]),
        ("File not found.\n", &b"Primary script unknown"[..])
    );
}

#[test]
fn settings_that_come_with_a_request_end_with_it() {
    let server = pool(1).start();
    write(&server, "ini.php", "<?php echo ini_get('memory_limit');");
    let plain = Request::new(&server, "/ini.php");
    let mut client = Client::connect(&server);
    let before = client.ask(&plain).body();
    let changed = Request::new(&server, "/ini.php").param("PHP_ADMIN_VALUE", "memory_limit=33M");
    assert_eq!(client.ask(&changed).body(), "33M");
    assert_eq!(client.ask(&plain).body(), before);
}

#[test]
fn a_pool_may_have_a_root_directory_of_its_own() {
    if !is_root() {
        return;
    }
    let address = free_address();
    let setup = pool(1);
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    fs::create_dir(directory.path().join("site")).unwrap();
    let code = "<?php echo __FILE__, ' ', getcwd(), ' ', json_encode(is_dir('/usr')), ' ', \
        posix_getuid();";
    fs::write(directory.path().join("site/a.php"), code).unwrap();
    let root = format!("chroot = {}", directory.path().display());
    let server = with_second(setup, address, &[&root, "chdir = /site"]).start();
    let request = Request::new(&server, "/a.php").param("SCRIPT_FILENAME", "/site/a.php");
    let body = Client::tcp(address).ask(&request.param("DOCUMENT_ROOT", "/site")).body();
    assert_eq!(body, "/site/a.php /site false 65534");
}

#[test]
fn what_goes_on_after_the_response_has_no_time_limit_unless_that_is_said() {
    for (line, is_ended) in [("no", false), ("yes", true)] {
        let track = format!("request_terminate_timeout_track_finished = {line}");
        let server = pool(1).fpm_line("request_terminate_timeout = 1s").fpm_line(&track).start();
        let code = "<?php echo getmypid(); fastcgi_finish_request(); usleep(2500000);
            file_put_contents(getenv('STATE') . '/ended', '');";
        write(&server, "late.php", code);
        let pid = ask(&server, &Request::new(&server, "/late.php")).body();
        // It waits for the worker, or for the next one.
        let next = ask(&server, &Request::new(&server, "/pid.php")).body();
        assert_eq!(
            (next != pid, !server.state_file("ended").exists()),
            (is_ended, is_ended),
            "{}",
            server.log()
        );
    }
}
