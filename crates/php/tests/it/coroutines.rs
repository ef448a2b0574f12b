//! `Tokamak\async` and what goes with it: coroutines within a request.

use std::time::Duration;

use crate::concurrent::{answers_together, site, texts};
use crate::harness::*;

/// What each prints in every mode. A mode without async does one after another.
const EVERYWHERE: &[(&str, &str, &str)] = &[
    ("result", "echo await(async(fn() => 'result'));", "result"),
    ("arguments", "echo await(async(fn($a, $b) => $a . $b, 'one', 'two'));", "onetwo"),
    ("twice", "$c = async(fn() => 7); echo await($c), await($c);", "77"),
    (
        "all keeps keys and order",
        "echo json_encode(all(['b' => function () { usleep(3000); return 2; },
                               'a' => fn() => 1, 5 => async(fn() => null)]));",
        r#"{"b":2,"a":1,"5":null}"#,
    ),
    ("all of nothing", "echo json_encode(all([]));", "[]"),
    ("race", "echo race([fn() => 'first', function () { usleep(50000); return 2; }]);", "first"),
    (
        "race of nothing",
        "try { race([]); } catch (ValueError $e) { echo $e->getMessage(); }",
        r"Tokamak\race(): Argument #1 ($tasks) must not be empty",
    ),
    (
        "exception",
        "$c = async(function () { usleep(10); throw new LogicException('mine', 3); });
         try { await($c); } catch (LogicException $e) { echo $e->getMessage(), $e->getCode(); }
         try { await($c); } catch (LogicException $f) { echo $e === $f ? ' same' : ' other'; }",
        "mine3 same",
    ),
    (
        "exception out of all",
        "try { all([fn() => 1, function () { throw new LogicException('two'); }]); }
         catch (LogicException $e) { echo $e->getMessage(); }",
        "two",
    ),
    (
        "exception out of race",
        "try { race([function () { throw new LogicException('one'); },
                     function () { usleep(50000); }]); }
         catch (LogicException $e) { echo $e->getMessage(); }",
        "one",
    ),
    (
        "nested",
        "echo await(async(fn() => implode(all([fn() => await(async(fn() => 'a')),
             fn() => await(async(fn() => 'b'))]))));",
        "ab",
    ),
    (
        "deferred",
        "$d = new Tokamak\\Deferred; async(function () use ($d) { usleep(10); $d->complete('d'); });
         echo await($d), $d->isCompleted() ? '!' : '?';
         try { $d->complete(); } catch (Error $e) { echo get_class($e); }",
        "d!Error",
    ),
    (
        "deferred that fails",
        "$d = new Tokamak\\Deferred; async(fn() => $d->error(new LogicException('no')));
         try { await($d); } catch (LogicException $e) { echo $e->getMessage(); }",
        "no",
    ),
    (
        "questions",
        "$c = async(fn() => 1); await($c); $c->cancel();
         echo json_encode([$c->isCompleted(), $c->isCancelled()]);",
        "[true,false]",
    ),
    (
        "within a Fiber",
        "$f = new Fiber(function () { $a = await(async(function () { usleep(10); return 'a'; }));
             return $a . Fiber::suspend(1); });
         $f->start(); $f->resume('b'); echo $f->getReturn();",
        "ab",
    ),
    (
        "a Fiber within",
        "echo await(async(function () { $f = new Fiber(function () { usleep(10);
             return Fiber::suspend('s') . 'r'; }); $s = $f->start(); $f->resume('v');
             return $s . $f->getReturn(); }));",
        "svr",
    ),
    (
        "not awaitable",
        "try { all([1]); } catch (TypeError $e) { echo $e->getMessage(); }",
        "each item must be callable or a Tokamak\\Awaitable, one is int",
    ),
    (
        "made by hand",
        "try { new Tokamak\\Coroutine; } catch (Error $e) { echo $e->getMessage(); }",
        "Tokamak\\Coroutine cannot be made by new: call Tokamak\\async()",
    ),
    (
        "no cycle is left",
        "$c = async(function () use (&$c) { usleep(1); return fn() => $c; }); await($c);
         unset($c); gc_collect_cycles(); echo 'ok';",
        "ok",
    ),
    (
        "state is the request's",
        "echo await(async(function () { usleep(10); header('X-Child: ' . $_GET['n']);
             echo 'out '; return $_GET['n'] === $_REQUEST['n'] ? 'same' : 'mixed'; }));",
        "out same",
    ),
];

