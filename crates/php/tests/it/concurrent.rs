//! Async mode: many requests in one worker, each as if it were alone.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use tokamak_sys::control::Status;
use tokamak_sys::queue::Outcome;

use crate::harness::*;

/// A worker whose handler includes the file that the URL names.
pub const INCLUDE: &str = "<?php
while (tokamak_handle_request(function () { include __DIR__ . $_SERVER['SCRIPT_NAME']; })) {}";

pub fn site(files: &[(&str, &str)], settings: &[(&str, &str)]) -> Site {
    let mut all = vec![("mode", "async"), ("script", "%root%/worker.php"), ("concurrency", "32")];
    all.extend_from_slice(settings);
    let mut with_worker = vec![("worker.php", INCLUDE)];
    with_worker.extend_from_slice(files);
    Site::start(&with_worker, &all, 1)
}

pub fn texts(responses: &[Response]) -> Vec<String> {
    responses.iter().map(Response::text).collect()
}

#[test]
fn requests_that_overlap_leave_no_memory_behind() {
    let script = "<?php usleep(50000); echo memory_get_usage();";
    let mut site = site(&[("memory.php", script)], &[]);
    let crowd: Vec<_> = (0..20).map(|n| get(&format!("/memory.php?n={n}"))).collect();
    let mut left_by = |crowds: usize| -> usize {
        for _ in 0..crowds {
            site.ask_all(&crowd);
        }
        site.get("/memory.php?n=20").text().parse().unwrap()
    };
    let (few, many) = (left_by(2), left_by(20));
    // An array for each request would be 140 KiB, a Fiber that is made late is 17.
    assert!(many < few + 64 * 1024, "{few} bytes after 40 requests, {many} after 440");
}

#[test]
fn a_raised_memory_limit_holds_for_its_request_alone() {
    let worker = "<?php
$raised = $asked = false;
while (tokamak_handle_request(function () use (&$raised, &$asked) {
    if ($_GET['n'] === '0') {
        ini_set('memory_limit', '256M');
        $raised = true;
        while (!$asked) usleep(1000);
    } else {
        while (!$raised) usleep(1000);
        register_shutdown_function(function () use (&$asked) { $asked = true; });
    }
    echo strlen(str_repeat('x', 100 << 20));
})) {}";
    let settings = [("ini.memory_limit", "64M"), ("ini.display_errors", "0")];
    let mut site = site(&[("worker.php", worker)], &settings);
    let answers = site.ask_all(&[0, 1].map(|n| get(&format!("/?n={n}"))));
    assert_eq!(answers[0].text(), "104857600", "{}", site.log());
    assert_eq!((answers[1].status, answers[1].text().as_str()), (500, ""), "{}", site.log());
    site.wait_for_log("Allowed memory size of 67108864 bytes exhausted");
}

#[test]
fn requests_that_wait_wait_side_by_side() {
    let mut site = site(&[("sleep.php", "<?php usleep(500000); echo 'slept ', $_GET['n'];")], &[]);
    let asks: Vec<_> = (0..20).map(|n| get(&format!("/sleep.php?n={n}"))).collect();
    let begun = Instant::now();
    let answers = site.ask_all(&asks);
    let took = begun.elapsed();
    let expected: Vec<_> = (0..20).map(|n| format!("slept {n}")).collect();
    assert_eq!(texts(&answers), expected, "{}", site.log());
    // One after another they would take ten seconds.
    assert!(took < Duration::from_secs(9), "{took:?}");
    assert_eq!(site.log(), "");
}

/// $_SERVER and $_REQUEST are made when a script that names them is compiled. Here one request
/// compiles it while others, which have begun without them, wait; and then they call it, too.
#[test]
fn superglobals_that_are_named_late_are_there_for_those_who_have_begun() {
    let worker = "<?php
$begun = 0;
while (tokamak_handle_request(function () use (&$begun) {
    $begun++;
    while ($begun < 6) usleep(1000);
    if ($_GET['n'] === '0') include __DIR__ . '/names.php';
    while (!function_exists('tell')) usleep(1000);
    echo tell();
})) {}";
    let names = "<?php
function tell() { return $_SERVER['QUERY_STRING'] . ' ' . $_REQUEST['n']; }";
    let mut site = site(&[("worker.php", worker), ("names.php", names)], &[]);
    let asks: Vec<_> = (0..6).map(|n| get(&format!("/?n={n}"))).collect();
    let expected: Vec<_> = (0..6).map(|n| format!("n={n} {n}")).collect();
    assert_eq!(texts(&site.ask_all(&asks)), expected, "{}", site.log());
    assert_eq!(site.get("/?n=later").text(), "n=later later");
    assert_eq!(site.log(), "");
}

