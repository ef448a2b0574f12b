//! Requests that end while they wait for a connection of a `Tokamak\Pool`, open one, or have one:
//! no place is lost, and none is lent twice.

use crate::harness::*;

/// `$small` has one connection. `until()` waits for another request.
const WORKER: &str = r#"<?php
final class Link { public static int $made = 0; public int $n;
    public function __construct() { $this->n = ++self::$made; } }
final class Seen { public static array $all = []; public static array $closed = []; }
function note(string $what): void { Seen::$all[$what] = true; }
function until(string $what): void { while (!isset(Seen::$all[$what])) { usleep(1000); } }
$small = new Tokamak\Pool(fn() => new Link, size: 1, wait: 60.0,
    close: function ($link) { Seen::$closed[] = $link->n; });
while (tokamak_handle_request(function () use ($small) {
    include __DIR__ . $_SERVER['SCRIPT_NAME']; })) {}
"#;

fn site(files: &[(&str, &str)], seed: &str) -> Site {
    let mut all = vec![("worker.php", WORKER)];
    all.extend_from_slice(files);
    let settings =
        [("mode", "async"), ("script", "%root%/worker.php"), ("concurrency", "16"), ("seed", seed)];
    Site::start(&all, &settings, 1)
}

const SEEDS: [&str; 3] = ["0", "7", "4711"];

