//! The environment and `php.ini` settings: as configured, for every request anew.

use std::fs;

use serde_json::Value;

use crate::harness::extensions::scan_directory;
use crate::harness::{Kind, Setup, check, get, in_every_mode, is_root, on_every_server, row};

in_every_mode! { environment_of_the_server }
on_every_server! {
    environment, environment_changes_last_one_request, ini_values, memory_limit, prepended_and_appended,
    errors_are_logged_with_their_request, disabled_functions, folder_of_settings,
}

fn environment(kind: Kind) {
    let server = Setup::new(kind).env("SITE_VAR", "of the site").start();
    check(
        &server,
        vec![
            row("seen by getenv and $_SERVER", get("/env.php"))
                .json("/SITE_VAR/getenv", "of the site")
                .json("/SITE_VAR/server", "of the site")
                .json("/SITE_VAR/env", Value::Null)
                .json("/LEAK/getenv", false),
            row("survives putenv of another", get("/env.php?put=LEAK=1"))
                .json("/SITE_VAR/getenv", "of the site"),
        ],
    );
    // Programs that scripts start look into the home directory, which must not be root's.
    if is_root() {
        let seen = server.get("/env.php").expect(200).json();
        let of_user = [&seen["USER"]["getenv"], &seen["HOME"]["getenv"], &seen["HOME"]["server"]];
        assert_eq!(of_user, ["www-data", "/var/www", "/var/www"]);
    }
    let server = Setup::new(kind)
        .env("HOME", "/of/the/site")
        .env("SITE_VAR", "x")
        .php_value("variables_order", "EGPCS")
        .start();
    check(
        &server,
        vec![
            row("in $_ENV when asked for", get("/env.php"))
                .json("/SITE_VAR/env", "x")
                .json("/HOME/getenv", "/of/the/site"),
        ],
    );
}

/// `PHP_INI_SCAN_DIR` counts in whatever environment the server is started. Workers of php-fpm do
/// not see it, unless `clear_env = no` gives them the environment.
fn folder_of_settings(kind: Kind) {
    let server = Setup::new(kind).start();
    let script =
        "<?php echo trim(php_ini_scanned_files()), ' ', getenv('PHP_INI_SCAN_DIR') ?: 'hidden';";
    fs::write(server.places.root().join("scanned.php"), script).unwrap();
    let folder = scan_directory();
    let seen =
        if matches!(kind, Kind::Fpm | Kind::Fastcgi | Kind::Peer) { "hidden" } else { folder };
    assert_eq!(server.text("/scanned.php"), format!("{folder}/tests.ini {seen}"));
}

/// The server's own environment is passed on, or not, as `inherit_env` says.
fn environment_of_the_server(kind: Kind) {
    for (inherit, expected) in
        [("true", Value::from("of the server")), ("false", Value::from(false))]
    {
        let setup = Setup::new(kind).server_env("SITE_VAR", "of the server");
        let server = setup.site_line(&format!("inherit_env = {inherit}")).start();
        let seen = server.get("/env.php").expect(200).json();
        assert_eq!(seen["SITE_VAR"]["getenv"], expected, "inherit_env = {inherit}");
    }
}

fn environment_changes_last_one_request(kind: Kind) {
    let server = Setup::new(kind).workers(1).env("SITE_VAR", "of the site").start();
    check(
        &server,
        vec![
            row("new", get("/env.php?put=LEAK=leaked")).json("/LEAK/getenv", "leaked"),
            row("new one is gone", get("/env.php")).json("/LEAK/getenv", false),
            row("changed", get("/env.php?put=SITE_VAR=other")).json("/SITE_VAR/getenv", "other"),
            row("is as before", get("/env.php")).json("/SITE_VAR/getenv", "of the site"),
            row("removed", get("/env.php?put=SITE_VAR")).json("/SITE_VAR/getenv", false),
            row("is back", get("/env.php")).json("/SITE_VAR/getenv", "of the site"),
            row("edited", get("/env.php?edit=1"))
                .json("/EDITED/env", "yes")
                .json("/EDITED/server", "yes"),
            row("is gone", get("/env.php"))
                .json("/EDITED/env", Value::Null)
                .json("/EDITED/server", Value::Null),
        ],
    );
}

fn ini_values(kind: Kind) {
    let server = Setup::new(kind)
        .workers(1)
        .php_value("precision", "7")
        .php_admin_value("memory_limit", "77M")
        .start();
    for _ in 0..3 {
        check(
            &server,
            vec![
                row("php_value may be changed, php_admin_value may not", get("/settings.php"))
                    .json("/before/precision", "7")
                    .json("/before/memory_limit", "77M")
                    .json("/changed/precision", "7")
                    .json("/changed/memory_limit", false)
                    .json("/after/precision", "3")
                    .json("/after/memory_limit", "77M"),
            ],
        );
    }
}

fn memory_limit(kind: Kind) {
    let server = Setup::new(kind).workers(1).php_value("memory_limit", "24M").start();
    for _ in 0..2 {
        check(
            &server,
            vec![
                row("within", get("/hello.php")).body("Hello from PHP"),
                row("beyond", get("/fail.php?how=memory"))
                    .contains("Allowed memory size of 16777216 bytes exhausted")
                    .contains("[shutdown]"),
            ],
        );
        assert_eq!(server.get("/settings.php").json()["before"]["memory_limit"], "24M");
    }
}

fn prepended_and_appended(kind: Kind) {
    let setup = Setup::new(kind).workers(1);
    // Relative names are looked up in the include path.
    let include = setup
        .php_value("auto_prepend_file", "prepend.php")
        .php_value("auto_append_file", "append.php");
    let server = include.php_value("include_path", ".").start();
    if kind.has_loop() {
        // The worker script is the only one that is started, so it is the one that is prepended to.
        assert_eq!(server.get("/settings.php").json()["before"]["prepended"], 1);
        return;
    }
    for _ in 0..2 {
        assert_eq!(server.text("/hello.php"), "prepended Hello from PHP appended");
    }
}

fn errors_are_logged_with_their_request(kind: Kind) {
    let server = Setup::new(kind).php_value("display_errors", "0").start();
    assert_eq!(server.text("/log.php?name=first-caller"), "logged");
    server.log_line(&["a message for first-caller", "/log.php?name=first-caller"]);
    server.log_line(&["Undefined variable $undefined", "/log.php?name=first-caller"]);
    // This message has several lines; the request is in one of them.
    server.get("/fail.php?how=exception&name=second-caller");
    server.log_line(&["Uncaught LogicException: nobody catches this"]);
    server.log_line(&["/fail.php?how=exception&name=second-caller"]);
}

fn disabled_functions(kind: Kind) {
    let server =
        Setup::new(kind).php_admin_value("disable_functions", "phpversion, system").start();
    assert_eq!(server.get("/settings.php").json()["disabled"], false, "phpversion() is disabled");
    let server = Setup::new(kind).start();
    assert_eq!(server.get("/settings.php").json()["disabled"], true, "phpversion() is there");
}