/// `filter_input()` reads memory of the extension's own; here and in classic mode alike.
#[test]
fn filter_input_sees_its_request_and_refuses_what_php_refuses() {
    let script = "<?php
usleep($_GET['n'] * 1000);
$wrong = static function (callable $call): string {
    try {
        return json_encode([$call(), error_get_last()['message'] ?? '']);
    } catch (TypeError $error) {
        return $error->getMessage();
    }
};
echo implode(\"\\n\", [
    filter_input(INPUT_GET, 'n', FILTER_VALIDATE_INT),
    filter_input(INPUT_COOKIE, 'n'),
    filter_input(INPUT_SERVER, 'QUERY_STRING'),
    filter_has_var(INPUT_SERVER, 'HTTP_COOKIE') ? 'has' : 'has not',
    $wrong(fn () => filter_input(INPUT_GET, 'n', FILTER_DEFAULT, new stdClass)),
    $wrong(fn () => filter_input_array(INPUT_POST, new stdClass)),
    $wrong(fn () => @filter_input(INPUT_GET, 'n', 1)),
    $wrong(fn () => @filter_input_array(INPUT_POST, 1)),
]);";
    let ask = |n: usize| get(&format!("/a.php?n={n}")).header("Cookie", &format!("n={n}"));
    let asks: Vec<_> = (0..9).map(ask).collect();
    let expected = texts(&Site::classic(&[("a.php", script)]).ask_all(&asks));
    assert!(expected[8].starts_with("8\n8\nn=8\nhas\nfilter_input(): "), "{expected:?}");
    let mut site = site(&[("a.php", script)], &[]);
    assert_eq!(texts(&site.ask_all(&asks)), expected, "{}", site.log());
}

/// zlib's handler keeps in the extension what the client accepts, and whether it compresses.
#[test]
fn a_response_is_compressed_for_whoever_accepts_it() {
    let script = "<?php
ini_set('zlib.output_compression', '0');
usleep(20000);
ob_start('ob_gzhandler');
usleep(20000);
echo 'text';
ob_flush();
usleep(20000);
echo ' and more';";
    let mut site = site(&[("a.php", script)], &[("ini.output_buffering", "0")]);
    let ask = |n: usize| match n % 2 {
        0 => get(&format!("/a.php?n={n}")),
        _ => get(&format!("/a.php?n={n}")).header("Accept-Encoding", "gzip"),
    };
    let asks: Vec<_> = (0..10).map(ask).collect();
    for _ in 0..3 {
        for (n, answer) in site.ask_all(&asks).iter().enumerate() {
            let encoding = if n % 2 == 0 { "" } else { "gzip" };
            assert_eq!(answer.header("Content-Encoding"), encoding, "{n}: {answer:?}");
            assert_eq!(answer.body == b"text and more", n % 2 == 0, "{n}: {answer:?}");
        }
    }
    assert_eq!(site.log(), "");
}

/// PHP marks all objects at a fatal error, so that no destructor is called any more.
#[test]
fn destructors_of_others_are_called_after_a_fatal_error() {
    let worker = "<?php
class Opened {
    public function __destruct() { echo 'closed'; }
}
$waiting = 0;
$is_over = false;
while (tokamak_handle_request(function () use (&$waiting, &$is_over) {
    if ($_SERVER['SCRIPT_NAME'] === '/fatal.php') {
        $left = new Opened;
        while ($waiting < 3) usleep(1000);
        $is_over = true;
        trigger_error('dead', E_USER_ERROR);
    }
    $opened = new Opened;
    $fiber = new Fiber(function () {
        try {
            Fiber::suspend();
        } finally {
            echo 'unwound, ';
        }
    });
    $fiber->start();
    $waiting++;
    while (!$is_over) usleep(1000);
    unset($fiber, $opened);
    echo ' in time';
})) {}";
    let settings = [("ini.display_errors", "0")];
    let mut site = site(&[("worker.php", worker)], &settings);
    let asks = ["wait", "fatal", "wait", "wait"].map(|name| get(&format!("/{name}.php")));
    let closed = "unwound, closed in time";
    assert_eq!(texts(&site.ask_all(&asks)), [closed, "", closed, closed], "{}", site.log());
    assert_eq!(site.hear_exit(), Status::Code(0), "{}", site.log());
    assert!(!site.log().contains("output of the worker script"), "{}", site.log());
}

