//! `Tokamak\RevoltDriver`: Revolt's event loop in every mode; in async mode each request has one.
//!
//! The package itself is not in Debian 12. Where it is installed, or `scripts/setup test` could
//! fetch it, these tests run with it; and everywhere with a file that has its public names.

use std::path::Path;

use crate::concurrent::{answers_together, site, texts};
use crate::harness::*;

/// Revolt as files that a script includes: a name, and the path.
fn revolts() -> Vec<(&'static str, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = vec![("its names", root.join("tests/revolt.php"))];
    let packaged = ["/", concat!(env!("CARGO_TARGET_TMPDIR"), "/../php-revolt-event-loop")]
        .map(|at| Path::new(at).join("usr/share/php/Revolt/EventLoop/autoload.php"));
    found.extend(packaged.into_iter().find(|path| path.exists()).map(|path| ("Revolt", path)));
    found.into_iter().map(|(name, path)| (name, path.to_str().unwrap().to_owned())).collect()
}

/// What begins a script that uses it.
fn using(revolt: &str) -> String {
    format!(
        "<?php use Revolt\\EventLoop; use Revolt\\EventLoop\\{{CallbackType, FiberLocal}};
         putenv('REVOLT_DRIVER=Tokamak\\RevoltDriver'); require_once '{revolt}';\n"
    )
}

