//! Connections and streams that two requests of async mode use at once: the second is told so, and
//! the first notices nothing.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use crate::harness::*;

/// What the requests of a worker share by mistake.
const WORKER: &str = r#"<?php
final class Shared
{
    public static array $all = [];
    public static bool $owner_waits = false;
    public static int $tried = 0;
}
while (tokamak_handle_request(function () {
    $port = (int) $_GET['port'];
    include __DIR__ . '/case.php';
})) {}
"#;

/// Each case is [make, what the owner waits in, what others try meanwhile]. The owner gets its
/// answer when the others have tried, because they let the server give it.
const CASES: &str = r#"<?php
$server = "127.0.0.1:$port";
$stream = [
    fn() => stream_socket_client("tcp://$server"),
    function ($s) { fwrite($s, "wait owner\n"); return fgets($s); },
    [
        'fgets' => fn($s) => fgets($s),
        'fwrite' => fn($s) => fwrite($s, "other\n"),
        'fclose' => fn($s) => fclose($s),
        'stream_get_contents' => fn($s) => stream_get_contents($s),
        'stream_copy_to_stream' => fn($s) => stream_copy_to_stream($s, fopen('php://memory', 'w')),
        'stream_socket_shutdown' => fn($s) => stream_socket_shutdown($s, STREAM_SHUT_RDWR),
        'by another function' => fn($s) => call_user_func('fread', $s, 1),
        'of all' => fn($s) => array_map('fclose', [$s]),
    ],
];
$locked = function (callable $open) {
    $lock = Shared::$all['lock'] = $open();
    $lock->exec('CREATE TABLE IF NOT EXISTS t (n)');
    $lock->exec('BEGIN EXCLUSIVE');
    return $open();
};
$read = "SELECT 'answer to owner' FROM (SELECT count(*) FROM t)";
$prepared = function (callable $open) use ($read) {
    $lock = Shared::$all['lock'] = $open();
    $lock->exec('CREATE TABLE IF NOT EXISTS t (n)');
    $database = $open();
    $statement = $database->prepare($read);
    $lock->exec('BEGIN EXCLUSIVE');
    return [$database, $statement];
};
$cases = [
    'stream' => $stream,
    'lasting stream' => [fn() => pfsockopen('127.0.0.1', $port), $stream[1], $stream[2]],
    'socket' => [
        function () use ($port) {
            $s = socket_create(AF_INET, SOCK_STREAM, 0);
            socket_connect($s, '127.0.0.1', $port);
            return $s;
        },
        function ($s) { socket_write($s, "wait owner\n"); return socket_read($s, 100); },
        [
            'socket_read' => fn($s) => socket_read($s, 100),
            'socket_write' => fn($s) => socket_write($s, "other\n"),
            'socket_close' => fn($s) => socket_close($s),
        ],
    ],
    'curl' => [
        function () use ($server) {
            $c = curl_init("http://$server/wait/owner");
            curl_setopt($c, CURLOPT_RETURNTRANSFER, true);
            return $c;
        },
        fn($c) => curl_exec($c),
        [
            'curl_exec' => fn($c) => curl_exec($c),
            'curl_setopt' => fn($c) => curl_setopt($c, CURLOPT_URL, 'http://other'),
            'curl_reset' => fn($c) => curl_reset($c),
            'curl_close' => fn($c) => curl_close($c),
            'curl_copy_handle' => fn($c) => curl_copy_handle($c),
        ],
    ],
    'several of curl' => [
        function () use ($server) {
            $all = curl_multi_init();
            $c = curl_init("http://$server/wait/owner");
            curl_setopt($c, CURLOPT_RETURNTRANSFER, true);
            curl_multi_add_handle($all, $c);
            Shared::$all['one of curl'] = $c;
            return $all;
        },
        function ($all) {
            static $c;
            $c ??= Shared::$all['one of curl'];
            curl_multi_remove_handle($all, $c);
            curl_multi_add_handle($all, $c);
            do {
                curl_multi_exec($all, $running);
            } while ($running && curl_multi_select($all, 60) >= 0);
            return curl_multi_getcontent($c);
        },
        [
            'curl_multi_exec' => fn($all) => curl_multi_exec($all, $running),
            'curl_multi_remove_handle' =>
                fn($all) => curl_multi_remove_handle($all, Shared::$all['one of curl']),
            'curl_multi_close' => fn($all) => curl_multi_close($all),
        ],
    ],
    'Redis' => [
        function () use ($port) { $r = new Redis(); $r->connect('127.0.0.1', $port); return $r; },
        fn($r) => $r->get('owner'),
        [
            'get' => fn($r) => $r->get('other'),
            'close' => fn($r) => $r->close(),
            'connect' => fn($r) => $r->connect('127.0.0.1', $port),
        ],
    ],
    'PDO of SQLite' => [
        fn() => $locked(fn() => new PDO('sqlite:' . __DIR__ . '/pdo.sqlite')),
        fn($pdo) => $pdo->query($read)->fetchColumn(),
        [
            'query' => fn($pdo) => $pdo->query('SELECT 1'),
            'exec' => fn($pdo) => $pdo->exec('SELECT 1'),
            'prepare' => fn($pdo) => $pdo->prepare('SELECT 1'),
        ],
    ],
    'SQLite3' => [
        fn() => $locked(function () {
            $database = new SQLite3(__DIR__ . '/own.sqlite');
            $database->busyTimeout(60000);
            return $database;
        }),
        fn($database) => $database->querySingle($read),
        [
            'query' => fn($database) => $database->query('SELECT 1'),
            'exec' => fn($database) => $database->exec('SELECT 1'),
            'close' => fn($database) => $database->close(),
        ],
    ],
    'PDO of SQLite, in a statement' => [
        fn() => $prepared(fn() => new PDO('sqlite:' . __DIR__ . '/prepared.sqlite')),
        function ($all) { $all[1]->execute(); return $all[1]->fetchColumn(); },
        [
            'exec' => fn($all) => $all[0]->exec('SELECT 1'),
            'execute' => fn($all) => $all[1]->execute(),
        ],
    ],
    'PDO of SQLite, beside a statement' => [
        fn() => $prepared(fn() => new PDO('sqlite:' . __DIR__ . '/prepared.sqlite')),
        fn($all) => $all[0]->query($read)->fetchColumn(),
        [
            'exec' => fn($all) => $all[0]->exec('SELECT 1'),
            'execute' => fn($all) => $all[1]->execute(),
        ],
    ],
    'SQLite3, in a statement' => [
        fn() => $prepared(function () {
            $database = new SQLite3(__DIR__ . '/prepared3.sqlite');
            $database->busyTimeout(60000);
            return $database;
        }),
        function ($all) { return $all[1]->execute()->fetchArray()[0]; },
        [
            'exec' => fn($all) => $all[0]->exec('SELECT 1'),
            'execute' => fn($all) => $all[1]->execute(),
        ],
    ],
];
[$make, $wait, $tries] = $cases[$_GET['case']];
if ($_GET['who'] === 'owner') {
    $shared = Shared::$all[$_GET['case']] = $make();
    Shared::$tried = 0;
    Shared::$owner_waits = true;
    echo trim($wait($shared));
    Shared::$owner_waits = false;
    echo ', ', trim($wait($shared));
    return;
}
while (!Shared::$owner_waits) {
    usleep(1000);
}
$shared = Shared::$all[$_GET['case']];
foreach ($tries as $what => $try) {
    try {
        $seen = 'got ' . var_export($try($shared), true);
    } catch (Tokamak\ConnectionInUse $e) {
        $names = '/^GET \S+who=(\w+)\S* calls .+ that GET \S+who=(\w+)\S* waits in, in .*/';
        $seen = preg_replace($names, '$1 while $2', $e->getMessage());
    }
    echo "$what: $seen\n";
}
unset($shared);
if (++Shared::$tried === (int) $_GET['others']) {
    Shared::$all = [];
    gc_collect_cycles();
    file_get_contents("http://$server/go/owner");
}
"#;

