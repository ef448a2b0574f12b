//! Worker mode: one script, many requests, and nothing of one in the next.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use tokamak_sys::control::{EXIT_BOOT_FAILED, EXIT_STALE, Status};
use tokamak_sys::queue::Outcome;

use crate::harness::*;

/// A worker whose handler includes the file that the URL names: each test brings its own.
const INCLUDE: &str = "<?php while (tokamak_handle_request(function () { include __DIR__ . \
    $_SERVER['SCRIPT_NAME']; })) {}";

fn handler(files: &[(&str, &str)], settings: &[(&str, &str)]) -> Site {
    let mut all = vec![
        ("mode", "worker"),
        ("script", "%root%/worker.php"),
        ("ini.display_errors", "0"),
        ("ini.log_errors", "1"),
    ];
    all.extend_from_slice(settings);
    let mut with_worker = vec![("worker.php", INCLUDE)];
    with_worker.extend_from_slice(files);
    Site::start(&with_worker, &all, 1)
}

#[test]
fn state_stays_and_superglobals_are_new() {
    let mut site = Site::worker(
        "<?php $boot = [$_SERVER['FRANKENPHP_WORKER'] ?? 0, $_SERVER['TOKAMAK_WORKER'] ?? 0, \
            PHP_SAPI, getcwd() === __DIR__, isset($_SERVER['REQUEST_METHOD'])];
         $n = 0;
         while (frankenphp_handle_request(function () use (&$n, $boot) {
             $n++;
             echo json_encode([$n, $boot, $_GET, $_POST, $_COOKIE, $_REQUEST, $_FILES, \
             $_SERVER['REQUEST_URI'],
                 isset($_SERVER['FRANKENPHP_WORKER']), $_SERVER['HTTP_X_A'] ?? null, \
                 file_get_contents('php://input')]);
         })) {}",
        &[],
    );
    let boot = r#"["1","1","fpm-fcgi",true,false]"#;
    assert_eq!(
        site.get("/a?x=1").text(),
        format!(r#"[1,{boot},{{"x":"1"}},[],[],{{"x":"1"}},[],"\/a?x=1",false,null,""]"#)
    );
    let ask = post("/b", "application/x-www-form-urlencoded", b"p=2")
        .header("X-A", "y")
        .header("Cookie", "c=3");
    assert_eq!(
        site.ask(ask).text(),
        format!(r#"[2,{boot},[],{{"p":"2"}},{{"c":"3"}},{{"p":"2"}},[],"\/b",false,"y","p=2"]"#)
    );
    assert_eq!(site.get("/c").text(), format!(r#"[3,{boot},[],[],[],[],[],"\/c",false,null,""]"#));
    assert_eq!(site.log(), "");
}

#[test]
fn request_is_made_when_first_named_and_never_stale() {
    let mut site = handler(
        &[
            ("req.php", "<?php echo $_REQUEST['v'] ?? 'none';"),
            ("no.php", "<?php echo 'no';"),
            ("env.php", "<?php echo $_ENV['K'] ?? 'none';"),
        ],
        &[],
    );
    assert_eq!(site.get("/no.php?v=1").text(), "no");
    assert_eq!(site.get("/req.php?v=2").text(), "2");
    assert_eq!(site.get("/no.php?v=3").text(), "no");
    assert_eq!(site.get("/req.php").text(), "none");
    assert_eq!(site.get("/req.php?v=4").text(), "4");
    assert_eq!(site.get("/env.php").text(), "none");
}

#[test]
fn boot_output_goes_to_the_log() {
    let mut site = Site::worker(
        "<?php echo \"booting\\nmore\"; header('X-Boot: 1'); while \
            (tokamak_handle_request(function () { echo 'x'; })) { echo 'between'; }",
        &[],
    );
    for _ in 0..2 {
        let response = site.get("/a");
        assert_eq!((response.text().as_str(), response.header("X-Boot").as_str()), ("x", ""));
    }
    site.wait_for_log("output of the worker script: booting");
    site.wait_for_log("output of the worker script: more");
    site.wait_for_log("output of the worker script: between");
}

#[test]
fn headers_status_and_buffers_belong_to_their_request() {
    let mut site = handler(
        &[
            (
                "a.php",
                "<?php http_response_code(404); header('X-A: 1'); ob_start(); echo 'in a buffer'; \
                    ob_start(); echo ' of a buffer';",
            ),
            (
                "b.php",
                "<?php echo json_encode([http_response_code(), headers_list(), ob_get_level(), \
                    headers_sent(), connection_status()]);",
            ),
        ],
        &[("ini.output_buffering", "0"), ("ini.expose_php", "0")],
    );
    for _ in 0..2 {
        let a = site.get("/a.php");
        assert_eq!(
            (a.status, a.text().as_str(), a.header("X-A").as_str()),
            (404, "in a buffer of a buffer", "1")
        );
        let b = site.get("/b.php");
        assert_eq!((b.status, b.text().as_str()), (200, "[200,[],0,false,0]"));
    }
}

/// One request changes it, the next looks.
fn leaks(look: &str, change: &str, settings: &[(&str, &str)]) -> (String, String) {
    let code = format!(
        "<?php if ($_SERVER['QUERY_STRING'] === 'change') {{ {change} }} else {{ echo \
            json_encode({look}); }}"
    );
    let mut site = handler(&[("a.php", &code)], settings);
    let before = site.get("/a.php").text();
    assert_eq!(site.get("/a.php?change").status, 200, "{}", site.log());
    (before, site.get("/a.php").text())
}

#[test]
fn what_a_request_changes_is_reset() {
    let cases = [
        ("ini", "ini_get('precision')", "ini_set('precision', '3');"),
        ("ini", "error_reporting()", "error_reporting(1);"),
        ("ini", "ini_get('max_execution_time')", "set_time_limit(77);"),
        ("ini", "ignore_user_abort()", "ignore_user_abort(false);"),
        (
            "error_handlers",
            "set_error_handler(null)",
            "set_error_handler(function () {}); set_error_handler('strlen');",
        ),
        ("error_handlers", "set_exception_handler(null)", "set_exception_handler(function () {});"),
        ("error_handlers", "error_get_last()", "@trigger_error('left');"),
        ("cwd", "getcwd()", "chdir('/');"),
        ("umask", "umask()", "umask(0);"),
        ("locale", "setlocale(LC_ALL, 0)", "setlocale(LC_ALL, 'C.UTF-8');"),
        ("timezone", "date_default_timezone_get()", "date_default_timezone_set('Asia/Tokyo');"),
        ("encodings", "mb_internal_encoding()", "mb_internal_encoding('SJIS');"),
        (
            "encodings",
            "[mb_detect_order(), mb_language(), mb_substitute_character()]",
            "mb_detect_order(['ASCII']); mb_language('ja'); mb_substitute_character('none');",
        ),
        ("env", "getenv('LEFT')", "putenv('LEFT=1');"),
        ("env", "getenv('POOL_VARIABLE')", "putenv('POOL_VARIABLE=other');"),
        ("env", "$_ENV['x'] ?? 0", "$_ENV['x'] = 1;"),
    ];
    for (kind, look, change) in cases {
        let (before, after) = leaks(look, change, &[]);
        assert_eq!((kind, look, &after), (kind, look, &before));
        let (before, after) = leaks(look, change, &[("keep", kind)]);
        assert_ne!((kind, look, &after), (kind, look, &before), "keep={kind} leaves it");
    }
}

#[test]
fn what_the_boot_set_up_stays() {
    let mut site = Site::worker(
        "<?php ini_set('precision', '5'); date_default_timezone_set('Europe/Rome'); \
            setlocale(LC_ALL, 'C.UTF-8'); putenv('BOOT=1'); $_ENV['B'] = 'b';
         umask(027); mb_internal_encoding('SJIS'); set_error_handler(function ($n, $m) { echo \
         \"<$m>\"; return true; }); chdir('/tmp'); error_reporting(E_ALL);
         while (tokamak_handle_request(function () {
             echo json_encode([ini_get('precision'), date_default_timezone_get(), \
             setlocale(LC_ALL, 0), getenv('BOOT'), $_ENV['B'], umask(), mb_internal_encoding(), \
             getcwd()]);
             trigger_error('caught');
             ini_set('precision', '3'); date_default_timezone_set('Asia/Tokyo'); \
             setlocale(LC_ALL, 'C'); putenv('BOOT=2'); putenv('BOOT'); $_ENV['B'] = 'c';
             umask(0); mb_internal_encoding('UTF-8'); set_error_handler(null); \
             restore_error_handler(); restore_error_handler(); chdir('/'); error_reporting(0);
         })) {}",
        &[],
    );
    let expected = r#"["5","Europe\/Rome","C.UTF-8","1","b",23,"SJIS","\/tmp"]<caught>"#;
    for _ in 0..3 {
        assert_eq!(site.get("/a").text(), expected);
    }
}

#[test]
fn the_place_of_sessions_stays_and_other_session_settings_do_not() {
    // Symfony sets session.save_path once, in the first request that needs a session.
    let (before, after) =
        leaks("ini_get('session.save_path')", "ini_set('session.save_path', '/tmp');", &[]);
    assert_ne!(before, after);
    let (before, after) = leaks("session_name()", "session_name('OTHER');", &[]);
    assert_eq!(before, after);
    let handler = "session_set_save_handler(new class extends SessionHandler {}, true);";
    let (before, after) = leaks("session_module_name()", handler, &[]);
    assert_eq!((before.as_str(), after.as_str()), ("\"files\"", "\"files\""));
}

#[test]
fn sessions_are_written_closed_and_never_shared() {
    let mut site = handler(
        &[
            ("s.php", "<?php session_start(); echo $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;"),
            (
                "exit.php",
                "<?php session_start(); echo $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; exit(1);",
            ),
            (
                "none.php",
                "<?php echo json_encode([isset($_SESSION), session_status(), session_id()]);",
            ),
        ],
        &[],
    );
    let first = site.get("/s.php");
    let cookie = first.header("Set-Cookie");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    assert_eq!(first.text(), "1");
    let again = |site: &mut Site, page: &str| site.ask(get(page).header("Cookie", &cookie)).text();
    assert_eq!(again(&mut site, "/s.php"), "2");
    assert_eq!(again(&mut site, "/exit.php"), "3");
    assert_eq!(site.get("/s.php").text(), "1");
    assert_eq!(site.get("/none.php").text(), r#"[false,1,""]"#);
    assert_eq!(again(&mut site, "/s.php"), "4");
}

#[test]
fn a_save_handler_set_at_boot_stays() {
    let mut site = Site::worker(
        "<?php class H implements SessionHandlerInterface { static $log = []; static $data = [];
             function open($p, $n): bool { self::$log[] = 'o'; return true; } function close(): \
             bool { self::$log[] = 'c'; return true; }
             function read($id): string|false { return self::$data[$id] ?? ''; } function \
             write($id, $d): bool { self::$data[$id] = $d; return true; }
             function destroy($id): bool { return true; } function gc($m): int|false { return 0; } }
         session_set_save_handler(new H, false);
         while (tokamak_handle_request(function () { session_id('fixed'); session_start(); echo \
         $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1, implode(H::$log); H::$log = []; })) {}",
        &[],
    );
    assert_eq!(site.get("/a").text(), "1o");
    assert_eq!(site.get("/a").text(), "2co");
    assert_eq!(site.get("/a").text(), "3co");
}

#[test]
fn shutdown_functions_run_at_the_end_of_their_request() {
    let mut site = Site::worker(
        "<?php register_shutdown_function(fn() => file_put_contents(__DIR__ . '/end', 'boot')); \
            $n = 0;
         while (tokamak_handle_request(function () use (&$n) { $n++; \
         register_shutdown_function(function () use ($n) { echo \"s$n\"; \
         register_shutdown_function(fn() => print('t')); }); echo 'x'; })) {}",
        &[("max_requests", "3")],
    );
    for n in 1..=3 {
        assert!(!site.file("end").exists());
        assert_eq!(site.get("/a").text(), format!("xs{n}t"));
    }
    assert_eq!(site.hear_exit(), Status::Code(0));
    assert_eq!(fs::read_to_string(site.file("end")).unwrap(), "boot");
}

#[test]
fn exit_ends_the_request_and_not_the_worker() {
    let mut site = handler(
        &[
            (
                "exit.php",
                "<?php register_shutdown_function(function () { echo ' shutdown'; exit(2); }); \
                    echo 'so far'; exit(1);",
            ),
            (
                "die.php",
                "<?php function f() { try { die('dead'); } finally { echo 'finally'; } } f();",
            ),
            (
                "dd.php",
                "<?php class D { function __destruct() { echo 'dumped'; } } function dd() { $d = \
                    new D; header('HTTP/1.1 500 Internal Server Error'); exit(1); } dd();",
            ),
            ("n.php", "<?php echo $GLOBALS['n'] = ($GLOBALS['n'] ?? 0) + 1;"),
        ],
        &[],
    );
    assert_eq!(site.get("/n.php").text(), "1");
    assert_eq!(site.get("/exit.php").text(), "so far shutdown");
    assert_eq!(site.get("/n.php").text(), "2");
    assert_eq!(site.get("/die.php").text(), "dead");
    assert_eq!(site.get("/n.php").text(), "3");
    let dd = site.get("/dd.php");
    assert_eq!((dd.status, dd.text().as_str()), (500, "dumped"));
    assert_eq!(site.get("/n.php").text(), "4");
}

#[test]
fn an_uncaught_exception_is_reported_and_the_worker_goes_on() {
    let mut site = handler(
        &[
            ("throw.php", "<?php echo 'part'; throw new DomainException('boom');"),
            (
                "shut.php",
                "<?php register_shutdown_function(function () { throw new Exception('late'); }); \
                    echo 'x';",
            ),
            (
                "handled.php",
                "<?php set_exception_handler(function ($e) { http_response_code(503); echo \
                    'handled ', $e->getMessage(); }); throw new Exception('it');",
            ),
            ("n.php", "<?php echo $GLOBALS['n'] = ($GLOBALS['n'] ?? 0) + 1;"),
        ],
        &[("ini.output_buffering", "0")],
    );
    assert_eq!(site.get("/n.php").text(), "1");
    let thrown = site.get("/throw.php");
    assert_eq!(
        (thrown.status, thrown.text().as_str()),
        (200, "part"),
        "headers were sent with the output"
    );
    let line = site.wait_for_log("Uncaught DomainException: boom");
    assert!(line.contains("request=\"GET /throw.php\""), "{line}");
    assert_eq!(site.get("/shut.php").text(), "x");
    site.wait_for_log("Uncaught Exception: late");
    let handled = site.get("/handled.php");
    assert_eq!((handled.status, handled.text().as_str()), (503, "handled it"));
    assert_eq!(site.get("/n.php").text(), "2");
}

#[test]
fn a_fatal_error_boots_the_script_again_in_the_same_process() {
    let mut site = handler(
        &[
            (
                "fatal.php",
                "<?php register_shutdown_function(function () { echo 'shut ', \
                    error_get_last()['type']; }); function f() {} eval('function f() {}');",
            ),
            (
                "memory.php",
                "<?php ini_set('memory_limit', '16M'); $a = []; while (true) $a[] = \
                    str_repeat('x', 100000);",
            ),
            ("n.php", "<?php echo $GLOBALS['n'] = ($GLOBALS['n'] ?? 0) + 1, ' ', getmypid();"),
        ],
        &[],
    );
    let first = site.get("/n.php").text();
    for (page, status) in [("/fatal.php", 500), ("/memory.php", 500)] {
        let response = site.get(page);
        assert_eq!(
            (page, response.status, response.outcome),
            (page, status, Some(Outcome::Complete))
        );
        assert_eq!(site.get("/n.php").text(), first, "same process, counting from one");
    }
    site.wait_for_log("worker script was ended by an error after 2 requests, starting it again");
    site.wait_for_log("Allowed memory size");
}

#[test]
fn a_time_limit_ends_the_request_and_is_armed_for_each() {
    let mut site = handler(
        &[
            ("loop.php", "<?php while (true);"),
            ("ok.php", "<?php echo 'ok';"),
            (
                "burn.php",
                "<?php $t = hrtime(true); while (hrtime(true) - $t < 700e6); echo 'burnt';",
            ),
        ],
        &[("ini.max_execution_time", "2")],
    );
    for _ in 0..6 {
        assert_eq!(site.get("/burn.php").text(), "burnt");
    }
    assert_eq!(site.get("/loop.php").status, 500);
    site.wait_for_log("Maximum execution time of 2 seconds exceeded");
    assert_eq!(site.get("/ok.php").text(), "ok");
}

#[test]
fn a_script_that_does_not_loop_is_a_boot_failure() {
    for (script, reason) in [
        ("<?php echo 'x';", "before its first tokamak_handle_request()"),
        ("<?php throw new Exception('no boot');", "Uncaught Exception: no boot"),
        ("<?php ]", "Parse error"),
    ] {
        let mut site =
            Site::worker(script, &[("ini.log_errors", "1"), ("ini.display_errors", "0")]);
        assert_eq!(site.hear_exit(), Status::Code(EXIT_BOOT_FAILED));
        site.wait_for_log(reason);
        site.spawn();
        assert_eq!(site.hear_exit(), Status::Code(EXIT_BOOT_FAILED));
    }
    let site = Site::start(&[], &[("mode", "worker"), ("script", "%root%/none.php")], 1);
    assert_eq!(site.hear_exit(), Status::Code(EXIT_BOOT_FAILED));
}

#[test]
fn a_loop_that_ends_is_started_again() {
    let mut site = Site::worker(
        "<?php for ($n = 0; $n < 2 && tokamak_handle_request(function () use (&$n) { echo $n; }); \
            $n++) {}",
        &[],
    );
    let texts: Vec<_> = (0..5).map(|_| site.get("/a").text()).collect();
    assert_eq!(texts.join(""), "01010");
}

#[test]
fn finish_request_and_code_after_the_response() {
    let mut site = Site::worker(
        "<?php while (tokamak_handle_request(function () { echo 'seen'; tokamak_finish_request(); \
            echo 'dropped';
             while (!file_exists(__DIR__ . '/go')) { usleep(1000); clearstatcache(); }
             file_put_contents(__DIR__ . '/after' . $_SERVER['QUERY_STRING'], \
             file_get_contents('php://input') . $_SERVER['REQUEST_URI']); })) {}",
        &[],
    );
    let response = site.ask(post("/a?1", "text/plain", b"body"));
    assert_eq!((response.text().as_str(), response.outcome), ("seen", Some(Outcome::Complete)));
    fs::write(site.file("go"), "").unwrap();
    assert_eq!(site.get("/b?2").text(), "seen");
    assert_eq!(fs::read_to_string(site.file("after1")).unwrap(), "body/a?1");
}

#[test]
fn uploads_and_bodies_leave_nothing_behind() {
    let mut site = handler(
        &[
            (
                "up.php",
                "<?php global $kept; $kept = fopen('php://input', 'r'); echo \
                    $_FILES['f']['name'], filesize($_FILES['f']['tmp_name']); \
                    file_put_contents(__DIR__ . '/name', $_FILES['f']['tmp_name']);",
            ),
            (
                "raw.php",
                "<?php global $kept; echo is_resource($kept) ? 'open' : 'closed', \
                    strlen(file_get_contents('php://input')), count(get_resources('stream')) < 5 \
                    ? 'few' : 'many';",
            ),
        ],
        &[],
    );
    let body = "--B\r\nContent-Disposition: form-data; name=\"f\"; \
        filename=\"x\"\r\n\r\nhello\r\n--B--\r\n";
    for _ in 0..3 {
        assert_eq!(
            site.ask(post("/up.php", "multipart/form-data; boundary=B", body.as_bytes())).text(),
            "x5"
        );
        // Cleaning comes after the response, and before the next request.
        assert_eq!(site.get("/raw.php").text(), "closed0few");
        assert!(!std::path::Path::new(&fs::read_to_string(site.file("name")).unwrap()).exists());
    }
    for _ in 0..10 {
        let body = vec![b'x'; 100_000];
        assert_eq!(site.ask(post("/raw.php", "application/json", &body)).text(), "closed100000few");
    }
}

#[test]
fn an_aborted_client_does_not_end_the_script() {
    let mut site = handler(
        &[
            (
                "a.php",
                "<?php while (!connection_aborted()) { echo 'x'; flush(); usleep(1000); } global \
                    $n; $n = 'went on';",
            ),
            ("b.php", "<?php global $n; echo $n, connection_status();"),
        ],
        &[("ini.output_buffering", "0")],
    );
    let handed = site.submit(&get("/a.php"));
    site.collect(handed, &[], |r| !r.body.is_empty());
    site.producer.abort(handed.0);
    site.collect(handed, &[], |_| false);
    assert_eq!(site.get("/b.php").text(), "went on0");
}

#[test]
fn handle_request_cannot_be_nested() {
    let mut site = handler(
        &[(
            "a.php",
            "<?php try { tokamak_handle_request(fn() => 1); } catch (RuntimeException $e) { echo \
                'refused'; }",
        )],
        &[],
    );
    assert_eq!(site.get("/a.php").text(), "refused");
    assert_eq!(site.get("/a.php").text(), "refused");
}

#[test]
fn a_closed_connection_of_an_idle_worker_replaces_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let script = format!(
        "<?php $c = stream_socket_client('tcp://127.0.0.1:{port}');
         while (tokamak_handle_request(function () use ($c) {{ fwrite($c, 'q'); echo fread($c, \
         1); }})) {{}}"
    );
    let mut site = Site::worker(&script, &[]);
    let (mut peer, _) = listener.accept().unwrap();
    let handed = site.submit(&get("/a"));
    let mut byte = [0];
    peer.read_exact(&mut byte).unwrap();
    peer.write_all(b"r").unwrap();
    assert_eq!(site.collect(handed, &[], |_| false).text(), "r");
    drop(peer);
    std::thread::sleep(Duration::from_millis(50));

    let handed = site.submit(&get("/b"));
    assert_eq!(site.hear_exit(), Status::Code(EXIT_STALE));
    site.wait_for_log("a connection of the application was closed by its peer");
    site.spawn();
    let (mut peer, _) = listener.accept().unwrap();
    peer.read_exact(&mut byte).unwrap();
    peer.write_all(b"s").unwrap();
    assert_eq!(site.collect(handed, &[], |_| false).text(), "s", "the request was not lost");
}

#[test]
fn a_retired_worker_leaves_at_once() {
    let mut site = Site::worker(
        "<?php while (tokamak_handle_request(function () { echo 'x'; })) {} \
            file_put_contents(__DIR__ . '/left', '1');",
        &[],
    );
    assert_eq!(site.get("/a").text(), "x");
    // Otherwise it would wait for a request for ever.
    site.producer.segment().retire(0);
    assert_eq!(site.hear_exit(), Status::Code(0));
    assert!(site.file("left").exists());
}

#[test]
fn memory_does_not_grow() {
    let mut site = handler(
        &[
            (
                "a.php",
                "<?php session_start(); ini_set('precision', '3'); header('X-A: 1'); \
                    set_error_handler(fn() => true); ob_start(); echo \
                    strlen(file_get_contents('php://input')), ' ', $_COOKIE['b'] ?? '';",
            ),
            ("m.php", "<?php echo memory_get_usage();"),
        ],
        &[],
    );
    let ask = || {
        post("/a.php", "text/plain", b"hello")
            .header("Cookie", "a=1")
            .header("Cookie", "b=2")
            .header("Authorization", "Basic dXNlcjpwYTpzcw==")
    };
    for _ in 0..20 {
        assert_eq!(site.ask(ask()).text(), "5 2");
    }
    let before: i64 = site.get("/m.php").text().parse().unwrap();
    for _ in 0..200 {
        site.ask(ask());
    }
    let after: i64 = site.get("/m.php").text().parse().unwrap();
    assert!(after - before < 20_000, "{before} bytes became {after}");
}

#[test]
fn opcache_restarts_although_a_worker_script_never_ends() {
    let settings = [
        ("mode", "worker"),
        ("script", "%root%/worker.php"),
        ("ini.opcache.file_update_protection", "0"),
        ("ini.opcache.force_restart_timeout", "3600"),
    ];
    let files = [
        ("worker.php", INCLUDE),
        ("reset.php", "<?php echo (int) opcache_reset();"),
        (
            "count.php",
            "<?php $s = opcache_get_status(false); echo $s['opcache_statistics']['manual_restarts'];",
        ),
    ];
    let mut site = Site::start(&files, &settings, 2);
    assert_eq!(site.get("/reset.php").text(), "1");
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let handed: Vec<_> = (0..8).map(|_| site.submit(&get("/count.php"))).collect();
        let texts: Vec<_> =
            handed.into_iter().map(|one| site.collect(one, &[], |_| false).text()).collect();
        if texts.iter().all(|text| text == "1") {
            break;
        }
        assert!(Instant::now() < until, "{texts:?}\n{}", site.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What `SessionHandler` hands on to is the handler that `php.ini` names, in every request.
#[test]
fn a_request_may_extend_phps_session_handler_although_the_boot_has_its_own() {
    let script = "<?php
        class Own implements SessionHandlerInterface {
            function open($path, $name): bool { return true; }
            function close(): bool { return true; }
            function read($id): string { return ''; }
            function write($id, $data): bool { return true; }
            function destroy($id): bool { return true; }
            function gc($seconds): int { return 0; }
        }
        class Extended extends SessionHandler {}
        session_set_save_handler(new Own);
        while (tokamak_handle_request(function () {
            session_set_save_handler(new Extended);
            session_start();
            echo $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
        }));";
    let mut site = Site::worker(script, &[("ini.session.save_path", "%root%")]);
    for n in ["1", "2", "3"] {
        let ask = get("/").header("Cookie", "PHPSESSID=0123456789abcdef01234567");
        assert_eq!(site.ask(ask).text(), n, "{}", site.log());
    }
    assert_eq!(site.log(), "");
}

/// A script that counts them, to know when the collector runs, counts on from nothing.
#[test]
fn a_sealed_request_begins_without_possible_roots_of_garbage() {
    if !can_be_sealed() {
        return;
    }
    let files = [("a.php", "<?php echo gc_status()['roots'];"), ("boot.php", "<?php")];
    let settings = [("mode", "sealed"), ("boot", "%root%/boot.php")];
    let mut site = Site::start(&files, &settings, 1);
    let classic = Site::classic(&files).get("/a.php").text();
    for _ in 0..2 {
        assert_eq!(site.get("/a.php?a=b").text(), classic);
    }
}

/// What the boot has written is there once, what a request writes arrives at its end, and what
/// writes to memory is left alone.
#[test]
fn an_xml_writer_of_the_boot_hands_on_what_a_sealed_request_writes() {
    if !can_be_sealed() {
        return;
    }
    let script = r#"<?php
        class Own extends XMLWriter { function flush($empty = true): string|int { exit('no'); } }
        $file = new Own; $file->openUri(__DIR__ . '/out.xml'); $file->writeRaw('<boot/>');
        $memory = new XMLWriter; $memory->openMemory(); $memory->writeRaw('<boot/>');
        $closed = new XMLWriter;
        while (tokamak_handle_request(function () use ($file, $memory) {
            $file->writeElement('a', $_GET['n']);
            $memory->writeElement('a', $_GET['n']);
            if ($_GET['n'] == 2) unset($GLOBALS['closed']);
            echo $memory->outputMemory();
        }));"#;
    let settings = [("mode", "sealed"), ("script", "%root%/worker.php")];
    let mut site = Site::start(&[("worker.php", script)], &settings, 1);
    for n in 1..=3 {
        let expected = format!("<boot/><a>{n}</a>");
        assert_eq!(site.get(&format!("/?n={n}")).text(), expected, "{}", site.log());
        let arrived = || std::fs::read_to_string(site.file("out.xml")).unwrap();
        let late = Instant::now() + Duration::from_secs(30);
        while arrived() != expected && Instant::now() < late {
            std::thread::sleep(Duration::from_millis(10)); // the response comes first
        }
        assert_eq!(arrived(), expected);
    }
    assert_eq!(site.log(), "");
}