/// `$until($n)`: waits until so many have called `$begun()`; so nothing here bets on time.
const USE: &str = "<?php use function Tokamak\\{async, await, all, race}; $count = 0; \
     $begun = function () use (&$count) { $count++; }; \
     $until = function ($n) use (&$count) { while ($count < $n) usleep(100); };\n";

fn scripts(cases: &[(&str, &str, &str)]) -> Vec<(String, String)> {
    let file = |(i, (_, code, _)): (usize, &(&str, &str, &str))| {
        (format!("c{i}.php"), format!("{USE}{code}"))
    };
    cases.iter().enumerate().map(file).collect()
}

fn borrowed(files: &[(String, String)]) -> Vec<(&str, &str)> {
    files.iter().map(|(name, code)| (name.as_str(), code.as_str())).collect()
}

#[test]
fn one_program_runs_in_every_mode() {
    let files = scripts(EVERYWHERE);
    let mut sites = [
        ("async", site(&borrowed(&files), &[])),
        ("async, in turns", site(&borrowed(&files), &[("seed", "5")])),
        ("classic", Site::classic(&borrowed(&files))),
    ];
    for (mode, site) in &mut sites {
        // All at once, several of each.
        let asks: Vec<_> = (0..2 * files.len())
            .map(|n| get(&format!("/c{}.php?n={n}", n % files.len())))
            .collect();
        let answers = texts(&site.ask_all(&asks));
        for (n, answer) in answers.iter().enumerate() {
            let (name, _, expected) = EVERYWHERE[n % files.len()];
            assert_eq!(answer, expected, "{name}, {mode}\n{}", site.log());
        }
        assert_eq!(site.log(), "", "{mode}");
    }
}

#[test]
fn an_unawaited_exception_is_in_the_log_in_every_mode() {
    let fail = format!(
        "{USE} function fail($what) {{ return fn() => throw new LogicException($what); }}
         final class Kept {{ static $kept; }}
         Kept::$kept = async(fail('kept')); async(fail('dropped'));
         try {{ (function () {{
             $c = async(fail('thrown away')); usleep(10); throw new Exception; }})(); }}
         catch (Exception) {{}}
         try {{ await(async(fail('awaited'))); }} catch (LogicException) {{ echo 'fine'; }}"
    );
    let worker = [("fail.php", fail.as_str()), ("worker.php", crate::concurrent::INCLUDE)];
    let sites = [
        ("async", site(&worker[..1], &[])),
        ("worker", Site::start(&worker, &[("mode", "worker"), ("script", "%root%/worker.php")], 1)),
        ("classic", Site::classic(&worker[..1])),
    ];
    for (mode, mut site) in sites {
        assert_eq!(site.get("/fail.php?a=1").text(), "fine", "{mode}\n{}", site.log());
        for what in ["kept", "dropped", "thrown away"] {
            let line = site.wait_for_log(&format!("LogicException: {what}"));
            assert!(line.contains("a coroutine failed, and nobody awaits it"), "{mode}: {line}");
            assert!(line.contains("GET /fail.php?a=1"), "{mode}: {line}");
        }
        assert!(!site.log().contains("LogicException: awaited"), "{mode}\n{}", site.log());
    }
}

