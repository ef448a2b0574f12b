//! Classic mode: how scripts end, what limits them, and how workers come and go.

use std::fs;
use std::time::{Duration, Instant};

use tokamak_sys::channel::Channel;
use tokamak_sys::control::{EXIT_TAINTED, FromZygote, Signal, Status, ToZygote, send};

use crate::harness::*;

/// One classic worker with one script.
fn script(code: &str) -> Site {
    Site::classic(&[("a.php", code)])
}

#[test]
fn errors_go_to_the_log_in_one_line_with_the_request() {
    let settings = [
        ("mode", "classic"),
        ("ini.display_errors", "0"),
        ("ini.log_errors", "1"),
        ("ini.error_reporting", "E_ALL & ~E_NOTICE"),
    ];
    let files = [
        (
            "a.php",
            "<?php error_log(\"two\\nlines\"); echo $undefined, error_reporting() === (E_ALL & \
                ~E_NOTICE) ? 'as set' : 'not'; trigger_error('quiet', E_USER_NOTICE);",
        ),
        (
            "log.php",
            "<?php frankenphp_log('said', FRANKENPHP_LOG_LEVEL_WARN, ['k' => 'v\"', 'n' => 1]); \
                tokamak_log('plain');",
        ),
    ];
    let mut site = Site::start(&files, &settings, 1);
    assert_eq!(site.get("/a.php?x=1").text(), "as set");
    let line = site.wait_for_log("Undefined variable");
    assert!(
        line.contains(" WARN [test.site] PHP Warning:  Undefined variable $undefined in /"),
        "{line}"
    );
    assert!(
        line.contains(&format!(
            "request=\"GET /a.php?x=1\" script=\"{}\" id=\"",
            site.file("a.php").display()
        )),
        "{line}"
    );
    site.wait_for_log(" INFO [test.site] two\\nlines request=");
    assert!(site.log().contains("quiet"), "E_USER_NOTICE is not E_NOTICE");
    site.get("/log.php");
    site.wait_for_log(" WARN [test.site] said k=\"v\\\"\" n=\"1\" request=");
    site.wait_for_log(" INFO [test.site] plain request=");
}

#[test]
fn whatever_ends_a_script_the_worker_lives_on() {
    let settings = [
        ("mode", "classic"),
        ("ini.display_errors", "0"),
        ("ini.log_errors", "1"),
        ("ini.memory_limit", "16M"),
    ];
    let files = [
        (
            "exit.php",
            "<?php register_shutdown_function(function () { echo ' shutdown'; }); echo 'so far'; \
                exit(3);",
        ),
        ("die.php", "<?php die('message');"),
        ("throw.php", "<?php throw new Exception('boom');"),
        ("late.php", "<?php echo 'part'; ob_flush(); flush(); nope();"),
        ("fatal.php", "<?php nope();"),
        ("parse.php", "<?php ]"),
        ("memory.php", "<?php $a = []; while (true) $a[] = str_repeat('x', 100000);"),
        (
            "deep.php",
            "<?php class D { function __destruct() { echo 'destructed'; } } $d = new D; exit;",
        ),
        ("ok.php", "<?php echo getmypid();"),
    ];
    let mut site = Site::start(&files, &settings, 1);
    let pid = site.get("/ok.php").text();
    for (target, status, text) in [
        ("/exit.php", 200, "so far shutdown"),
        ("/die.php", 200, "message"),
        ("/throw.php", 500, ""),
        ("/late.php", 200, "part"),
        ("/fatal.php", 500, ""),
        ("/parse.php", 500, ""),
        ("/memory.php", 500, ""),
        ("/deep.php", 200, "destructed"),
    ] {
        let response = site.get(target);
        assert_eq!((target, response.status, response.text().as_str()), (target, status, text));
        assert_eq!(site.get("/ok.php").text(), pid);
    }
    for text in [
        "Uncaught Exception: boom",
        "Call to undefined function nope()",
        "PHP Parse error",
        "Allowed memory size",
    ] {
        site.wait_for_log(text);
    }
}