/// PHP keeps it as one that was changed, without a value.
#[test]
fn a_setting_that_php_refuses_stays_what_it_was() {
    let script = "<?php
echo @ini_set('fiber.stack_size', '-1') === false ? 'refused, ' : 'taken, ';
usleep(1000);
$fiber = new Fiber(fn () => print('runs'));
$fiber->start();";
    let mut site = site(&[("a.php", script)], &[]);
    let asks: Vec<_> = (0..4).map(|n| get(&format!("/a.php?n={n}"))).collect();
    assert_eq!(texts(&site.ask_all(&asks)), ["refused, runs"; 4], "{}", site.log());
}

#[test]
fn a_worker_serves_one_request_after_another_and_ends() {
    let mut site = site(&[("a.php", "<?php echo $_GET['n'];")], &[("max_requests", "3")]);
    for n in 0..3 {
        assert_eq!(site.get(&format!("/a.php?n={n}")).text(), n.to_string());
    }
    assert_eq!(site.hear_exit(), Status::Code(0), "{}", site.log());
    assert_eq!(site.log(), "");
}

#[test]
fn an_error_ends_its_request_and_no_other() {
    let mut site = site(
        &[
            ("wait.php", "<?php usleep(200000); echo 'fine';"),
            ("throw.php", "<?php usleep(50000); throw new LogicException('no');"),
            ("exit.php", "<?php usleep(50000); echo 'left'; exit(3);"),
            (
                "fatal.php",
                "<?php usleep(50000); echo 'begun'; trigger_error('dead', E_USER_ERROR);",
            ),
        ],
        &[("ini.display_errors", "0"), ("ini.log_errors", "1")],
    );
    let asks = ["wait", "throw", "exit", "wait", "fatal"].map(|name| get(&format!("/{name}.php")));
    let answers = site.ask_all(&asks);
    let seen: Vec<_> = answers.iter().map(|a| (a.status, a.text())).collect();
    let expected = [(200, "fine"), (500, ""), (200, "left"), (200, "fine"), (500, "begun")];
    assert_eq!(seen, expected.map(|(status, text)| (status, text.to_owned())), "{}", site.log());
    assert!(answers.iter().all(|a| a.outcome == Some(Outcome::Complete)));
    assert_eq!(site.hear_exit(), Status::Code(0), "{}", site.log());
    site.wait_for_log("dead");
    site.wait_for_log("takes no more requests");
}

#[test]
fn a_response_larger_than_its_ring_lets_others_run() {
    let mut site = site(
        &[
            ("large.php", "<?php for ($i = 0; $i < 100; $i++) echo str_repeat('x', 10000);"),
            ("small.php", "<?php echo 'small';"),
        ],
        &[],
    );
    let large = site.submit(&get("/large.php"));
    let small = site.submit(&get("/small.php"));
    assert_eq!(site.collect(small, b"", |_| false).text(), "small");
    assert_eq!(site.collect(large, b"", |_| false).body.len(), 1_000_000);
}

#[test]
fn a_body_that_comes_slowly_lets_others_run() {
    let mut site = site(
        &[
            ("read.php", "<?php echo strlen(file_get_contents('php://input'));"),
            ("small.php", "<?php echo 'small';"),
        ],
        &[],
    );
    let body = vec![b'x'; 300_000];
    let slow = site.submit(&post("/read.php", "text/plain", &body));
    assert_eq!(site.get("/small.php").text(), "small");
    assert_eq!(site.collect(slow, &body, |_| false).text(), "300000");
}

/// An HTTP server that answers when so many requests have come, and not before: who waits for one
/// after another waits for ever. Its port.
pub fn answers_together(count: usize) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let all_there = Arc::new(Barrier::new(count));
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let all_there = all_there.clone();
            std::thread::spawn(move || answer(client, &all_there));
        }
    });
    port
}

