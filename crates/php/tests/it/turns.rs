//! Async mode: where in PHP a request that waits lets others run, and where it holds them. What
//! holds them is counted.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

use crate::concurrent::{site, texts};
use crate::harness::*;

/// Request 2 counts its turns until request 1 is done. Request 1 waits in a place of PHP, by
/// `waits()`, and says whether request 2 had turns meanwhile.
const BEGIN: &str = r"<?php
if ($_GET['n'] === '2') {
    for ($GLOBALS['turns'] = 0; !isset($GLOBALS['is_done']); $GLOBALS['turns']++) {
        usleep(100);
    }
    return;
}
while (($GLOBALS['turns'] ?? 0) < 2) {
    usleep(100);
}
$GLOBALS['seen'] = 'did not wait';
$waits = static function (): void {
    $before = $GLOBALS['turns'];
    usleep(5000);
    $GLOBALS['seen'] = $GLOBALS['turns'] === $before ? 'held' : 'went on';
};
// After whatever else the request does at its end.
register_shutdown_function('register_shutdown_function', static function (): void {
    echo $GLOBALS['seen'];
    $GLOBALS['is_done'] = true;
});
";

/// Others would see a class that is half loaded, memory that is half collected, and the like.
const HELD: &[(&str, &str)] = &[
    (
        "autoloader",
        "spl_autoload_register(function ($class) use ($waits) {
             $waits(); eval(\"class $class {}\"); });
         new Wanted;",
    ),
    (
        "autoloader, called by unserialize()",
        "spl_autoload_register(function ($class) use ($waits) { $waits(); });
         unserialize('O:6:\"Nobody\":0:{}');",
    ),
    (
        "callback of an output buffer",
        "ob_start(function ($text) use ($waits) { $waits(); return $text; }); echo ' ';
         ob_end_clean();",
    ),
    (
        "destructor of a cycle that is collected",
        "$o = new class($waits) { public $self; function __construct(public $waits) {}
             function __destruct() { ($this->waits)(); } };
         $o->self = $o; unset($o); gc_collect_cycles();",
    ),
    (
        "error handler that the compiler calls",
        "set_error_handler(function () use ($waits) { $waits(); return true; });
         eval('function f($a = 1, $b) {}');",
    ),
    (
        "program that ends while an exception is on its way",
        "try { (function () {
             $before = $GLOBALS['turns'];
             $p = popen('sleep 0.02', 'r');
             $GLOBALS['after'] = new class($before) { function __construct(public $before) {}
                 function __destruct() { $GLOBALS['seen'] =
                     $GLOBALS['turns'] === $this->before ? 'held' : 'went on'; } };
             throw new Exception;
         })(); } catch (Exception) {} unset($GLOBALS['after']);",
    ),
];

const LETS_OTHERS_RUN: &[(&str, &str)] = &[
    ("function", "$waits();"),
    (
        "foreach over a generator",
        "foreach ((function () use ($waits) { $waits(); yield 1; })() as $x);",
    ),
    (
        "generator in a generator",
        "$inner = function () use ($waits) { yield 1; $waits(); };
         foreach ((function () use ($inner) { yield from $inner(); })() as $x);",
    ),
    ("Fiber within foreach", "foreach ([1, 2] as $x) { (new Fiber($waits))->start(); }"),
    (
        "Fiber in a Fiber",
        "(new Fiber(function () use ($waits) { (new Fiber($waits))->start(); }))->start();",
    ),
    (
        "generator that a Fiber runs",
        "$g = (function () use ($waits) { $waits(); yield 1; })();
         (new Fiber(fn() => $g->current()))->start();",
    ),
    (
        "foreach over an iterator",
        "foreach (new class($waits) implements IteratorAggregate {
             function __construct(public $waits) {}
             function getIterator(): Iterator { ($this->waits)(); return new ArrayIterator([1]); }
         } as $x);",
    ),
    (
        "destructor",
        "$o = new class($waits) { function __construct(public $waits) {}
             function __destruct() { ($this->waits)(); } }; unset($o);",
    ),
    (
        "destructor while an exception is on its way",
        "try { (function () use ($waits) {
             $o = new class($waits) { function __construct(public $waits) {}
                 function __destruct() { ($this->waits)(); } };
             throw new Exception; })(); } catch (Exception) {}",
    ),
    ("finally", "try { throw new Exception; } catch (Exception) {} finally { $waits(); }"),
    (
        "error handler",
        "set_error_handler(function () use ($waits) { $waits(); return true; }); echo $undefined;",
    ),
    ("exception handler", "set_exception_handler(fn() => $waits()); throw new Exception;"),
    ("shutdown function", "register_shutdown_function($waits); exit;"),
    (
        "comparison",
        "$a = [2, 1]; usort($a, function ($x, $y) use ($waits) { $waits(); return 0; });",
    ),
    (
        "string of an object",
        "echo new class($waits) { function __construct(public $waits) {}
             function __toString(): string { ($this->waits)(); return ''; } };",
    ),
    (
        "hook of a property, which PHP has since 8.4",
        "PHP_VERSION_ID < 80400 ? $waits() : eval('
             $o = new class($waits) { function __construct(public $waits) {}
                 public int $hooked { get { ($this->waits)(); return 1; } } };
             $o->hooked;');",
    ),
    (
        "set-up of a lazy object, which PHP has since 8.4",
        "eval('class Lazy { public $set; }');
         PHP_VERSION_ID < 80400 ? $waits() : (new ReflectionClass('Lazy'))->newLazyGhost(
             function ($o) use ($waits) { $waits(); $o->set = 1; })->set;",
    ),
    ("tick function", "register_tick_function($waits); declare(ticks=1) { $x = 1; }"),
    ("coroutine", "Tokamak\\all([$waits]);"),
];