#[test]
fn time_limits_strike_on_cpu_time_only() {
    let settings = [
        ("mode", "classic"),
        ("ini.max_execution_time", "1"),
        ("ini.display_errors", "0"),
        ("ini.log_errors", "1"),
    ];
    let files = [
        ("loop.php", "<?php echo 'x'; while (true);"),
        ("set.php", "<?php set_time_limit(0); set_time_limit(1); while (true);"),
        ("sleep.php", "<?php usleep(2500000); echo 'awake';"),
        ("ok.php", "<?php echo 'ok';"),
    ];
    let mut site = Site::start(&files, &settings, 1);
    for target in ["/loop.php", "/set.php"] {
        let before = cpu(site.pids[0]);
        assert_eq!(site.get(target).status, 500);
        let used = Duration::from_nanos(cpu(site.pids[0]) - before);
        assert!(
            used > Duration::from_millis(900) && used < Duration::from_millis(2500),
            "{used:?}"
        );
        site.wait_for_log("Maximum execution time of 1 second exceeded");
    }
    assert_eq!(site.get("/sleep.php").text(), "awake");
    assert_eq!(site.get("/ok.php").text(), "ok");
}

#[test]
fn a_worker_is_replaced_after_what_cannot_be_undone_and_only_then() {
    let settings = [("mode", "classic"), ("ini.ffi.enable", "1")];
    let c = "$c = FFI::cdef('int setenv(const char *, const char *, int); int open(const char *, \
        int); int close(int);');";
    let undone = format!(
        "<?php {c} $c->setenv('A', 'b', 1); $c->close($c->open(__FILE__, 0)); fopen(__FILE__, \
            'r'); putenv('B=c');
         umask(0077); pfsockopen('udp://127.0.0.1', 9); echo getenv('A'), getenv('B');"
    );
    let files = [
        ("undone.php", &*undone),
        ("look.php", "<?php echo json_encode([getenv('A'), getenv('B'), umask()]);"),
        ("nice.php", "<?php proc_nice(1); echo str_repeat('x', 100000);"),
        ("open.php", &*format!("<?php {c} $c->open(__FILE__, 0); echo 'left open';")),
    ];
    let mut site = Site::start(&files, &settings, 1);
    let before = site.get("/look.php").text();
    for _ in 0..3 {
        assert_eq!(site.get("/undone.php").text(), "bc");
        assert_eq!(site.get("/look.php").text(), before);
    }
    assert_eq!(site.get("/nice.php").text().len(), 100_000);
    site.wait_for_log(
        "INFO [test.site] worker replaced, because a request changed the priority, which cannot \
            be undone",
    );
    assert_eq!(site.hear_exit(), Status::Code(EXIT_TAINTED));
    site.spawn();
    assert_eq!(site.get("/open.php").text(), "left open");
    site.wait_for_log("worker replaced, because a request that called C left a file open");
    assert_eq!(site.hear_exit(), Status::Code(EXIT_TAINTED));
}

#[test]
fn an_aborted_client_ends_the_script_unless_it_says_no() {
    let mut site = Site::classic(&[
        (
            "a.php",
            "<?php register_shutdown_function(fn() => file_put_contents(__DIR__ . '/a', \
            connection_status()));
                   while (true) { echo 'x'; flush(); usleep(1000); }",
        ),
        (
            "b.php",
            "<?php ignore_user_abort(true); while (!connection_aborted()) { echo 'x'; \
            flush(); usleep(1000); }
                   file_put_contents(__DIR__ . '/b', connection_status());",
        ),
        ("ok.php", "<?php echo 'ok', connection_status();"),
    ]);
    for name in ["a", "b"] {
        let ask = get(&format!("/{name}.php"));
        let handed = site.submit(&ask);
        site.collect(handed, &[], |r| !r.body.is_empty());
        site.producer.abort(handed.0);
        site.collect(handed, &[], |_| false);
        assert_eq!(site.get("/ok.php").text(), "ok0");
        assert_eq!(fs::read_to_string(site.file(name)).unwrap(), "1");
    }
}

