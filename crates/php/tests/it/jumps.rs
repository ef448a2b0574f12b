//! Async mode: an `exit` or a fatal error of a destructor, while what is a request's own ends.

use tokamak_sys::control::Status;

use crate::concurrent::site;
use crate::harness::*;

/// Changes its state in many ways; what it does at last, its error handler does when it goes.
fn dirty(at_last: &str) -> String {
    format!(
        "<?php
         $last = new class {{
             public function handle() {{}}
             public function __destruct() {{ {at_last} }}
         }};
         libxml_use_internal_errors(true);
         mb_regex_set_options('x');
         ini_set('precision', '5');
         mt_srand(3);
         $_SESSION['left'] = 'left';
         set_exception_handler(fn () => 0);
         set_error_handler([$last, 'handle']);
         unset($last);
         echo 'dirty';"
    )
}

const SEEN: &str = "$seen = fn () => json_encode([
    libxml_use_internal_errors(), mb_regex_set_options(), ini_get('precision'),
    $_SESSION['left'] ?? 'none', get_class(set_error_handler(null) ?? new stdClass),
    get_class(set_exception_handler(null) ?? new stdClass), $_GET['n']]);";

fn expected(n: u32) -> String {
    format!("[false,\"pr\",\"14\",\"none\",\"stdClass\",\"stdClass\",\"{n}\"]")
}

fn files(at_last: &str) -> [(&'static str, String); 3] {
    let wait = format!(
        "<?php touch(__DIR__ . '/begun');
         while (!file_exists(__DIR__ . '/go')) {{ usleep(1000); clearstatcache(); }}
         {SEEN} echo $seen();"
    );
    [
        ("dirty.php", dirty(at_last)),
        ("see.php", format!("<?php {SEEN} echo $seen();")),
        ("wait.php", wait),
    ]
}

#[test]
fn an_exit_while_a_request_ends_leaves_nothing_of_it() {
    for at_last in ["exit;", "throw new Exception('at last');", "usleep(1000); exit;"] {
        let files = files(at_last);
        let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
        let mut site = site(&files, &[]);
        assert_eq!(site.get("/see.php?n=1").text(), expected(1));
        for n in 2..5 {
            assert_eq!(site.get("/dirty.php").text(), "dirty", "{at_last}");
            let seen = site.get(&format!("/see.php?n={n}")).text();
            assert_eq!(seen, expected(n), "{at_last}\n{}", site.log());
        }
    }
}

#[test]
fn a_fatal_error_while_a_request_ends_is_seen_by_no_other() {
    let files = files("trigger_error('dead at last', E_USER_ERROR);");
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let mut site = site(&files, &[("ini.display_errors", "0"), ("ini.log_errors", "1")]);
    let wait = site.submit(&get("/wait.php?n=7"));
    crate::fibers::until_exists(&site, "begun");
    assert_eq!(site.get("/dirty.php").text(), "dirty", "{}", site.log());
    site.wait_for_log("dead at last");
    let log = site.wait_for_log("takes no more requests");
    assert!(log.contains("request=\"GET /dirty.php\""), "{log}");
    std::fs::write(site.file("go"), "").unwrap();
    let wait = site.collect(wait, b"", |_| false);
    assert_eq!(wait.text(), expected(7), "{}", site.log());
    assert_eq!(site.hear_exit(), Status::Code(0), "{}", site.log());
}