fn answers(rows: &[(&str, &str)], expected: &str, each_is_counted: bool) {
    let files: Vec<_> = (0..rows.len()).map(|at| format!("place{at}.php")).collect();
    let codes: Vec<_> = rows.iter().map(|(_, code)| format!("{BEGIN}{code}")).collect();
    let files: Vec<_> = files.iter().zip(&codes).map(|(n, c)| (n.as_str(), c.as_str())).collect();
    // Each in a worker of its own, whose count begins at none.
    for (at, (name, _)) in rows.iter().enumerate() {
        let settings = [("ini.opcache.file_update_protection", "0")];
        let mut site = site(&files[at..=at], &settings);
        let target = |n| get(&format!("/place{at}.php?n={n}"));
        let seen = texts(&site.ask_all(&[target(1), target(2)]));
        assert_eq!(seen[0].trim(), expected, "{name}\n{}", site.log());
        let held = site.producer.segment().board(0).held;
        assert_eq!(held > 0, each_is_counted, "{name}: held {held} times");
        assert_eq!(site.log(), "", "{name}");
    }
}

#[test]
fn blocking_places_hold_the_worker_and_are_counted() {
    answers(HELD, "held", true);
}

#[test]
fn a_wait_anywhere_else_lets_others_run() {
    answers(LETS_OTHERS_RUN, "went on", false);
}

/// Redis that hangs: it knows a session, and answers nothing once that is stored.
fn hanging_redis() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            kept.push(stream.try_clone().unwrap());
            std::thread::spawn(move || {
                let mut bytes = [0; 1024];
                while let Ok(length @ 1..) = stream.read(&mut bytes) {
                    let asked = String::from_utf8_lossy(&bytes[..length]);
                    let answer = match asked.split("\r\n").nth(2) {
                        Some("SET") => "+OK\r\n",
                        Some("GET") if !asked.contains("_LOCK") => "$6\r\nn|i:1;\r\n",
                        _ => return,
                    };
                    stream.write_all(answer.as_bytes()).unwrap();
                }
            });
        }
    });
    address
}

/// phpredis throws when Redis does not answer, and asks it for the lock's release all the same.
/// Each of both takes a second, in which the other request has no turn if the wait holds it.
#[test]
fn what_waits_after_its_own_exception_lets_others_run() {
    let path = format!("tcp://{}?timeout=1&read_timeout=1", hanging_redis());
    let code = "<?php
        if ($_GET['n'] === '2') {
            $GLOBALS['longest'] = 0;
            for ($last = hrtime(true); !isset($GLOBALS['is_done']); $last = $now) {
                usleep(100);
                $now = hrtime(true);
                $GLOBALS['longest'] = max($GLOBALS['longest'], $now - $last);
            }
            return;
        }
        while (!isset($GLOBALS['longest'])) {
            usleep(100);
        }
        session_start();
        $_SESSION['n']++;
        try {
            session_write_close();
            echo 'stored';
        } catch (RedisException) {
            usleep(1000);
            echo $GLOBALS['longest'] < 900_000_000 ? 'went on' : 'held';
        }
        $GLOBALS['is_done'] = true;";
    let settings = [
        ("ini.session.save_handler", "redis"),
        ("ini.session.save_path", &path),
        ("ini.redis.session.locking_enabled", "1"),
    ];
    let mut site = site(&[("session.php", code)], &settings);
    let target =
        |n| get(&format!("/session.php?n={n}")).header("Cookie", &format!("PHPSESSID=of{n}"));
    let seen = texts(&site.ask_all(&[target(1), target(2)]));
    assert_eq!(seen[0].trim(), "went on", "{}", site.log());
}

/// The script has printed something, so zlib would refuse to change its setting, with a warning.
/// The requests have a level of their own by which it would be heard, in the middle of a response.
#[test]
fn settings_that_change_with_each_turn_say_nothing() {
    let worker = "<?php
        echo 'printed at boot';
        flush();
        while (tokamak_handle_request(function () {
            ini_set('error_reporting', '6143');
            ini_set('zlib.output_compression', $_GET['n'] % 2 ? '1' : 'Off');
            for ($turn = 0; $turn < 3; $turn++) {
                usleep(1000);
                echo $_GET['n'];
            }
        })) {}";
    let settings = [("ini.display_errors", "1"), ("ini.output_buffering", "0")];
    let mut site = site(&[("worker.php", worker)], &settings);
    let ask = |n: usize| get(&format!("/?n={n}")).header("Accept-Encoding", "gzip");
    for _ in 0..3 {
        for (n, response) in site.ask_all(&[0, 1, 2, 3].map(ask)).iter().enumerate() {
            let encoding = response.header("Content-Encoding");
            if n % 2 == 1 {
                assert_eq!(encoding, "gzip", "{response:?}");
            } else {
                assert_eq!((response.text(), encoding), (n.to_string().repeat(3), String::new()));
            }
        }
    }
    assert!(!site.log().contains("Warning"), "{}", site.log());
}