#[test]
fn settings_are_kept_and_locked_ones_cannot_be_changed() {
    let settings = [
        ("mode", "classic"),
        ("ini.precision", "5"),
        ("admin.memory_limit", "77M"),
        ("admin.disable_functions", "exec,shell_exec"),
        ("admin.user_agent", "a b; \"c\""),
    ];
    let code = "<?php echo json_encode([ini_get('precision'), ini_set('precision', '7'), \
        ini_get('precision'), @ini_set('memory_limit', '1G'),
                ini_get('memory_limit'), function_exists('exec'), ini_get('user_agent')]);";
    let mut site = Site::start(&[("a.php", code)], &settings, 1);
    for _ in 0..2 {
        assert_eq!(site.get("/a.php").text(), r#"["5","5","7",false,"77M",false,"a b; \"c\""]"#);
    }
}

#[test]
fn user_ini_files_hold_for_their_directory() {
    let mut site = script("<?php echo ini_get('precision'), ' ', ini_get('user_ini.filename');");
    fs::write(site.file(".user.ini"), "precision=6\n").unwrap();
    assert_eq!(site.get("/a.php").text(), "6 .user.ini");
}

#[test]
fn sessions_are_kept_between_requests() {
    let mut site =
        script("<?php session_start(); echo $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;");
    let first = site.get("/a.php");
    let cookie = first.header("Set-Cookie");
    let cookie = cookie.split(';').next().unwrap();
    assert_eq!(first.text(), "1");
    assert_eq!(site.ask(get("/a.php").header("Cookie", cookie)).text(), "2");
    assert_eq!(site.get("/a.php").text(), "1");
}

#[test]
fn nothing_leaks_into_the_next_request() {
    let code = "<?php $seen = [getenv('PUT'), ini_get('precision'), getcwd() === __DIR__, \
        umask(), defined('C'), date_default_timezone_get(),
                setlocale(LC_ALL, 0), mb_internal_encoding(), isset($GLOBALS['left']), \
                http_response_code(), error_get_last()];
                putenv('PUT=1'); ini_set('precision', '3'); chdir('/'); umask(0); define('C', 1); \
                date_default_timezone_set('Asia/Tokyo');
                setlocale(LC_ALL, 'C.UTF-8'); mb_internal_encoding('SJIS'); $left = 1; \
                @trigger_error('x'); http_response_code(201);
                echo json_encode($seen);";
    let mut site = script(code);
    let first = site.get("/a.php").text();
    for _ in 0..2 {
        assert_eq!(site.get("/a.php").text(), first);
    }
}

#[test]
fn the_pool_can_be_looked_at() {
    let mut site = script(
        "<?php $s = fpm_get_status(); echo json_encode([$s['pool'], \
        $s['active-processes'], $s['procs'][0]['state'],
                           $s['procs'][0]['request-uri'], $s['procs'][0]['pid'] === getmypid(), \
                           $s['accepted-conn']]);",
    );
    site.get("/a.php");
    assert_eq!(site.get("/a.php?b").text(), r#"["test.site",1,"Running","\/a.php?b",true,1]"#);
}

#[test]
fn a_backtrace_comes_from_anywhere_and_disturbs_no_request() {
    let mut site = script(
        "<?php function slow($n) { touch(__DIR__ . '/in'); return sleep($n); } class A { static \
            function b() { return slow(2); } } echo A::b();",
    );
    let start = Instant::now();
    let handed = site.submit(&get("/a.php?slow"));
    while !site.file("in").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    // It may not have come to sleep() yet.
    let trace = loop {
        site.kill(0, Signal::Backtrace(None));
        let FromZygote::Slow { index: 0, instance: 1, trace } = site.hear() else {
            panic!("no stack");
        };
        if trace.contains("#0 sleep()") || start.elapsed() > Duration::from_secs(20) {
            break trace;
        }
    };
    let (id, stack) = trace.split_once('\n').unwrap();
    assert!(id.len() == 24 && id.bytes().all(|digit| digit.is_ascii_hexdigit()), "{trace}");
    let file = site.file("a.php").display().to_string();
    let frames = format!("#0 sleep()|#1 slow() {file}:1|#2 A::b() {file}:1|#3 {file}:1");
    assert_eq!(stack.lines().map(str::trim_start).collect::<Vec<_>>().join("|"), frames);
    assert_eq!(site.collect(handed, &[], |_| false).text(), "0", "sleep() was not cut short");
    assert!(start.elapsed() >= Duration::from_secs(2));
}