/// Who waits first, and gives up in a way of its own, must not be in the way of the next one.
fn the_next_waiter_gets_it(gives_up: &str, client_leaves: bool) {
    let files = [
        (
            "hold.php",
            "<?php $link = $small->get(); note('held'); until('over'); $small->put($link);
             echo $link->n;",
        ),
        ("leave.php", gives_up),
        (
            "next.php",
            "<?php until('waits'); note('comes'); echo $small->use(fn($link) => $link->n), ' ',
                json_encode($small->status());",
        ),
        ("waits.php", "<?php until('waits'); usleep(1000);"),
        (
            "over.php",
            "<?php until('comes'); usleep(1000); note('over'); echo json_encode($small->status());",
        ),
    ];
    for seed in SEEDS {
        let mut site = site(&files, seed);
        let hold = site.submit(&get("/hold.php"));
        let leave = site.submit(&get("/leave.php"));
        let next = site.submit(&get("/next.php"));
        if client_leaves {
            site.get("/waits.php");
            site.producer.abort(leave.0);
            until("the end", || site.producer.has_ended(leave.0));
        } else {
            site.collect(leave, b"", |_| false);
        }
        let status = site.get("/over.php").text();
        assert_eq!(status, r#"{"size":1,"open":1,"idle":0,"waiting":1}"#, "seed {seed}");
        assert_eq!(site.collect(hold, b"", |_| false).text(), "1", "seed {seed}");
        let next = site.collect(next, b"", |_| false).text();
        let expected = r#"1 {"size":1,"open":1,"idle":1,"waiting":0}"#;
        assert_eq!(next, expected, "seed {seed}: {}", site.log());
        assert_eq!(site.log(), "", "seed {seed}");
    }
}

#[test]
fn a_request_that_exits_while_waiting_does_not_keep_its_turn() {
    the_next_waiter_gets_it(
        "<?php until('held');
         Tokamak\\async(function () { note('waits'); until('comes'); exit; });
         $small->get(); echo 'no';",
        false,
    );
}

#[test]
fn a_coroutine_that_waits_while_its_request_exits_does_not_keep_its_turn() {
    the_next_waiter_gets_it(
        "<?php until('held'); Tokamak\\async(fn() => $small->get());
         usleep(1000); note('waits'); until('comes'); exit;",
        false,
    );
}

#[test]
fn whose_client_leaves_while_it_waits_does_not_keep_its_turn() {
    let code = "<?php until('held'); note('waits'); $small->get(); echo 'no';";
    the_next_waiter_gets_it(code, true);
}

#[test]
fn a_request_that_is_cancelled_in_its_turn_hands_it_on() {
    // The first of the two that wait is cancelled in the moment in which it gets the connection.
    let code = "<?php use function Tokamak\\{async, await};
        $link = $small->get();
        $first = async(fn() => $small->use(fn($link) => $link->n));
        $second = async(fn() => $small->use(fn($link) => $link->n));
        usleep(1000);
        $small->put($link); $first->cancel();
        echo await($second), ' ';
        try { await($first); } catch (Tokamak\\CancellationError) {}
        echo json_encode($small->status());";
    for seed in SEEDS {
        let mut site = site(&[("turn.php", code)], seed);
        let expected = r#"1 {"size":1,"open":1,"idle":1,"waiting":0}"#;
        assert_eq!(site.get("/turn.php").text(), expected, "seed {seed}: {}", site.log());
    }
}

#[test]
fn what_a_request_holds_when_it_ends_is_closed_and_its_place_is_free() {
    const CASES: &[(&str, &str)] = &[
        ("returns", "$small->get();"),
        ("exit", "$small->get(); exit;"),
        ("exit within use()", "$small->use(function () { exit; });"),
        ("exit of a coroutine", "$small->get(); Tokamak\\async(function () { exit; }); sleep(60);"),
        (
            "exit of a coroutine within use()",
            "Tokamak\\async(function () { usleep(1000); exit; });
             $small->use(function () { sleep(60); });",
        ),
        ("exception", "$link = $small->get(); throw new Exception('thrown');"),
        ("exception within use()", "$small->use(function () { throw new Exception('thrown'); });"),
        (
            "cancelled coroutine",
            "$c = Tokamak\\async(fn() => $small->use(fn() => sleep(60)));
             usleep(1000); $c->cancel();",
        ),
    ];
    for seed in SEEDS {
        let pages: Vec<_> = (0..CASES.len()).map(|n| format!("c{n}.php")).collect();
        let codes: Vec<_> = CASES.iter().map(|(_, code)| format!("<?php {code}")).collect();
        let mut files: Vec<_> =
            pages.iter().zip(&codes).map(|(p, c)| (p.as_str(), c.as_str())).collect();
        files.push((
            "see.php",
            "<?php echo json_encode([count($small), Seen::$closed, Link::$made]);",
        ));
        let mut site = site(&files, seed);
        for (n, (name, _)) in CASES.iter().enumerate() {
            site.get(&format!("/c{n}.php"));
            let closed: Vec<_> = (1..=n + 1).map(|n| n.to_string()).collect();
            let expected = format!("[0,[{}],{}]", closed.join(","), n + 1);
            assert_eq!(site.get("/see.php").text(), expected, "{name}, seed {seed}");
        }
    }
}

#[test]
fn a_client_that_leaves_takes_the_connection_of_its_request_along() {
    let files = [
        ("hold.php", "<?php $small->use(function () { note('held'); sleep(60); });"),
        ("held.php", "<?php until('held'); echo json_encode($small->status());"),
        ("next.php", "<?php echo $small->use(fn($link) => $link->n), json_encode(Seen::$closed);"),
    ];
    for seed in SEEDS {
        let mut site = site(&files, seed);
        let hold = site.submit(&get("/hold.php"));
        let status = r#"{"size":1,"open":1,"idle":0,"waiting":0}"#;
        assert_eq!(site.get("/held.php").text(), status);
        let next = site.submit(&get("/next.php"));
        site.producer.abort(hold.0);
        assert_eq!(site.collect(next, b"", |_| false).text(), "2[1]", "seed {seed}");
        assert_eq!(site.log(), "");
    }
}

#[test]
fn what_fails_on_the_way_does_not_lose_a_place() {
    const CASES: &[(&str, &str, &str)] = &[
        (
            "exit while it opens",
            "$pool = Seen::$all['pool'] ??= new Tokamak\\Pool(size: 1,
                 open: function () { usleep(2000); return new Link; });
             echo count($pool);
             if (count($pool) === 0 && !isset(Seen::$all['opened'])) { note('opened');
                 Tokamak\\async(function () { usleep(500); exit; }); $pool->get(); }",
            "00",
        ),
        (
            "one close that fails does not keep the rest",
            "$pool = Seen::$all['pool'] ??= new Tokamak\\Pool(fn() => new Link, size: 3,
                 close: function ($link) { Seen::$closed[] = 'x'; throw new Error('close'); });
             echo count($pool), count(Seen::$closed);
             if (count(Seen::$closed) === 0) { $pool->get(); $pool->get(); $pool->get(); }",
            "0003",
        ),
        (
            "a dead one whose close fails",
            "$pool = new Tokamak\\Pool(fn() => new Link, size: 1, checkAfter: 0.0,
                 check: fn() => false, close: function () { throw new Error('close'); });
             $pool->use(fn() => 1);
             try { $pool->get(); } catch (Error $e) { echo $e->getMessage(); }
             echo json_encode($pool->status());",
            r#"close{"size":1,"open":0,"idle":0,"waiting":0}"#,
        ),
        (
            "a check that fails badly",
            "$pool = new Tokamak\\Pool(fn() => new Link, size: 1, checkAfter: 0.0,
                 check: fn() => throw new Error('check'));
             $pool->use(fn() => 1);
             try { $pool->get(); } catch (Error $e) { echo $e->getMessage(); }
             echo count($pool); $pool->use(fn() => 1); echo count($pool);",
            "check01",
        ),
        (
            "a reset that fails, and one that says no",
            "foreach ([fn() => throw new Exception('reset'), fn() => false] as $reset) {
                 $pool = new Tokamak\\Pool(fn() => new Link, size: 1, reset: $reset);
                 try { $pool->use(fn() => 1); } catch (Exception $e) { echo $e->getMessage(); }
                 echo count($pool); }",
            "reset00",
        ),
        (
            "a pool that goes closes what is idle",
            "$pool = new Tokamak\\Pool(fn() => new Link, close: function () { echo 'closed'; });
             $pool->use(fn() => 1); echo 'used,'; unset($pool);",
            "used,closed",
        ),
        (
            "the exception is there before the pool",
            "echo is_subclass_of('Tokamak\\PoolException', 'RuntimeException') ? 'is' : 'is not';",
            "is",
        ),
    ];
    for (name, code, expected) in CASES {
        let code = format!("<?php (function () use ($small) {{ {code} }})();");
        let mut site = site(&[("case.php", &code)], "7");
        let mut text = site.get("/case.php").text();
        if expected.starts_with('0') {
            // The second request sees what the first has left.
            text += &site.get("/case.php").text();
        }
        assert_eq!(text, *expected, "{name}\n{}", site.log());
    }
}

