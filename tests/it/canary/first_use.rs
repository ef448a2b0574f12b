//! What a library reads when it is first used in a process, in the environment and in the directory
//! of a request; and how the system's log is opened.

use std::fs;

use crate::harness::{Kind, Server, Setup};

const LDAP: &str = "<?php
$home = getenv('STATE') . '/home';
@mkdir($home);
file_put_contents(\"$home/.ldaprc\", \"TLS_REQCERT never\\n\");
file_put_contents(\"$home/ldaprc\", \"TLS_REQCERT never\\n\");
match ($_GET['do'] ?? '') { 'home' => putenv(\"HOME=$home\"), 'chdir' => chdir($home), default => 0 };
$connection = ldap_connect('ldap://127.0.0.1');
ldap_get_option($connection, LDAP_OPT_X_TLS_REQUIRE_CERT, $demand);
echo getmypid(), ' ', $demand === LDAP_OPT_X_TLS_NEVER ? 'never' : 'demanded';
";

const LOG: &str = "<?php
if (isset($_GET['open'])) {
    openlog('polluted', LOG_PERROR, LOG_USER);
}
syslog(LOG_INFO, $_GET['say']);
";

fn classic(script: &str) -> Server {
    let server = Setup::new(Kind::Classic).workers(1).start();
    fs::write(server.places.root().join("script.php"), script).unwrap();
    server
}

#[test]
fn ldap_is_set_up_by_no_visitor() {
    for way in ["home", "chdir"] {
        let server = classic(LDAP);
        let first = server.text(&format!("/script.php?do={way}"));
        let (process, demand) = first.split_once(' ').unwrap();
        assert_eq!(demand, "never", "{way}: the request itself has what it asks for");
        let next = server.text("/script.php");
        assert!(next.ends_with(" demanded"), "{way}: {next}");
        assert!(!next.starts_with(process), "{way}: the process was not replaced");
        let again = server.text(&format!("/script.php?do={way}"));
        assert_eq!(again, next, "{way}: later uses leave nothing, and replace nothing");
    }
}

#[test]
fn options_of_the_log_are_forgotten() {
    let server = classic(LOG);
    server.get("/script.php?open=1&say=of-the-first").expect(200);
    server.log_line(&["polluted", "of-the-first"]);
    server.get("/script.php?say=of-the-second").expect(200);
    server.get("/script.php?open=1&say=of-the-third").expect(200);
    server.log_line(&["of-the-third"]);
    assert!(!server.log().contains("of-the-second"), "{}", server.log());
}
