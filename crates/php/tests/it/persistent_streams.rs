//! Persistent streams of async mode: each request and each coroutine under way finds its own, and
//! none that another has closed.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};

use crate::concurrent::{site, texts};
use crate::harness::*;

/// Answers each line with the number of its connection, the first of which is 1.
fn numbers_connections() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for (client, number) in listener.incoming().map_while(Result::ok).zip(1..) {
            std::thread::spawn(move || {
                let lines = BufReader::new(client.try_clone().unwrap()).lines();
                for _ in lines.map_while(Result::ok) {
                    if (&client).write_all(format!("{number}\n").as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

const BEGIN: &str = "<?php
$open = fn() => pfsockopen('127.0.0.1', (int) $_GET['port']);
$number = function ($stream) { fwrite($stream, \"x\n\"); return (int) fgets($stream); };
";

/// What one request prints.
fn printed(code: &str) -> String {
    let mut site = site(&[("case.php", &format!("{BEGIN}{code}"))], &[]);
    let answer = site.get(&format!("/case.php?port={}", numbers_connections())).text();
    assert_eq!(site.log(), "");
    answer
}

#[test]
fn a_stream_that_another_request_has_closed_is_not_found_again() {
    let code = "
        require_once __DIR__ . '/shared.php';
        if ($_GET['who'] === 'closer') {
            while (!Shared::$stream) usleep(1000);
            $mine = $open();
            fclose(Shared::$stream);
            Shared::$is_closed = true;
            echo $number($mine);
            return;
        }
        echo $number($open());
        Shared::$stream = $open();
        while (!Shared::$is_closed) usleep(1000);
        $again = $open();
        echo ' ', $number($again), ' ', $open() === $again ? 'same' : 'other';";
    let case = format!("{BEGIN}{code}");
    let shared = "<?php final class Shared {
        public static $stream; public static bool $is_closed = false; }";
    for seed in ["0", "1", "7"] {
        let files = [("case.php", case.as_str()), ("shared.php", shared)];
        let mut site = site(&files, &[("seed", seed)]);
        let port = numbers_connections();
        let asks = ["opener", "closer"].map(|who| get(&format!("/case.php?who={who}&port={port}")));
        let answers = texts(&site.ask_all(&asks));
        assert_eq!(answers, ["1 3 same", "2"], "seed {seed}\n{}", site.log());
        assert_eq!(site.log(), "");
    }
}

#[test]
fn a_stream_that_a_coroutine_has_closed_is_not_found_again() {
    let code = "
        use function Tokamak\\{async, await};
        $of_handler = $open();
        echo $number($of_handler);
        await(async(fn() => fclose($of_handler)));
        echo $number($open());
        $of_coroutine = await(async($open));
        echo $number($of_coroutine);
        fclose($of_coroutine);
        echo await(async(fn() => $number($open())));";
    assert_eq!(printed(code), "1234");
}

/// A Fiber that one has made and another resumes has the connections of the one that resumes it,
/// and a coroutine that ends meanwhile gives nothing away but its own.
#[test]
fn a_fiber_has_the_streams_of_the_request_that_resumes_it() {
    let code = "
        use function Tokamak\\{async, await};
        $of_handler = $number($open());
        $made = new Tokamak\\Deferred;
        $ends = new Tokamak\\Deferred;
        $goes_on = new Tokamak\\Deferred;
        $coroutine = async(function () use ($made, $ends, $goes_on, $open, $number) {
            $mine = $number($open());
            $fiber = new Fiber(function () use ($goes_on, $open, $number) {
                Fiber::suspend();
                $before = $number($open());
                await($goes_on);
                return [$before, $number($open())];
            });
            $fiber->start();
            $made->complete($fiber);
            await($ends);
            return [$mine, $number($open())];
        });
        $fiber = await($made);
        $other = async(function () use ($ends, $coroutine, $goes_on, $open, $number) {
            $ends->complete();
            $all = await($coroutine);
            $all[] = await(async(fn() => $number($open())));
            $goes_on->complete();
            return $all;
        });
        $fiber->resume(); // it waits in the handler's, and the coroutine that has made it ends
        $of_fiber = $fiber->getReturn();
        echo json_encode([$of_handler, $of_fiber, await($other), $number($open())]);
        // And a Fiber of the handler that a coroutine resumes.
        $fiber = new Fiber(function () use ($open, $number) {
            Fiber::suspend();
            return $number($open());
        });
        $fiber->start();
        $of_fiber = await(async(function () use ($fiber, $open, $number) {
            $mine = $number($open());
            $fiber->resume();
            return $mine === $fiber->getReturn();
        }));
        echo json_encode([$of_fiber, $number($open())]);";
    assert_eq!(printed(code), "[1,[1,1],[2,2,2],1][true,1]");
}

/// Who waits for it to come back has left its connections, and finds them again.
#[test]
fn a_fiber_of_another_request_has_the_streams_of_that() {
    let code = "
        use function Tokamak\\{async, await};
        require_once __DIR__ . '/shared.php';
        $mine = $number($open());
        if ($_GET['who'] === 'owner') {
            $fiber = new Fiber(function () use ($open, $number) {
                Fiber::suspend();
                $seen = [];
                for ($i = 0; $i < 5; $i++) { $seen[] = $number($open()); usleep(1000); }
                return array_unique($seen);
            });
            $fiber->start();
            Shared::$fiber = $fiber;
            while (!Shared::$is_done) usleep(1000);
            echo json_encode($fiber->getReturn() === [$mine]);
            return;
        }
        while (!Shared::$fiber) usleep(1000);
        $coroutine = async(function () use ($open, $number) {
            $mine = $number($open());
            Shared::$fiber->resume();
            Shared::$is_done = true;
            return [$mine, $number($open())];
        });
        $seen = [];
        while (!Shared::$is_done) { $seen[] = $number($open()); usleep(1000); }
        [$before, $after] = await($coroutine);
        $of_handler = array_unique($seen);
        echo json_encode([$before === $after, $before !== $mine, $of_handler === [$mine]]);";
    let case = format!("{BEGIN}{code}");
    let shared = "<?php final class Shared {
        public static $fiber; public static bool $is_done = false; }";
    let mut site = site(&[("case.php", &case), ("shared.php", shared)], &[]);
    let port = numbers_connections();
    let asks = ["owner", "resumer"].map(|who| get(&format!("/case.php?who={who}&port={port}")));
    let answers = texts(&site.ask_all(&asks));
    assert_eq!(answers, ["true", "[true,true,true]"], "{}", site.log());
    assert_eq!(site.log(), "");
}
