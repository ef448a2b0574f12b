//! Async mode: what of a request goes on when its response, its handler or its coroutine has ended.

use tokamak_sys::control::Status;

use crate::concurrent::site;
use crate::harness::*;

const SMALL: &str = "<?php usleep(1000); echo 'small';";

#[test]
fn a_coroutine_of_a_shutdown_function_waits_while_other_clients_leave() {
    let late = "<?php register_shutdown_function(function () {
            Tokamak\\async(function () {
                touch(__DIR__ . '/begun');
                while (!file_exists(__DIR__ . '/go')) { usleep(1000); clearstatcache(); }
                file_put_contents(__DIR__ . '/ended', $_GET['n'] . Tokamak\\Context::id());
            });
        });
        echo Tokamak\\Context::id();";
    let sleep = "<?php touch(__DIR__ . '/sleeps'); sleep(100);";
    let files = [("late.php", late), ("sleep.php", sleep), ("small.php", SMALL)];
    let mut site = site(&files, &[]);
    let id = site.get("/late.php?n=7").text();
    said(&site, "begun");
    let (sleeps, _) = site.submit(&get("/sleep.php"));
    said(&site, "sleeps");
    site.producer.abort(sleeps);
    until("the other client has left", || site.producer.has_ended(sleeps));
    assert_eq!(site.get("/small.php").text(), "small", "{}", site.log());
    std::fs::write(site.file("go"), "").unwrap();
    until("the coroutine has ended", || said(&site, "ended") == format!("7{id}"));
    assert_eq!(site.get("/small.php").text(), "small", "{}", site.log());
    assert_eq!(site.log(), "");
}

#[test]
fn a_coroutine_that_has_suspended_itself_ends_with_its_request() {
    let code = "<?php
        $f = null;
        $c = Tokamak\\async(function () use (&$f) {
            $f = Fiber::getCurrent();
            try { Fiber::suspend(); }
            catch (Tokamak\\CancellationError $e) {
                file_put_contents(__DIR__ . '/told', $e->getMessage());
            }
        });
        while (!$f?->isSuspended()) { usleep(100); }
        throw new LogicException('mine');";
    let mut site = site(&[("suspend.php", code), ("small.php", SMALL)], &[]);
    let response = site.get("/suspend.php");
    assert_eq!(response.status, 500, "{}", site.log());
    assert_eq!(said(&site, "told"), "the coroutine is cancelled");
    assert_eq!(site.get("/small.php").text(), "small", "{}", site.log());
}

#[test]
fn a_coroutine_that_is_told_to_end_before_it_suspends_itself_ends() {
    let suspend = "<?php
        $c = Tokamak\\async(function () use (&$c, &$f) {
            $f = Fiber::getCurrent();
            $c->cancel();
            Fiber::suspend();
            echo 'never';
        });
        try { Tokamak\\await($c); }
        catch (Tokamak\\CancellationError $e) { echo $e->getMessage(); }";
    let mut site = site(&[("suspend.php", suspend)], &[]);
    assert_eq!(site.get("/suspend.php").text(), "the coroutine is cancelled", "{}", site.log());
}