#[test]
fn a_killed_worker_is_reported_and_the_zygote_forks_another() {
    let mut site = script("<?php echo getmypid();");
    let first = site.get("/a.php").text();
    site.kill(0, Signal::Kill);
    match site.hear() {
        FromZygote::Exited { index: 0, instance: 1, status: Status::Signal(9) } => {}
        other => panic!("{other:?}"),
    }
    let pid = site.spawn();
    let second = site.get("/a.php").text();
    assert_ne!(first, second);
    assert_eq!(second, pid.to_string());
}

/// A supervisor that wants no more of a zygote says so and closes the line. It does not wait for
/// answers to what it said before, and their loss is no error.
#[test]
fn a_zygote_leaves_quietly() {
    let words = [
        vec![ToZygote::Ask, ToZygote::Quit],
        vec![ToZygote::Spawn { index: 1, instance: 9 }, ToZygote::Quit],
        vec![ToZygote::Ask],
        vec![],
    ];
    for words in words {
        let mut site = Site::classic(&[]);
        signal(site.zygote.id(), libc::SIGSTOP);
        words.iter().for_each(|word| send(&site.channel, word, &[]).unwrap());
        // A worker that has ended is one more thing to be said.
        signal(site.pids[0], libc::SIGKILL);
        let (nobody, _) = Channel::pair().unwrap();
        drop(std::mem::replace(&mut site.channel, nobody));
        signal(site.zygote.id(), libc::SIGCONT);
        assert!(site.zygote.wait().unwrap().success(), "{words:?}: {}", site.log());
        assert!(!site.log().contains("ERROR"), "{words:?}: {}", site.log());
    }
}

fn signal(pid: u32, number: libc::c_int) {
    // SAFETY: takes numbers; the process is a child of this test, or a worker of one.
    unsafe { libc::kill(libc::pid_t::try_from(pid).unwrap(), number) };
}

#[test]
fn after_max_requests_a_worker_retires() {
    let mut site = Site::start(
        &[("a.php", "<?php echo 1;")],
        &[("mode", "classic"), ("max_requests", "3")],
        1,
    );
    for _ in 0..3 {
        assert_eq!(site.get("/a.php").text(), "1");
    }
    assert_eq!(site.hear_exit(), Status::Code(0));
}

