//! `Tokamak\Context` and `Tokamak\Pool`.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::concurrent::{INCLUDE, site, texts};
use crate::harness::*;

const CONTEXT: &str = r#"<?php
use Tokamak\Context;
$n = $_GET['n'];
Context::set('said', new class($n) {
    function __construct(public $n) {} function __destruct() { echo " end $this->n"; } }); Context::set('n', $n); Context::set('null', null);
$seen = [];
$see = function () use (&$seen) { usleep(1); $seen[] = Context::get('n'); };
for ($i = 0; $i < 3; $i++) {
    Tokamak\all([$see, $see]);
    (new Fiber($see))->start();
}
Context::unset('gone'); Context::set('gone', 1); Context::unset('gone');
echo implode(',', array_unique($seen)), ' ', count($seen), ' ', json_encode([
    Context::has('n'), Context::has('null'), Context::has('gone'), Context::get('gone', 'default'),
]);
try { new Context; } catch (Error $e) { echo ' ', get_class($e); }
"#;

#[test]
fn a_context_is_of_one_request_and_goes_with_it() {
    let files = [("context.php", CONTEXT)];
    let sites = [
        ("async", site(&files, &[("seed", "3")])),
        ("classic", Site::classic(&files)),
        (
            "worker",
            Site::start(
                &[files[0], ("worker.php", INCLUDE)],
                &[("mode", "worker"), ("script", "%root%/worker.php")],
                1,
            ),
        ),
    ];
    for (mode, mut site) in sites {
        let asks: Vec<_> = (0..12).map(|n| get(&format!("/context.php?n={n}"))).collect();
        for (n, text) in texts(&site.ask_all(&asks)).iter().enumerate() {
            let expected = format!("{n} 9 [true,true,false,\"default\"] Error end {n}");
            assert_eq!(*text, expected, "{mode}\n{}", site.log());
        }
    }
}

/// A Redis server at a socket in a directory of its own.
struct Redis {
    process: Child,
    directory: TempDir,
}

impl Redis {
    fn start() -> Redis {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("redis");
        let process = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket)
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server runs (package redis-server)");
        let until = Instant::now() + Duration::from_secs(30);
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            assert!(Instant::now() < until, "Redis does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        Redis { process, directory }
    }

    fn socket(&self) -> String {
        self.directory.path().join("redis").display().to_string()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A site whose requests share a pool of three connections that count themselves.
fn pooled(redis: &Redis, options: &str, files: &[(&str, &str)]) -> Site {
    let worker = format!(
        "<?php
         final class Counted extends Redis {{ public static $made = 0; public static $gone = 0;
             public $number; function __destruct() {{ self::$gone++; }} }}
         $pool = new Tokamak\\Pool(open: function () {{
             $r = new Counted; $r->connect('{}');
             $r->setOption(Redis::OPT_MAX_RETRIES, 0); $r->number = ++Counted::$made; return $r;
         }}, size: 3, {options});
         while (tokamak_handle_request(function () use ($pool) {{
             include __DIR__ . $_SERVER['SCRIPT_NAME']; }})) {{}}",
        redis.socket()
    );
    let mut all = vec![("worker.php", worker.as_str())];
    all.extend_from_slice(files);
    let settings = [("mode", "async"), ("script", "%root%/worker.php"), ("concurrency", "64")];
    Site::start(&all, &settings, 1)
}

#[test]
fn fifty_requests_share_three_connections() {
    let redis = Redis::start();
    let files = [
        (
            "add.php",
            "<?php for ($i = 0; $i < 4; $i++) { $pool->use(function ($r) {
                 $key = 'k' . $_GET['n']; $r->set($key, $_GET['n']);
                 $r->rawCommand('BLPOP', 'nothing', '0.002');
                 if ($r->get($key) !== $_GET['n']) echo 'mixed '; $r->incr('all'); }); }
             echo 'done';",
        ),
        (
            "see.php",
            "<?php echo json_encode($pool->status()), count($pool), ' ', Counted::$made, ' ',
                 $pool->use(fn($r) => $r->get('all'));",
        ),
    ];
    let mut site = pooled(&redis, "wait: 60.0", &files);
    let asks: Vec<_> = (0..50).map(|n| get(&format!("/add.php?n={n}"))).collect();
    for text in texts(&site.ask_all(&asks)) {
        assert_eq!(text, "done", "{}", site.log());
    }
    let expected = r#"{"size":3,"open":3,"idle":3,"waiting":0}3 3 200"#;
    assert_eq!(site.get("/see.php").text(), expected);
    assert_eq!(site.log(), "");
}

#[test]
fn waiting_requests_get_connections_first_come_first_served() {
    let redis = Redis::start();
    let files = [(
        "order.php",
        "<?php use function Tokamak\\{async, all};
         $held = [$pool->get(), $pool->get(), $pool->get()];
         $order = []; $waiting = [];
         foreach ([1, 2, 3, 4, 5, 6] as $n) {
             $waiting[] = async(function () use ($n, $pool, &$order) {
                 $c = $pool->get(); $order[] = $n; usleep(1000); $pool->put($c); });
             usleep(1000);
         }
         echo $pool->status()['waiting'], ' ';
         foreach ($held as $c) { $pool->put($c); }
         $order[] = 'late';
         $pool->use(function () use (&$order) { $order[] = 'last'; });
         all($waiting); echo implode(' ', $order);",
    )];
    let mut site = pooled(&redis, "wait: 60.0", &files);
    assert_eq!(site.get("/order.php").text(), "6 late 1 2 3 4 5 6 last", "{}", site.log());
}