/// What each prints in async mode.
const ASYNC: &[(&str, &str, &str)] = &[
    (
        "children that are left go on, and are awaited",
        "async(function () { usleep(3000); echo 'child '; async(function () {
             usleep(3000); echo 'grandchild'; }); }); echo 'handler ';",
        "handler child grandchild",
    ),
    (
        "a limit ends the waiting, and not the coroutine",
        "$c = async(function () { usleep(50000); return 'later'; });
         try { await($c, 0.001); } catch (Tokamak\\TimeoutException $e) { echo 'late, '; }
         echo await($c, 30);",
        "late, later",
    ),
    (
        "limit of several",
        "try { all([fn() => 1, fn() => sleep(3600)], 0.005); }
         catch (Tokamak\\TimeoutException $e) { echo $e->getMessage(); }",
        "nothing came within 0.005 s",
    ),
    (
        "cancelled before it begins",
        "$c = async(function () { echo 'never'; }); $c->cancel();
         try { await($c); } catch (Tokamak\\CancellationError $e) { echo $e->getMessage(); }",
        "the coroutine is cancelled",
    ),
    (
        "who waits is cancelled, and cleans up",
        "$c = async(function () use ($begun) {
             try { $begun(); sleep(3600); } finally { usleep(10); echo 'cleaned '; } });
         $until(1); $c->cancel();
         try { await($c); } catch (Tokamak\\CancellationError $e) { echo $e->getMessage(); }
         echo $c->isCancelled() ? ' yes' : ' no';",
        "cleaned the coroutine is cancelled yes",
    ),
    (
        "with a reason",
        "$c = async(fn() => await(async(fn() => [$begun(), sleep(3600)]))); $until(1);
         $c->cancel(new Tokamak\\CancellationError('enough'));
         try { await($c); } catch (Tokamak\\CancellationError $e) { echo $e->getMessage(); }
         exit;",
        "enough",
    ),
    (
        "the loser of a race",
        "$lost = 'not '; echo race([function () use ($until) { $until(1); return 'won '; },
             function () use (&$lost, $begun) { try { $begun(); sleep(3600); }
                 catch (Tokamak\\CancellationError) { $lost = ''; } }]);
         usleep(1000); echo $lost, 'cancelled';",
        "won cancelled",
    ),
    (
        "all() throws when its losers have cleaned up",
        "$seen = '';
         $lose = function () use (&$seen, $begun) {
             try { $begun(); sleep(3600); } finally { usleep(3000); $seen .= 'cleaned '; } };
         $fail = function () use ($until) { $until(2); throw new LogicException('x'); };
         try { all([$lose, $lose, $fail]); }
         catch (LogicException $e) { echo $seen, $e->getMessage(); }",
        "cleaned cleaned x",
    ),
    (
        "race() returns when its losers have cleaned up",
        "$seen = '';
         $lose = function () use (&$seen, $begun) {
             try { race([fn() => sleep(3600), function () use (&$seen, $begun) {
                 try { $begun(); sleep(3600); } finally { usleep(3000); $seen .= 'inner '; } }]); }
             finally { usleep(3000); $seen .= 'outer '; } };
         $won = race([$lose, function () use ($until) { $until(1); return 'won'; }]);
         echo $seen, $won;",
        "inner outer won",
    ),
    (
        "a limit of several is over when they have cleaned up",
        "$seen = '';
         try { all([function () use (&$seen) {
             try { sleep(3600); } finally { usleep(3000); $seen .= 'cleaned '; } }], 0.5); }
         catch (Tokamak\\TimeoutException $e) { echo $seen, 'late'; }",
        "cleaned late",
    ),
    (
        "a loser that goes on is not waited for",
        "$goes_on = false; $d = new Tokamak\\Deferred; $begun = new Tokamak\\Deferred;
         echo race([function () use ($begun) { await($begun); return 'won '; },
             function () use (&$goes_on, $d, $begun) {
                 try { $begun->complete(); sleep(3600); }
                 catch (Tokamak\\CancellationError) { $goes_on = true; await($d); }
                 $goes_on = false; }]);
         echo $goes_on ? 'goes on' : 'is over'; $d->complete();",
        "won goes on",
    ),
    (
        "a loser whose driver fails is not logged",
        "echo race([fn() => 'won', function () { try { sleep(3600); }
             catch (Error $e) { throw new RuntimeException('gone away', 0, $e); } }]);",
        "won",
    ),
    (
        "who awaits itself is told",
        "$c = async(function () use (&$c) { await($c); });
         try { await($c); } catch (Tokamak\\DeadlockError $e) {
             echo preg_replace('/the coroutine .*? awaits/', 'X awaits', $e->getMessage());
             echo str_contains($e->getMessage(), __FILE__ . ':' . __LINE__ - 3); }",
        "what is awaited cannot come: X awaits itself1",
    ),
    (
        "a circle is told",
        "$a = async(function () use (&$b) { await($b); });
         $b = async(function () use (&$c) { all([async(fn() => usleep(10)), $c]); });
         $c = async(function () use (&$a) { await($a); });
         foreach ([$a, $b, $c] as $one) {
             try { await($one); } catch (Tokamak\\DeadlockError $e) { $told = $e->getMessage(); }
             catch (Tokamak\\CancellationError) {} }
         echo preg_replace('/the coroutine .*? awaits/', 'X awaits', $told);",
        "what is awaited cannot come: X awaits the one that awaits it here",
    ),
    (
        "a circle through a race is told",
        "$a = async(function () use (&$b, &$c) { race([$b, $c]); });
         $b = async(function () use (&$a) { all([fn() => 1, $a]); });
         $c = async(function () use (&$b) { usleep(10); race([$b, $b]); });
         foreach ([$c, $a, $b] as $one) {
             try { await($one); } catch (Tokamak\\DeadlockError $e) { $told = $e->getMessage(); }
             catch (Tokamak\\CancellationError) {} }
         echo preg_replace('/the coroutine .*? awaits/', 'X awaits', $told);",
        "what is awaited cannot come: X awaits the one that awaits it here",
    ),
    (
        "a race that another can win is no circle",
        "$d = new Tokamak\\Deferred; $b = null;
         $a = async(function () use (&$b, $d) { return race([$b, fn() => await($d)]); });
         $b = async(function () use (&$a) { usleep(10); return await($a); });
         async(function () use ($d) { usleep(2000); $d->complete('other'); });
         $c = async(fn() => await($a)); echo await($c); var_dump($b->isCancelled());",
        "otherbool(true)\n",
    ),
    (
        "a circle with a time limit is none",
        "$a = async(function () use (&$b) { return await($b); });
         $b = async(function () use (&$a) { try { await($a, 0.001); }
             catch (Tokamak\\TimeoutException) { return 'late'; } });
         echo await($a);",
        "late",
    ),
    (
        "what several await is no circle",
        "$c = async(function () { usleep(1000); return 'c'; });
         $b = fn() => implode(all([$c, $c])); $a = fn() => implode(all([$c, $b, $b]));
         echo implode(all([$a, $a, $b, $c]));",
        "ccccccccccccc",
    ),
    (
        "a Fiber may outlive the coroutine that has made it",
        "$f = await(async(function () { $f = new Fiber(function () { Fiber::suspend();
             usleep(1000); return 'over'; }); $f->start(); return $f; }));
         gc_collect_cycles(); await(async(fn() => usleep(10))); $f->resume();
         echo $f->getReturn();",
        "over",
    ),
    (
        "a coroutine whose Fiber nobody has does not suspend it",
        "foreach ([0, 10] as $time) { try { await(async(function () use ($time) {
             if ($time) { usleep($time); } Fiber::suspend(); })); }
         catch (Error $e) { echo substr($e->getMessage(), 0, 15), ' '; } }",
        "Fiber::suspend( Fiber::suspend( ",
    ),
    (
        "a coroutine may be resumed by who has its Fiber",
        "$f = null; $c = async(function () use (&$f) { usleep(10); $f = Fiber::getCurrent();
             return Fiber::suspend('s') . 'v'; });
         while (!$f?->isSuspended()) usleep(100);
         $f->resume('r'); unset($f); echo await($c);",
        "rv",
    ),
    (
        "the others, when one fails",
        "try { all([fn() => sleep(3600), function () { usleep(10); throw new LogicException('x'); },
             function () { (new Fiber(fn() => sleep(3600)))->start(); }]); }
         catch (LogicException $e) { echo $e->getMessage(); }",
        "x",
    ),
    (
        "who cancels itself goes on until it waits",
        "$c = async(function () use (&$c) { $c->cancel(); echo 'on '; sleep(3600); });
         try { await($c); } catch (Tokamak\\CancellationError) { echo 'off'; }",
        "on off",
    ),
    (
        "an uncaught exception takes all with it",
        "set_exception_handler(fn($e) => print($e->getMessage()));
         async(function () use ($begun) {
             try { $begun(); sleep(3600); } finally { echo ', cleaned'; } });
         $until(1); throw new LogicException('mine');",
        "mine, cleaned",
    ),
    (
        "exit in a coroutine ends the request",
        "register_shutdown_function(function () { echo ', end'; });
         async(function () { sleep(3600); echo 'never'; });
         async(function () { usleep(10); exit('bye'); }); sleep(3600); echo 'never';",
        "bye, end",
    ),
    (
        "exit in a coroutine is for the handler as if it had called it",
        "register_shutdown_function(function () { echo ' end'; });
         (function () {
             $o = new class { function __destruct() { echo ' destroyed'; } };
             try { await(async(function () {
                 try { usleep(10); exit('bye'); } finally { echo ' never'; } })); }
             catch (Throwable) { echo ' never'; } finally { echo ' never'; }
         })();",
        "bye destroyed end",
    ),
    (
        "exit cancels the other coroutines",
        "async(function () use ($begun) {
             try { $begun(); sleep(3600); } finally { usleep(1000); echo ' cleaned'; } });
         $until(1); try { exit('bye'); } finally { echo ' never'; }",
        "bye cleaned",
    ),
    (
        "deadlines beyond time",
        "echo await(async(fn() => 'x'), INF), await(async(fn() => 'y'), 1e300);",
        "xy",
    ),
    (
        "who is stuck is told",
        "ob_start(function () { try { await(async(fn() => 1)); } catch (Error $e) {
             return substr($e->getMessage(), 0, 30); } }); echo 'x'; ob_end_flush();",
        "what is awaited cannot come, b",
    ),
    (
        "comparisons that wait",
        "$sort = function ($by) { $a = [3, 1, 2, 5, 4];
             usort($a, function ($x, $y) use ($by) { usleep(10); return $by * ($x <=> $y); });
             return implode($a); };
         echo implode(',', all([fn() => $sort(1), fn() => $sort(-1), fn() => $sort(1)]));",
        "12345,54321,12345",
    ),
];

