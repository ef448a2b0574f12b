//! Which script, and which site, answers.

use crate::harness::{Kind, Setup, check, get, on_every_server, row};

on_every_server! { front_controller, sites_by_host }

fn front_controller(kind: Kind) {
    let server = Setup::new(kind).site("sites/front").front_controller("index.php").start();
    check(
        &server,
        vec![
            row("root", get("/")).body("front /index.php / []"),
            row("pretty", get("/blog/post-1?page=2")).body("front /index.php /blog/post-1?page=2 []"),
            row("looks like a file", get("/image.png")).body("front /index.php /image.png []"),
            row("escaped", get("/caf%C3%A9/%2F")).body("front /index.php /caf%C3%A9/%2F []"),
            row("trailing slash", get("/blog/")).body("front /index.php /blog/ []"),
            row("a file is a file", get("/real.txt")).body("a real file"),
            row("another script", get("/admin.php")).body("admin /admin.php []"),
            row("another script with path info", get("/admin.php/users/1"))
                .body("admin /admin.php [/users/1]"),
            row("the controller by name", get("/index.php/a?b")).body("front /index.php /index.php/a?b [/a]"),
            row("no such script", get("/missing.php")).status(404),
        ],
    );
}

fn sites_by_host(kind: Kind) {
    let server =
        Setup::new(kind).also("other.test", "sites/other").also("*.wild.test", "sites/other").start();
    let host = |target: &str, host: &str| get(target).header("Host", host);
    check(
        &server,
        vec![
            row("first", host("/hello.php", "localhost")).body("Hello from PHP"),
            row("other", host("/", "other.test")).body("other site other.test"),
            row("with a port", host("/", "other.test:8080")).body("other site other.test"),
            row("upper case", host("/", "OTHER.Test")).body("other site other.test"),
            row("wildcard", host("/", "a.wild.test")).contains("other site"),
            row("unknown name: the first", host("/hello.php", "unknown.test")).body("Hello from PHP"),
            row("address", host("/hello.php", "127.0.0.1")).body("Hello from PHP"),
            row("not in the other root", host("/hello.php", "other.test")).status(404),
        ],
    );
    let mut connection = server.connect();
    for _ in 0..3 {
        let hello = connection.exchange(&host("/hello.php", "localhost"));
        assert_eq!(hello.expect(200).text(), "Hello from PHP");
        assert_eq!(connection.exchange(&host("/", "other.test")).expect(200).text(), "other site other.test");
    }
}