/// What each prints in every mode.
const EVERYWHERE: &[(&str, &str, &str)] = &[
    (
        "the driver",
        "$d = EventLoop::getDriver(); EventLoop::run();
         echo get_class($d), ' ', json_encode([$d->isRunning(), $d->getHandle()]);",
        r"Tokamak\RevoltDriver [false,null]",
    ),
    (
        "a suspension is resumed by a timer",
        "$s = EventLoop::getSuspension(); EventLoop::delay(0.002, fn() => $s->resume('late'));
         echo $s->suspend(), ' ', $s === EventLoop::getSuspension() ? 'same' : 'other';",
        "late same",
    ),
    (
        "a suspension is thrown into",
        "$s = EventLoop::getSuspension();
         EventLoop::queue(fn() => $s->throw(new LogicException('t')));
         try { $s->suspend(); } catch (LogicException $e) { echo $e->getMessage(); }
         EventLoop::defer(fn() => $s->resume('again')); echo ' ', $s->suspend();",
        "t again",
    ),
    (
        "order",
        "$say = fn($what) => function () use ($what) { echo $what, ' '; };
         EventLoop::delay(0, $say('timer')); EventLoop::defer($say('deferred'));
         EventLoop::queue($say('queued'));
         EventLoop::defer(function () use ($say) { EventLoop::queue($say('microtask'));
             EventLoop::defer($say('next-tick')); echo 'first '; });
         EventLoop::defer($say('second'));
         EventLoop::run(); echo 'end';",
        "queued deferred first microtask second timer next-tick end",
    ),
    (
        "timers come in the order of time",
        // A busy machine may make a pause between two of these lines.
        "foreach ([0.2, 0.001, 0.1] as $t) EventLoop::delay($t, function () use ($t) {
             echo $t, ' '; });
         EventLoop::run();",
        "0.001 0.1 0.2 ",
    ),
    (
        "what repeats is cancelled",
        "$n = 0; EventLoop::repeat(0.001, function ($id) use (&$n) { echo ++$n;
             if ($n === 3) EventLoop::cancel($id); });
         EventLoop::run();",
        "123",
    ),
    (
        "streams",
        "[$a, $b] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
         EventLoop::onWritable($a, function ($id, $s) { fwrite($s, 'hello');
             EventLoop::cancel($id); });
         EventLoop::onReadable($b, function ($id, $s) { echo fread($s, 9), ' ';
             EventLoop::cancel($id); });
         EventLoop::run(); echo 'end';",
        "hello end",
    ),
    (
        "disabled, enabled, not referenced",
        "$off = EventLoop::delay(0, function () { echo 'never '; }); EventLoop::disable($off);
         $on = EventLoop::defer(function () { echo 'on '; });
         EventLoop::disable($on); EventLoop::enable($on);
         $far = EventLoop::unreference(EventLoop::delay(3600, function () { echo 'never '; }));
         echo json_encode([EventLoop::isEnabled($off), EventLoop::isReferenced($far),
             EventLoop::getType($far) === CallbackType::Delay,
             EventLoop::getIdentifiers() === [$off, $on, $far]]), ' ';
         EventLoop::run(); EventLoop::cancel($off); EventLoop::cancel($far);
         echo count(EventLoop::getIdentifiers());",
        "[false,false,true,true] on 0",
    ),
    (
        "a deferred callback disables a later one",
        "$later = null; EventLoop::defer(function () use (&$later) { EventLoop::disable($later); });
         $later = EventLoop::defer(function () { echo 'never'; });
         EventLoop::run(); echo 'end';",
        "end",
    ),
    (
        "stop",
        "EventLoop::repeat(0.001, function () { echo 'once'; EventLoop::getDriver()->stop(); });
         EventLoop::run();",
        "once",
    ),
    (
        "callbacks suspend themselves side by side",
        "$work = fn($name) => function () use ($name) { echo \"$name begins, \";
             $s = EventLoop::getSuspension();
             EventLoop::delay($name === 'a' ? 0.5 : 0.001, fn() => $s->resume($name));
             echo $s->suspend(), ' ends, '; };
         EventLoop::queue($work('a')); EventLoop::queue($work('b')); EventLoop::run(); echo 'end';",
        "a begins, b begins, b ends, a ends, end",
    ),
    (
        "a Fiber of the application",
        "$f = new Fiber(function () { $s = EventLoop::getSuspension();
             EventLoop::delay(0.001, fn() => $s->resume('resumed')); echo $s->suspend(), ' '; });
         $f->start(); echo 'started '; EventLoop::run(); echo $f->isTerminated() ? 'over' : 'not';",
        "started resumed over",
    ),
    (
        "a Fiber that is thrown into",
        "$s = null; $f = new Fiber(function () use (&$s) { $s = EventLoop::getSuspension();
             try { $s->suspend(); } catch (LogicException $e) { echo $e->getMessage(); } });
         $f->start(); EventLoop::queue(fn() => $s->throw(new LogicException('into')));
         EventLoop::run();",
        "into",
    ),
    (
        "an exception that nobody handles ends the loop",
        "EventLoop::queue(function () { throw new LogicException('mine'); });
         EventLoop::queue(function () { echo 'second '; });
         try { EventLoop::run(); } catch (Error $e) {
             echo get_class($e), ' ', get_class($e->getPrevious()), ' '; }
         EventLoop::run();",
        r"Revolt\EventLoop\UncaughtThrowable LogicException second ",
    ),
    (
        "an exception goes to the suspended handler",
        "EventLoop::delay(0.001, function () { throw new LogicException('mine'); });
         $s = EventLoop::getSuspension();
         try { $s->suspend(); } catch (Error $e) { echo get_class($e->getPrevious()), ' '; }
         $s = EventLoop::getSuspension();
         EventLoop::queue(fn() => $s->resume('on')); echo $s->suspend();",
        "LogicException on",
    ),
    (
        "a handler of errors",
        "EventLoop::setErrorHandler(function ($e) { echo $e->getMessage(), ' '; });
         EventLoop::queue(function () { throw new LogicException('one'); });
         EventLoop::defer(function () { throw new LogicException('two'); });
         EventLoop::run(); EventLoop::setErrorHandler(function ($e) { throw $e; });
         EventLoop::queue(function () { throw new LogicException('three'); });
         try { EventLoop::run(); } catch (Error $e) { echo get_class($e->getPrevious()); }
         EventLoop::setErrorHandler(null); echo json_encode(EventLoop::getErrorHandler());",
        "one two LogicExceptionnull",
    ),
    (
        "a callback returns nothing",
        "EventLoop::defer(fn() => 1);
         try { EventLoop::run(); } catch (Error $e) { echo get_class($e->getPrevious()); }",
        r"Revolt\EventLoop\InvalidCallbackError",
    ),
    (
        "misuse",
        "$s = EventLoop::getSuspension();
         foreach ([fn() => $s->resume(), fn() => $s->suspend(), fn() => EventLoop::enable('?'),
             fn() => EventLoop::reference('?'), fn() => EventLoop::delay(-1, fn() => null),
             fn() => EventLoop::onSignal(15, fn() => null),
             fn() => (new Fiber(fn() => EventLoop::run()))->start(),
             fn() => (new Fiber(fn() => $s->suspend()))->start()] as $wrong) {
             try { $wrong(); echo 'fine '; } catch (Throwable $e) {
                 echo substr(strrchr('\\\\' . get_class($e), '\\\\'), 1), ' '; } }
         EventLoop::queue(function () { try { EventLoop::run(); } catch (Error $e) {
             echo substr($e->getMessage(), 0, 33); } });
         EventLoop::run();",
        "Error Error InvalidCallbackError InvalidCallbackError Error UnsupportedFeatureException \
         Error Error The event loop is already running",
    ),
    (
        "exit in a callback",
        "register_shutdown_function(function () { echo ' end'; });
         EventLoop::delay(0.001, function () { echo 'bye'; exit; });
         EventLoop::getSuspension()->suspend(); echo 'never';",
        "bye end",
    ),
    (
        "what is left goes with the request",
        "EventLoop::delay(0, function () { echo 'never'; }); EventLoop::repeat(0, fn() => null);
         EventLoop::queue(function () { echo 'never'; });
         echo count(EventLoop::getIdentifiers());",
        "2",
    ),
    (
        "a Fiber that is left cleans up",
        "EventLoop::queue(function () { try { EventLoop::getSuspension()->suspend(); }
             finally { echo ' cleaned'; } });
         EventLoop::run(); echo 'end';",
        "end cleaned",
    ),
    (
        "values by Fiber",
        "$n = 0; $local = new FiberLocal(function () use (&$n) { return ++$n; });
         EventLoop::queue(function () use ($local) { echo $local->get(), $local->get(); });
         EventLoop::queue(function () use ($local) { echo $local->get(); });
         EventLoop::run(); echo $local->get();",
        "1123",
    ),
];