/// Answers with the path that was asked for.
fn answer(mut client: TcpStream, all_there: &Barrier) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && client.read(&mut byte).unwrap_or(0) > 0 {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let Some(path) = head.split(' ').nth(1) else { return };
    all_there.wait();
    let response = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{path}",
        path.len()
    );
    let _ = client.write_all(response.as_bytes());
}

/// Ways to ask an HTTP server, by name.
const CLIENTS: &[(&str, &str)] = &[
    ("stream", "echo file_get_contents($url);"),
    ("stream by name", "echo file_get_contents(str_replace('127.0.0.1', 'localhost', $url));"),
    (
        "fsockopen",
        "$s = fsockopen('127.0.0.1', $port); fwrite($s, \"GET $path HTTP/1.0\\r\\n\\r\\n\");
         echo explode(\"\\r\\n\\r\\n\", stream_get_contents($s))[1];",
    ),
    (
        "stream_select",
        "$s = stream_socket_client(\"tcp://127.0.0.1:$port\");
         fwrite($s, \"GET $path HTTP/1.0\\r\\n\\r\\n\"); stream_set_blocking($s, false);
         for ($all = ''; !feof($s); $all .= fread($s, 100)) {
             $r = [$s]; $w = $e = null; stream_select($r, $w, $e, 50);
         }
         echo explode(\"\\r\\n\\r\\n\", $all)[1];",
    ),
    (
        "curl",
        "$c = curl_init($url); curl_setopt($c, CURLOPT_RETURNTRANSFER, true);
         echo curl_exec($c), curl_error($c);",
    ),
    (
        "curl by name",
        "$c = curl_init(str_replace('127.0.0.1', 'localhost', $url));
         curl_setopt($c, CURLOPT_RETURNTRANSFER, true);
         curl_setopt($c, CURLOPT_IPRESOLVE, CURL_IPRESOLVE_V4);
         echo curl_exec($c), curl_error($c);",
    ),
    (
        "curl_multi",
        "$m = curl_multi_init(); $c = curl_init($url);
         curl_setopt($c, CURLOPT_RETURNTRANSFER, true); curl_multi_add_handle($m, $c);
         do { curl_multi_exec($m, $on); if ($on) curl_multi_select($m, 50); } while ($on);
         echo curl_multi_getcontent($c);",
    ),
    (
        "sockets",
        "$s = socket_create(AF_INET, SOCK_STREAM, 0); socket_connect($s, '127.0.0.1', $port);
         socket_write($s, \"GET $path HTTP/1.0\\r\\n\\r\\n\");
         for ($all = ''; ($part = socket_read($s, 100)) != ''; $all .= $part);
         echo explode(\"\\r\\n\\r\\n\", $all)[1];",
    ),
    (
        "program",
        "$ask = \"exec 3<>/dev/tcp/127.0.0.1/$port; printf 'GET $path HTTP/1.0\\\\r\\\\n\\\\r\\\\n' >&3;
             sed '1,/^.$/d' <&3\";
         echo shell_exec('bash -c ' . escapeshellarg($ask));",
    ),
    (
        "Fiber",
        "$f = new Fiber(function () use ($url) {
             $mine = Fiber::suspend('asked'); return $mine . file_get_contents($url);
         });
         $f->start(); $f->resume(''); echo $f->getReturn();",
    ),
    (
        "generator",
        "$g = (function () use ($url) { yield file_get_contents($url); })();
         foreach ($g as $v) echo $v;",
    ),
    (
        "output buffer",
        "ob_start(); echo file_get_contents($url); $all = ob_get_clean(); echo $all;",
    ),
    (
        "destructor",
        "$o = new class($url) { function __construct(public $url) {}
             function __destruct() { echo file_get_contents($this->url); } };
         unset($o);",
    ),
    (
        "shutdown function",
        "register_shutdown_function(function () use ($url) { echo file_get_contents($url); });",
    ),
    (
        "lock of another",
        "$f = fopen(__DIR__ . '/lock' . ($n % 2), 'c');
         if ($n > 2) { echo file_get_contents($url); }
         else { flock($f, LOCK_EX); echo file_get_contents($url); flock($f, LOCK_UN); }",
    ),
];

#[test]
fn clients_of_all_kinds_wait_side_by_side() {
    const COUNT: usize = 5;
    for seed in ["0", "7"] {
        let mut files = vec![("worker.php".to_owned(), INCLUDE.to_owned())];
        for (i, (_, code)) in CLIENTS.iter().enumerate() {
            let begin = "<?php $n = (int) $_GET['n']; $port = $_GET['port']; $path = \"/n$n\";
                $url = \"http://127.0.0.1:$port$path\";";
            files.push((format!("client{i}.php"), format!("{begin}\n{code}")));
        }
        let files: Vec<_> = files.iter().map(|(n, c)| (n.as_str(), c.as_str())).collect();
        let mut site = site(&files[1..], &[("seed", seed)]);
        for (i, (name, _)) in CLIENTS.iter().enumerate() {
            let port = answers_together(COUNT);
            let asks: Vec<_> =
                (1..=COUNT).map(|n| get(&format!("/client{i}.php?n={n}&port={port}"))).collect();
            let answers = texts(&site.ask_all(&asks));
            let expected: Vec<_> = (1..=COUNT).map(|n| format!("/n{n}")).collect();
            assert_eq!(answers, expected, "{name}, seed {seed}\n{}", site.log());
        }
        assert_eq!(site.log(), "");
    }
}

/// phpredis looks whether its server is still there before it waits for an answer. That look is
/// left out, so it is the wait that has to notice.
#[test]
fn a_server_that_goes_instead_of_answering_is_noticed() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let script = "<?php
$redis = new Redis();
$redis->connect('127.0.0.1', %port%, 60);
try { var_dump($redis->get('key')); } catch (RedisException) { echo 'noticed'; }";
    let script = script.replace("%port%", &listener.local_addr().unwrap().port().to_string());
    let begun = Instant::now();
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            // Reads the question, and closes.
            let _ = client.read(&mut [0; 100]);
        }
    });
    for seed in ["0", "7"] {
        let mut site = site(&[("redis.php", &script)], &[("seed", seed)]);
        assert_eq!(site.get("/redis.php").text(), "noticed", "seed {seed}: {}", site.log());
    }
    // And not by PHP's time limit of a minute.
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn requests_of_one_session_take_turns_and_never_stop_the_worker() {
    let mut site = site(
        &[(
            "session.php",
            "<?php session_start(); $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; usleep(2000);
             echo $_SESSION['n'];",
        )],
        &[("seed", "3"), ("ini.session.save_path", "%root%")],
    );
    let asks: Vec<_> = (0..10)
        .map(|_| get("/session.php").header("Cookie", "PHPSESSID=abcdefghijklmnopqrstuvwxyz"))
        .collect();
    let mut counts: Vec<u32> =
        texts(&site.ask_all(&asks)).iter().map(|text| text.parse().unwrap()).collect();
    counts.sort_unstable();
    assert_eq!(counts, (1..=10).collect::<Vec<_>>(), "{}", site.log());
    assert_eq!(site.log(), "");
}