/// The requests of one case: one that waits, and those that meddle.
const OTHERS: usize = 3;

/// Answers `wait NAME`, `GET /wait/NAME` and Redis's `GET NAME` when somebody has sent
/// `GET /go/NAME`. Its port.
fn answers_on_request() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let names: Arc<(Mutex<HashSet<String>>, Condvar)> = Arc::default();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let names = names.clone();
            std::thread::spawn(move || answer(client, &names));
        }
    });
    port
}

fn answer(client: TcpStream, (names, changed): &(Mutex<HashSet<String>>, Condvar)) {
    let mut lines = BufReader::new(client.try_clone().unwrap()).lines().map_while(Result::ok);
    while let Some(line) = lines.next() {
        let is_http = line.starts_with("GET /");
        let words: Vec<String> = match line.strip_prefix('*') {
            // The length of each word is on a line before it.
            Some(count) => (0..count.parse().unwrap()).filter_map(|_| lines.nth(1)).collect(),
            None => line.split([' ', '/']).filter(|w| *w != "GET").map(str::to_owned).collect(),
        };
        let words: Vec<&str> = words.iter().map(String::as_str).filter(|w| !w.is_empty()).collect();
        if is_http {
            for _ in lines.by_ref().take_while(|line| !line.is_empty()) {}
        }
        let Some(name) = words.get(1).map(|name| (*name).to_owned()) else {
            eprintln!("strange: {line:?} {words:?}");
            return;
        };
        if words[0] == "go" {
            names.lock().unwrap().insert(name.clone());
            changed.notify_all();
        } else {
            let before = names.lock().unwrap();
            drop(changed.wait_while(before, |names| !names.contains(&name)).unwrap());
        }
        let text = format!("answer to {name}");
        let whole = match (is_http, words[0]) {
            (true, _) => {
                let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length:";
                format!("{head} {}\r\n\r\n{text}", text.len())
            }
            (false, "wait") => format!("{text}\n"),
            (false, _) => format!("${}\r\n{text}\r\n", text.len()),
        };
        if (&client).write_all(whole.as_bytes()).is_err() || is_http {
            return;
        }
    }
}