fn scripts(revolt: &str, cases: &[(&str, &str, &str)]) -> Vec<(String, String)> {
    let file = |(i, (_, code, _)): (usize, &(&str, &str, &str))| {
        (format!("c{i}.php"), using(revolt) + code)
    };
    cases.iter().enumerate().map(file).collect()
}

fn borrowed(files: &[(String, String)]) -> Vec<(&str, &str)> {
    files.iter().map(|(name, code)| (name.as_str(), code.as_str())).collect()
}

#[test]
fn one_program_runs_in_every_mode() {
    for (revolt, path) in revolts() {
        let files = scripts(&path, EVERYWHERE);
        let worker = [("mode", "worker"), ("script", "%root%/worker.php")];
        let mut with_worker = borrowed(&files);
        with_worker.push(("worker.php", crate::concurrent::INCLUDE));
        let sites = [
            ("async", site(&borrowed(&files), &[])),
            ("async, in turns", site(&borrowed(&files), &[("seed", "5")])),
            ("worker", Site::start(&with_worker, &worker, 1)),
            ("classic", Site::classic(&borrowed(&files))),
        ];
        for (mode, mut site) in sites {
            // All at once, several of each.
            let asks: Vec<_> =
                (0..2 * files.len()).map(|n| get(&format!("/c{}.php", n % files.len()))).collect();
            for (n, answer) in texts(&site.ask_all(&asks)).iter().enumerate() {
                let (name, _, expected) = EVERYWHERE[n % files.len()];
                assert_eq!(answer, expected, "{name}, {mode}, {revolt}\n{}", site.log());
            }
            assert_eq!(site.log(), "", "{mode}, {revolt}");
        }
    }
}