/// What a handler may do with Fibers of its own, and with the request's.
const FIBERS: &[(&str, &str, &str)] = &[
    (
        "exit in a Fiber of the application",
        "(new Fiber(function () { usleep(1000); echo 'left'; exit; }))->start(); echo 'not';",
        "left",
    ),
    (
        "exception through a Fiber",
        "try { (new Fiber(function () { usleep(1000); throw new Exception('caught'); }))->start(); }
         catch (Exception $e) { usleep(1000); echo $e->getMessage(); }",
        "caught",
    ),
    (
        "wait while an exception is on its way",
        "try { try { throw new Exception('e'); } finally { usleep(1000); echo 'finally '; } }
         catch (Exception $e) { usleep(1000); echo $e->getMessage(); }",
        "finally e",
    ),
    (
        "Fiber that is left behind",
        "$f = new Fiber(function () { try { usleep(1000); Fiber::suspend(); echo 'no'; }
             finally { echo ' ended'; } }); $f->start(); echo 'begun'; unset($f);",
        "begun ended",
    ),
    ("the request runs in a Fiber", "echo get_class(Fiber::getCurrent());", "Fiber"),
    (
        "backtrace after a wait",
        // PHP 8.4 says in the name of a closure where it is.
        "usleep(1000); $t = (new Exception)->getTrace();
         echo preg_replace('/:[^}]*}/', '}', implode(' ', array_column($t, 'function')));",
        "include {closure} tokamak_handle_request",
    ),
    (
        "cycles are collected between waits",
        "for ($i = 0; $i < 5; $i++) { $a = new stdClass; $a->a = $a; $a->b = range(1, 9); usleep(1);
             unset($a); gc_collect_cycles(); } $b = new stdClass; $b->b = $b; usleep(1);
         gc_collect_cycles(); echo get_class($b->b);",
        "stdClass",
    ),
    (
        "comparison that waits",
        "$a = [3, 1, 2]; usort($a, function ($x, $y) { usleep(10); return $x <=> $y; });
         echo implode($a);",
        "123",
    ),
    (
        "class that is loaded by an autoloader that waits",
        "spl_autoload_register(function ($c) { usleep(1000); eval(\"class $c {}\"); });
         $c = \"C{$_GET['n']}\"; echo get_class(new $c) === $c ? 'loaded' : 'not';",
        "loaded",
    ),
    (
        "output callback that waits",
        "ob_start(function ($s) { usleep(1000); return strtoupper($s); }); echo 'a'; ob_end_flush();",
        "A",
    ),
    (
        "response that is finished early",
        "echo 'done'; fastcgi_finish_request(); usleep(1000); echo 'late';",
        "done",
    ),
];