#[test]
fn coroutines_end_with_their_request() {
    let files = scripts(ASYNC);
    for seed in ["0", "8"] {
        let mut site = site(&borrowed(&files), &[("seed", seed)]);
        let asks: Vec<_> =
            (0..2 * files.len()).map(|n| get(&format!("/c{}.php", n % files.len()))).collect();
        let answers = texts(&site.ask_all(&asks));
        for (n, answer) in answers.iter().enumerate() {
            let (name, _, expected) = ASYNC[n % files.len()];
            assert_eq!(answer, expected, "{name}, seed {seed}\n{}", site.log());
        }
        assert_eq!(site.log(), "");
    }
}

#[test]
fn coroutines_of_one_request_wait_side_by_side() {
    let port = answers_together(3);
    let code = format!(
        "{USE}
         $ask = fn($path) => fn() => file_get_contents(\"http://127.0.0.1:{port}/$path\");
         $curl = function () {{ $c = curl_init('http://127.0.0.1:{port}/c');
             curl_setopt($c, CURLOPT_RETURNTRANSFER, true); return curl_exec($c); }};
         echo implode(' ', all([$ask('a'), $ask('b'), $curl]));"
    );
    let mut site = site(&[("three.php", &code)], &[]);
    assert_eq!(site.get("/three.php").text(), "/a /b /c", "{}", site.log());
}

#[test]
fn a_thousand_coroutines_wait_side_by_side() {
    let code = format!(
        "{USE} $sleep = function ($n) {{ usleep(100000); return $n; }};
         for ($i = 0; $i < 1000; $i++) $all[] = async($sleep, $i);
         echo array_sum(all($all));"
    );
    let mut site = site(&[("many.php", &code)], &[("ini.memory_limit", "256M")]);
    for _ in 0..3 {
        let begun = std::time::Instant::now();
        assert_eq!(site.get("/many.php").text(), "499500", "{}", site.log());
        // One after another they would take a hundred seconds.
        assert!(begun.elapsed() < Duration::from_secs(50));
    }
}

#[test]
fn an_unawaited_exception_is_in_the_log_with_its_request() {
    let code = format!(
        "{USE} $kept = async(function () {{ usleep(10); throw new LogicException('kept'); }});
         async(function () {{ throw new LogicException('dropped'); }});
         echo 'fine'; $GLOBALS['held'] = $kept;"
    );
    let mut site = site(&[("fail.php", &code)], &[]);
    assert_eq!(site.get("/fail.php?a=1").text(), "fine");
    for what in ["kept", "dropped"] {
        let line = site.wait_for_log(&format!("LogicException: {what}"));
        assert!(line.contains("/fail.php?a=1"), "{line}");
        assert!(line.contains("a coroutine failed, and nobody awaits it"), "{line}");
    }
}

#[test]
fn coroutines_have_the_state_of_their_request() {
    let code = format!(
        "{USE} $n = $_GET['n']; ini_set('user_agent', $n); putenv(\"N=$n\");
         date_default_timezone_set('Etc/GMT+' . $n % 12);
         $see = function () use ($n) {{
             $mixed = 0;
             for ($i = 0; $i < 5; $i++) {{
                 usleep(1);
                 $mixed += $_GET['n'] !== $n || ini_get('user_agent') !== $n ||
                     getenv('N') !== $n || $_SERVER['QUERY_STRING'] !== \"n=$n\" ||
                     date_default_timezone_get() !== 'Etc/GMT+' . $n % 12;
             }}
             header(\"X-N: $n\");
             echo $n, ' ';
             return $mixed;
         }};
         $mixed = array_sum(all(array_fill(0, 4, $see)));
         echo $mixed;"
    );
    let mut site = site(&[("see.php", &code)], &[("seed", "77")]);
    let asks: Vec<_> = (0..24).map(|n| get(&format!("/see.php?n={n}"))).collect();
    for (n, answer) in site.ask_all(&asks).iter().enumerate() {
        assert_eq!(answer.text(), format!("{n} {n} {n} {n} 0"), "{}", site.log());
        assert_eq!(answer.header("X-N"), n.to_string());
    }
}

#[test]
fn a_fatal_error_in_a_coroutine_ends_its_request_alone() {
    let fatal = format!(
        "{USE} async(fn() => sleep(3600));
         await(async(function () {{ usleep(10); trigger_error('dead', E_USER_ERROR); }}));
         echo 'never';"
    );
    let files = [("wait.php", "<?php usleep(100000); echo 'fine';"), ("fatal.php", &fatal)];
    let mut site = site(&files, &[("ini.display_errors", "0"), ("ini.log_errors", "1")]);
    let answers = site.ask_all(&["wait", "fatal", "wait"].map(|name| get(&format!("/{name}.php"))));
    let seen: Vec<_> = answers.iter().map(|answer| (answer.status, answer.text())).collect();
    let expected = [(200, "fine"), (500, ""), (200, "fine")];
    assert_eq!(seen, expected.map(|(status, text)| (status, text.to_owned())), "{}", site.log());
    assert_eq!(site.hear_exit(), tokamak_sys::control::Status::Code(0), "{}", site.log());
    site.wait_for_log("dead");
}