/// A client of HTTP as amphp's are: it suspends its Fiber until its stream is ready.
const FETCH: &str = r#"
$fetch = function (int $port, string $path): string {
    $s = EventLoop::getSuspension();
    $stream = stream_socket_client("tcp://127.0.0.1:$port", flags: STREAM_CLIENT_CONNECT
        | STREAM_CLIENT_ASYNC_CONNECT);
    stream_set_blocking($stream, false);
    $id = EventLoop::onWritable($stream, fn() => $s->resume());
    $s->suspend();
    EventLoop::cancel($id);
    fwrite($stream, "GET $path HTTP/1.1\r\nHost: x\r\n\r\n");
    $id = EventLoop::onReadable($stream, fn() => $s->resume());
    for ($text = ''; !feof($stream); $text .= fread($stream, 8192)) {
        $s->suspend();
    }
    EventLoop::cancel($id);
    return substr($text, strpos($text, "\r\n\r\n") + 4);
};
$all = function (array $tasks): array {
    $s = EventLoop::getSuspension();
    $results = [];
    foreach ($tasks as $key => $task) {
        EventLoop::queue(function () use ($s, &$results, $key, $task, $tasks) {
            $results[$key] = $task();
            count($results) === count($tasks) && $s->resume();
        });
    }
    $s->suspend();
    ksort($results);
    return $results;
};
"#;