#[test]
fn what_happens_to_connections() {
    const CASES: &[(&str, &str, &str)] = &[
        (
            "who holds all of them is told",
            "$all = [$pool->get(), $pool->get(), $pool->get()];
             try { $pool->get(0.01); } catch (Tokamak\\PoolException $e) { echo $e->getMessage(); }
             foreach ($all as $c) { $pool->put($c); } unset($all, $c);",
            "no connection became free within 0.01 s: all 3 of the pool are lent, 3 of them to this \
             request",
        ),
        (
            "one that is not put back is closed",
            "Counted::$gone = 0; register_shutdown_function(function () use ($pool) {
                 echo $pool->status()['open'], Counted::$gone; }); $c = $pool->get(); unset($c);",
            "30",
        ),
        ("and its place is free", "echo $pool->status()['open'], Counted::$gone;", "21"),
        (
            "an exception closes it",
            "try { $pool->use(function () { throw new LogicException('mine'); }); }
             catch (LogicException $e) { echo $e->getMessage(); }
             unset($e); echo $pool->status()['open'];",
            "mine1",
        ),
        (
            "put back twice",
            "$c = $pool->get(); $pool->put($c);
             try { $pool->put($c); } catch (LogicException $e) { echo 'no'; }
             echo $pool->status()['open'];",
            "no1",
        ),
        (
            "one that is used goes on",
            "$n = Counted::$made; $pool->use(fn() => 1); $pool->use(fn() => 1);
             echo Counted::$made - $n;",
            "0",
        ),
        (
            "a dead one is found, and another opened",
            "$id = $pool->use(fn($r) => $r->client('id')); $n = Counted::$made;
             $other = new Redis; $other->connect($_SERVER['HTTP_SOCKET']);
             $other->rawCommand('CLIENT', 'KILL', 'ID', $id);
             echo $pool->use(fn($r) => $r->client('id')) > $id ? 'another' : 'same',
                 Counted::$made - $n, $pool->status()['open'];",
            "another11",
        ),
        (
            "reset comes before the next",
            "$pool->use(fn($r) => $r->select(5));
             echo $pool->use(fn($r) => $r->getDbNum());",
            "0",
        ),
        ("discarded", "$pool->discard($pool->get()); echo $pool->status()['open'];", "0"),
        (
            "idle for too long",
            "$pool->use(fn() => 1); $n = Counted::$made; usleep(400000);
             $pool->use(fn() => 1); echo Counted::$made - $n, $pool->status()['open'];",
            "11",
        ),
        (
            "what cannot be opened frees its place",
            "$bad = new Tokamak\\Pool(fn() => throw new LogicException('down'), size: 1);
             for ($i = 0; $i < 2; $i++) { try { $bad->get(0.01); }
                 catch (LogicException $e) { echo $e->getMessage(), count($bad); } }",
            "down0down0",
        ),
        (
            "what is no connection",
            "$bad = new Tokamak\\Pool(fn() => 5);
             try { $bad->get(); } catch (TypeError $e) { echo $e->getMessage(); }",
            "Tokamak\\Pool: a connection is an object or a resource, the callback gave int",
        ),
        (
            "who gives up leaves the queue",
            "$all = [$pool->get(), $pool->get(), $pool->get()];
             try { $pool->get(0.01); } catch (Tokamak\\PoolException $e) {}
             unset($e); $pool->put(array_pop($all)); echo json_encode($pool->status());
             foreach ($all as $c) { $pool->put($c); } unset($all, $c);",
            r#"{"size":3,"open":3,"idle":1,"waiting":0}"#,
        ),
    ];
    let redis = Redis::start();
    let files: Vec<_> = CASES
        .iter()
        .enumerate()
        .map(|(n, (_, code, _))| (format!("c{n}.php"), format!("<?php {code}")))
        .collect();
    let files: Vec<_> = files.iter().map(|(name, code)| (name.as_str(), code.as_str())).collect();
    let options = "check: fn($r) => $r->ping(), reset: fn($r) => $r->select(0), checkAfter: 0.0, \
                   idle: 0.3, wait: 60.0";
    let mut site = pooled(&redis, options, &files);
    for (n, (name, _, expected)) in CASES.iter().enumerate() {
        let ask = get(&format!("/c{n}.php")).header("Socket", &redis.socket());
        assert_eq!(site.ask(ask).text(), *expected, "{name}\n{}", site.log());
    }
    assert_eq!(site.log(), "");
}

#[test]
fn a_pool_serves_one_request_after_another_too() {
    let code = r#"<?php
        $pool = new Tokamak\Pool(fn() => new stdClass, size: 1, wait: 0.01);
        $a = $pool->use(fn($c) => spl_object_id($c)); $c = $pool->get();
        echo $a === spl_object_id($c) ? 'same ' : 'other ';
        try { $pool->get(); } catch (Tokamak\PoolException $e) { echo get_class($e->getPrevious()); }
    "#;
    let mut site = Site::classic(&[("pool.php", code)]);
    for _ in 0..2 {
        assert_eq!(site.get("/pool.php").text(), r"same Tokamak\DeadlockError", "{}", site.log());
    }
}