#[test]
fn handlers_may_use_fibers() {
    for seed in ["0", "99"] {
        let names: Vec<_> = (0..FIBERS.len()).map(|i| format!("f{i}.php")).collect();
        let codes: Vec<_> = FIBERS.iter().map(|(_, code, _)| format!("<?php {code}")).collect();
        let files: Vec<_> =
            names.iter().zip(&codes).map(|(n, c)| (n.as_str(), c.as_str())).collect();
        let mut site = site(&files, &[("seed", seed)]);
        // All kinds at once, several of each.
        let asks: Vec<_> = (0..3 * FIBERS.len())
            .map(|n| get(&format!("/f{}.php?n={n}", n % FIBERS.len())))
            .collect();
        let answers = texts(&site.ask_all(&asks));
        for (n, answer) in answers.iter().enumerate() {
            let (name, _, expected) = FIBERS[n % FIBERS.len()];
            assert_eq!(answer, expected, "{name}, seed {seed}\n{}", site.log());
        }
        assert_eq!(site.log(), "");
    }
}

#[test]
fn a_fatal_error_in_a_fiber_of_the_application_ends_its_request_alone() {
    let mut site = site(
        &[
            ("wait.php", "<?php usleep(100000); echo 'fine';"),
            (
                "fatal.php",
                "<?php (new Fiber(function () { usleep(1000); trigger_error('x', E_USER_ERROR); }))
                    ->start();",
            ),
        ],
        &[("ini.display_errors", "0"), ("ini.log_errors", "1")],
    );
    let answers = site.ask_all(&["wait", "fatal", "wait"].map(|name| get(&format!("/{name}.php"))));
    let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200, 500, 200], "{}", site.log());
    assert_eq!(texts(&answers), ["fine", "", "fine"]);
    assert_eq!(site.hear_exit(), Status::Code(0), "{}", site.log());
}

#[test]
fn a_client_that_goes_away_ends_its_response_alone() {
    let mut site = site(
        &[
            (
                "long.php",
                "<?php register_shutdown_function(function () {
                     file_put_contents(__DIR__ . '/status', connection_status()); });
                 for ($i = 0; $i < 1000; $i++) { echo str_repeat('x', 10000); usleep(10); }",
            ),
            ("small.php", "<?php echo 'small';"),
        ],
        &[],
    );
    let (id, fed) = site.submit(&get("/long.php"));
    site.collect((id, fed), b"", |response| !response.body.is_empty());
    site.producer.abort(id);
    assert_eq!(site.get("/small.php").text(), "small");
    let until = Instant::now() + Duration::from_secs(30);
    let mut status = String::new();
    while status.is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
        status = std::fs::read_to_string(site.file("status")).unwrap_or_default();
    }
    assert_eq!(status, "1", "{}", site.log());
}