/// The names of [`CASES`].
fn cases() -> Vec<&'static str> {
    let table = CASES.split_once("$cases = [").unwrap().1.split_once("\n];").unwrap().0;
    let begin = |line: &'static str| line.strip_prefix("    '");
    table.lines().filter_map(begin).filter_map(|line| line.split('\'').next()).collect()
}

#[test]
fn a_connection_that_a_request_waits_in_is_refused_to_others() {
    for seed in ["0", "1", "7", "4711"] {
        let mut site = Site::start(
            &[("worker.php", WORKER), ("case.php", CASES)],
            &[
                ("mode", "async"),
                ("script", "%root%/worker.php"),
                ("concurrency", "32"),
                ("seed", seed),
            ],
            1,
        );
        for case in cases() {
            let port = answers_on_request();
            let asks: Vec<_> = std::iter::once("owner".to_owned())
                .chain((0..OTHERS).map(|n| format!("other{n}")))
                .map(|who| {
                    let case = case.replace(' ', "+");
                    get(&format!("/?case={case}&who={who}&others={OTHERS}&port={port}"))
                })
                .collect();
            let answers: Vec<_> = site.ask_all(&asks).iter().map(Response::text).collect();
            assert_eq!(answers[0], "answer to owner, answer to owner", "{case}, seed {seed}");
            for (n, answer) in answers.iter().skip(1).enumerate() {
                let ending = format!(": other{n} while owner");
                let others: Vec<_> = answer.lines().filter(|l| !l.ends_with(&ending)).collect();
                assert!(others.is_empty(), "{case}, seed {seed}: {others:#?}");
                assert!(!answer.is_empty(), "{case}, seed {seed}\n{}", site.log());
            }
        }
        assert_eq!(site.log(), "");
    }
}