#[test]
fn a_script_that_changes_on_disk_is_seen_and_symlinks_are_followed_anew() {
    let mut site = script("<?php echo 'one';");
    // opcache keeps no file that is younger than two seconds.
    let long_ago = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let script = fs::File::options().append(true).open(site.file("a.php")).unwrap();
    script.set_modified(long_ago).unwrap();
    assert_eq!(site.get("/a.php").text(), "one");
    fs::write(site.file("a.php"), "<?php echo 'two!';").unwrap();
    // It looks once in two seconds.
    let until = Instant::now() + Duration::from_secs(20);
    while site.get("/a.php").text() != "two!" {
        assert!(Instant::now() < until, "the old script is still served");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_bad_setting_is_refused_with_its_reason() {
    let result = std::panic::catch_unwind(|| Site::start(&[], &[("mode", "quick")], 0));
    let text = *result.err().unwrap().downcast::<String>().unwrap();
    assert!(text.contains("Failed") && text.contains("unknown setting mode=quick"), "{text}");
}

#[test]
fn a_forked_child_leaves_the_request_to_its_parent() {
    let fork = "<?php echo 'a'; $p = pcntl_fork(); if ($p === 0) { echo 'child'; \
        file_put_contents(__DIR__ . '/child', '1'); exit(7); }
                pcntl_waitpid($p, $s); echo pcntl_wexitstatus($s);";
    let mut site = Site::classic(&[("a.php", fork), ("b.php", "<?php echo 'next', getmypid();")]);
    for _ in 0..2 {
        assert_eq!(site.get("/a.php").text(), "a7");
        assert_eq!(site.get("/b.php").text(), format!("next{}", site.pids[0]));
    }
    assert!(site.file("child").exists());
    let worker =
        format!("<?php while (tokamak_handle_request(function () {{ {} }})) {{}}", &fork[6..]);
    let mut site = Site::worker(&worker, &[]);
    for _ in 0..2 {
        assert_eq!(site.get("/a.php").text(), "a7");
    }
}

#[test]
fn opcache_restarts_while_workers_are_busy() {
    let settings = [
        ("mode", "classic"),
        ("ini.opcache.file_update_protection", "0"),
        ("ini.opcache.force_restart_timeout", "3600"),
    ];
    let files = [
        (
            "count.php",
            "<?php $s = opcache_get_status(false); echo \
                $s['opcache_statistics']['manual_restarts'], ' ', (int) $s['restart_pending'];",
        ),
        ("reset.php", "<?php echo (int) opcache_reset();"),
        ("a.php", "<?php echo 'x';"),
    ];
    let mut site = Site::start(&files, &settings, 3);
    for round in 1..=3 {
        for _ in 0..20 {
            let handed: Vec<_> = (0..8).map(|_| site.submit(&get("/a.php"))).collect();
            for one in handed {
                assert_eq!(site.collect(one, &[], |_| false).text(), "x");
            }
        }
        assert_eq!(site.get("/reset.php").text(), "1");
        let until = Instant::now() + Duration::from_secs(30);
        let expected = format!("{round} 0");
        loop {
            let handed: Vec<_> = (0..8).map(|_| site.submit(&get("/a.php"))).collect();
            for one in handed {
                assert_eq!(site.collect(one, &[], |_| false).text(), "x");
            }
            if site.get("/count.php").text() == expected {
                break;
            }
            assert!(
                Instant::now() < until,
                "{expected} expected, got {}",
                site.get("/count.php").text()
            );
        }
    }
}

#[test]
fn a_worker_writes_its_own_backtrace_where_ptrace_is_forbidden() {
    let mut site = script(
        "<?php function spin() { touch(__DIR__ . '/in'); while (!file_exists(__DIR__ . '/go')) \
            clearstatcache(); } spin(); echo 'done';",
    );
    let handed = site.submit(&get("/a.php"));
    while !site.file("in").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    // SAFETY: a worker of this test, which its zygote has not reaped: it is in the middle of a
    // request.
    unsafe { libc::kill(site.pids[0] as libc::pid_t, Signal::Backtrace(None).number()) };
    site.wait_for_log("the stack of a slow request, id=");
    site.wait_for_log(" spin() /");
    fs::write(site.file("go"), "").unwrap();
    assert_eq!(site.collect(handed, &[], |_| false).text(), "done");
}

#[test]
fn an_idle_worker_lets_opcache_restart() {
    let settings = [("mode", "classic"), ("ini.opcache.file_update_protection", "0")];
    let mut site = Site::start(&[("a.php", "<?php echo 'x';")], &settings, 1);
    assert_eq!(site.get("/a.php").text(), "x");
    let held = || {
        fs::read_to_string("/proc/locks")
            .unwrap()
            .lines()
            .any(|lock| lock.split_whitespace().nth(4) == Some(&site.pids[0].to_string()))
    };
    assert!(held(), "opcache's lock outlives the request");
    let until = Instant::now() + Duration::from_secs(20);
    while held() {
        assert!(Instant::now() < until, "still held");
        std::thread::sleep(Duration::from_millis(100));
    }
}