#[test]
fn requests_run_their_loops_side_by_side() {
    for (revolt, path) in revolts() {
        // Nobody is answered before all ask: three streams of each of eight requests.
        let port = answers_together(24);
        let code = format!(
            "{}{FETCH} $n = $_GET['n']; $ask = fn($what) => fn() => $fetch({port}, \"/$n$what\");
             header(\"X-N: $n\"); ini_set('user_agent', $n);
             echo implode(' ', $all([$ask('a'), $ask('b'), $ask('c')]));
             $s = EventLoop::getSuspension(); $seen = [];
             EventLoop::repeat(0.001, function ($id) use ($s, &$seen) {{
                 $seen[] = $_GET['n'] . ini_get('user_agent');
                 if (count($seen) === 5) {{ EventLoop::cancel($id); $s->resume(); }} }});
             $s->suspend(); echo ' ', implode(array_unique($seen));",
            using(&path)
        );
        let mut site = site(&[("ask.php", &code)], &[("seed", "7")]);
        let asks: Vec<_> = (0..8).map(|n| get(&format!("/ask.php?n={n}"))).collect();
        for (n, answer) in site.ask_all(&asks).iter().enumerate() {
            let expected = format!("/{n}a /{n}b /{n}c {n}{n}");
            assert_eq!(answer.text(), expected, "{revolt}\n{}", site.log());
            assert_eq!(answer.header("X-N"), n.to_string());
        }
        assert_eq!(site.log(), "", "{revolt}");
    }
}

#[test]
fn a_loop_is_of_one_request() {
    for (revolt, path) in revolts() {
        let code = format!(
            "{} $n = $_GET['n']; $local = new FiberLocal(fn() => $n);
             $driver = EventLoop::getDriver(); $s = EventLoop::getSuspension();
             EventLoop::setErrorHandler(function ($e) use ($n) {{
                 echo $n, $e->getMessage(), ' '; }});
             EventLoop::delay(0.01, fn() => throw new LogicException($n));
             EventLoop::delay(0.02, fn() => $s->resume($local->get()));
             // As long as others have theirs, this one has none of theirs.
             EventLoop::repeat(3600, fn() => null);
             echo count(EventLoop::getIdentifiers()), ' ';
             echo $s->suspend(), $local->get(), $driver === EventLoop::getDriver() ? '' : 'other';",
            using(&path)
        );
        let mut site = site(&[("own.php", &code)], &[("seed", "3")]);
        for round in 0..2 {
            let asks: Vec<_> = (0..16).map(|n| get(&format!("/own.php?n={n}"))).collect();
            for (n, text) in texts(&site.ask_all(&asks)).iter().enumerate() {
                let expected = format!("3 {n}{n} {n}{n}");
                assert_eq!(*text, expected, "{revolt}, {round}\n{}", site.log());
            }
        }
        assert_eq!(site.log(), "", "{revolt}");
    }
}

#[test]
fn requests_leave_no_memory_of_their_loops_behind() {
    for (revolt, path) in revolts() {
        let code = format!(
            "{} $s = EventLoop::getSuspension(); EventLoop::delay(0.001, fn() => $s->resume());
             EventLoop::queue(fn() => EventLoop::getSuspension()->suspend());
             EventLoop::repeat(1, fn() => str_repeat('x', 10)); $s->suspend();
             $maps = count(file('/proc/self/maps')); echo memory_get_usage(), ' ', $maps;",
            using(&path)
        );
        let mut site = site(&[("left.php", &code)], &[("ini.zend.enable_gc", "0")]);
        let mut left_by = |count: usize| -> Vec<usize> {
            let asks: Vec<_> = (1..count).map(|_| get("/left.php")).collect();
            site.ask_all(&asks[..count.min(20) - 1]);
            for _ in 20..count {
                site.get("/left.php");
            }
            let text = site.get("/left.php").text();
            text.split(' ').map(|n| n.parse().expect(&text)).collect()
        };
        let (few, many) = (left_by(20), left_by(220));
        // What Revolt itself makes for each loop, and drops, is less; a callback's Fiber is more.
        assert!(many[0] < few[0] + 200 * 12 * 1024, "{revolt}: {few:?} bytes, then {many:?}");
        assert!(many[1] < few[1] + 50, "{revolt}: {few:?} mappings, then {many:?}");
    }
}

#[test]
fn a_client_that_leaves_ends_the_loop_of_its_request() {
    for (revolt, path) in revolts() {
        let code = format!(
            "{} [$a, $b] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
             EventLoop::setErrorHandler(fn() => null);
             EventLoop::onReadable($a, fn() => null);
             EventLoop::queue(function () {{ try {{ error_log('begins'); sleep(3600); }}
                 finally {{ error_log('the callback cleans up'); }} }});
             EventLoop::queue(fn() => error_log('begun'));
             try {{ EventLoop::getSuspension()->suspend(); }}
             catch (Tokamak\\CancellationError $e) {{ error_log('cancelled'); throw $e; }}",
            using(&path)
        );
        let wait = code.replace("sleep(3600)", "1");
        for (name, code) in [("a callback", code), ("streams", wait)] {
            let mut site = site(&[("wait.php", &code), ("small.php", "<?php echo 'small';")], &[]);
            let (slot, _) = site.submit(&get("/wait.php"));
            site.wait_for_log(if name == "streams" { "begun" } else { "begins" });
            site.producer.abort(slot);
            site.wait_for_log("cancelled");
            site.wait_for_log("the callback cleans up");
            assert_eq!(site.get("/small.php").text(), "small", "{name}, {revolt}");
        }
    }
}

#[test]
fn coroutines_of_a_request_cannot_run_its_loop_twice() {
    for (revolt, path) in revolts() {
        let code = format!(
            "{} $wait = function () {{ $s = EventLoop::getSuspension();
                 EventLoop::delay(0.01, fn() => $s->resume('waited')); return $s->suspend(); }};
             echo Tokamak\\await(Tokamak\\async($wait)), ' ';
             try {{ Tokamak\\all([$wait, $wait]); }}
             catch (Error $e) {{ echo $e->getMessage(); }}",
            using(&path)
        );
        let mut site = site(&[("two.php", &code)], &[]);
        let text = site.get("/two.php").text();
        let expected = "waited The event loop is already running. A coroutine";
        assert!(text.starts_with(expected), "{revolt}: {text}\n{}", site.log());
    }
}