#[test]
fn a_fatal_error_of_an_autoloader_ends_coroutines() {
    let code = "<?php
        Tokamak\\async(function () {
            try { touch(__DIR__ . '/begun'); sleep(100); }
            finally { usleep(1000); touch(__DIR__ . '/cleaned'); }
        });
        while (!file_exists(__DIR__ . '/begun')) { usleep(100); clearstatcache(); }
        spl_autoload_register(fn($class) => eval(\"class $class { function f(); }\"));
        new Wrong;";
    let wait = "<?php touch(__DIR__ . '/waits');
        while (!file_exists(__DIR__ . '/go')) { usleep(1000); clearstatcache(); }
        echo 'over';";
    let settings = [("ini.display_errors", "0"), ("ini.log_errors", "1")];
    let mut site = site(&[("wrong.php", code), ("wait.php", wait)], &settings);
    let wait = site.submit(&get("/wait.php"));
    said(&site, "waits");
    assert_eq!(site.get("/wrong.php").status, 500, "{}", site.log());
    said(&site, "cleaned");
    std::fs::write(site.file("go"), "").unwrap();
    assert_eq!(site.collect(wait, b"", |_| false).text(), "over", "{}", site.log());
    assert_eq!(site.hear_exit(), Status::Code(0), "{}", site.log());
}

#[test]
fn values_that_a_session_handler_sets_at_the_end_are_gone() {
    let worker = "<?php
        final class Handler extends SessionHandler {
            public function write($id, $data): bool {
                Tokamak\\Context::set('left', new class {
                    public function __destruct() { file_put_contents(__DIR__ . '/gone', 'x'); }
                });
                return true;
            }
        }
        while (tokamak_handle_request(function () {
            echo get_debug_type(Tokamak\\Context::get('left'));
            if (isset($_GET['begin'])) {
                // Not by a shutdown function: PHP itself closes the session.
                session_set_save_handler(new Handler, false);
                session_start();
                $_SESSION['a'] = 'b';
            }
        })) {}";
    let of_async = site(&[("values.php", worker)], &[("script", "%root%/values.php")]);
    for mut site in [Site::worker(worker, &[]), of_async] {
        assert_eq!(site.get("/a?begin=1").text(), "null", "{}", site.log());
        said(&site, "gone");
        assert_eq!(site.get("/a").text(), "null", "{}", site.log());
    }
}

/// PHP ends the script; here the request ends, and the script goes on.
#[test]
fn an_exception_of_an_exception_handler_is_reported() {
    let worker = "<?php
        while (tokamak_handle_request(function () {
            set_exception_handler(fn ($e) => throw new Exception('second', 0, $e));
            register_shutdown_function(fn () => print('shut down'));
            throw new Exception('first');
        })) {}";
    let of_async = site(&[("thrown.php", worker)], &[("script", "%root%/thrown.php")]);
    for mut site in [Site::worker(worker, &[]), of_async] {
        for times in 1..3 {
            let response = site.get("/a");
            assert_eq!((response.status, response.text().as_str()), (500, "shut down"));
            assert_eq!(site.log().matches("Uncaught Exception: first").count(), times);
            assert_eq!(site.log().matches("Next Exception: second").count(), times);
        }
    }
}

/// As in php-fpm. A handler that the application keeps is not at its end.
#[test]
fn what_a_save_handler_prints_as_it_is_destructed_is_in_the_response() {
    let worker = "<?php
        final class Handler extends SessionHandler {
            public function __destruct() { echo ' destructed'; }
        }
        while (tokamak_handle_request(function () {
            static $kept = [];
            $handler = new Handler;
            session_set_save_handler($handler, $_GET['a'] !== 'late');
            session_start();
            echo 'begun';
            if ($_GET['a'] === 'kept') { $kept[] = $handler; }
        })) {}";
    let of_async = site(&[("handler.php", worker)], &[("script", "%root%/handler.php")]);
    for mut site in [Site::worker(worker, &[]), of_async] {
        for _ in 0..2 {
            assert_eq!(site.get("/?a=b").text(), "begun destructed", "{}", site.log());
            assert_eq!(site.get("/?a=late").text(), "begun destructed", "{}", site.log());
            assert_eq!(site.get("/?a=kept").text(), "begun", "{}", site.log());
        }
    }
}

#[test]
fn a_coroutine_that_a_destructor_begins_at_the_end_runs_at_once() {
    let code = "<?php
        $GLOBALS['_SESSION'] = [];
        $_SESSION['last'] = new class {
            public function __destruct() {
                Tokamak\\async(fn() => file_put_contents(__DIR__ . '/ran', 'x'));
            }
        };
        echo 'begun';";
    let mut site = site(&[("last.php", code), ("small.php", SMALL)], &[]);
    for _ in 0..3 {
        assert_eq!(site.get("/last.php").text(), "begun", "{}", site.log());
        said(&site, "ran");
        std::fs::remove_file(site.file("ran")).unwrap();
        assert_eq!(site.get("/small.php").text(), "small", "{}", site.log());
    }
    assert_eq!(site.log(), "");
}