#[test]
fn times_mean_something_or_are_refused() {
    let code = r#"<?php use function Tokamak\{all, async, await, race};
        $calls = [
            fn($s) => new Tokamak\Pool(fn() => new Link, wait: $s),
            fn($s) => new Tokamak\Pool(fn() => new Link, idle: $s),
            fn($s) => new Tokamak\Pool(fn() => new Link, checkAfter: $s),
            fn($s) => $small->get($s),
            fn($s) => $small->use(fn() => 1, $s),
            fn($s) => await(async(fn() => 1), $s),
            fn($s) => all([fn() => 1], $s),
            fn($s) => race([fn() => 1], $s),
        ];
        foreach ($calls as $n => $call) {
            foreach ([NAN, -1.0, -INF] as $bad) {
                try { $call($bad); echo "$n takes $bad\n"; }
                catch (ValueError $e) {
                    if (!str_contains($e->getMessage(), 'must be 0 or greater')) echo $e, "\n"; }
            }
        }
        $link = $small->get();
        try { $small->get(0); } catch (Tokamak\PoolException) { echo "at once\n"; }
        $small->put($link);
        echo $small->use(fn($link) => $link->n, 0), $small->use(fn($link) => $link->n, INF), "\n";
        $late = async(fn() => usleep(1000));
        try { await($late, 0); } catch (Tokamak\TimeoutException) { echo "late\n"; }
        echo json_encode([await($late, INF), await($late, 0)]), "\n";
        $forever = new Tokamak\Pool(fn() => new Link, idle: INF, checkAfter: INF,
            check: fn() => throw new Error);
        echo $forever->use(fn() => 1), $forever->use(fn() => 1), count($forever);
        $never = new Tokamak\Pool(fn() => new Link, idle: 0);
        echo $never->use(fn() => 1), count($never);
        try { new Tokamak\Pool(fn() => new Link, size: 0); } catch (ValueError) { echo 'x'; }"#;
    let mut site = site(&[("times.php", code)], "7");
    let expected = "at once\n11\nlate\n[null,null]\n11110x";
    assert_eq!(site.get("/times.php").text(), expected, "{}", site.log());
}
