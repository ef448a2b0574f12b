//! Which script, and which site, answers.

use crate::harness::{Kind, Setup, check, get, on_every_server, row};

/// A wiki may have a page for everything; files stay files, and what is hidden is never sent.
#[test]
fn front_controllers_may_have_more() {
    let setup = |lines: &str| {
        let setup = Setup::new(Kind::Classic).site("sites/front").front_controller("index.php");
        setup.site_line(lines).start()
    };
    let write = |server: &crate::harness::Server| {
        std::fs::create_dir(server.places.root().join(".git")).unwrap();
        std::fs::write(server.places.root().join(".git/config"), "secret").unwrap();
    };
    let server = setup("front_controller_for = [\"php\", \"hidden\"]");
    write(&server);
    let front = |target: &str| format!("front /index.php {target} []");
    check(
        &server,
        vec![
            row("no such script", get("/wiki/Test.php")).body(front("/wiki/Test.php")),
            row("nor below it", get("/wiki/Test.php/a?b")).body(front("/wiki/Test.php/a?b")),
            row("a hidden name", get("/wiki/.hidden")).body(front("/wiki/.hidden")),
            row("encoded", get("/a/%2Ewell")).body(front("/a/%2Ewell")),
            row("a hidden file", get("/.git/config")).body(front("/.git/config")),
            row("out of the root", get("/../.git/config")).status(400),
            row("another script", get("/admin.php")).body("admin /admin.php []"),
            row("a file is a file", get("/real.txt")).body("a real file"),
        ],
    );
    let server = setup("front_controller_for = [\"php\"]");
    write(&server);
    check(
        &server,
        vec![
            row("no such script", get("/wiki/Test.php")).body(front("/wiki/Test.php")),
            row("a hidden name", get("/wiki/.hidden")).status(404),
            row("a hidden file", get("/.git/config")).status(404),
        ],
    );
    let server = setup("");
    check(
        &server,
        vec![
            row("no such script", get("/wiki/Test.php")).status(404),
            row("a hidden name", get("/wiki/.hidden")).status(404),
        ],
    );
}

on_every_server! { front_controller, sites_by_host }

fn front_controller(kind: Kind) {
    let server = Setup::new(kind).site("sites/front").front_controller("index.php").start();
    check(
        &server,
        vec![
            row("root", get("/")).body("front /index.php / []"),
            row("pretty", get("/blog/post-1?page=2"))
                .body("front /index.php /blog/post-1?page=2 []"),
            row("looks like a file", get("/image.png")).body("front /index.php /image.png []"),
            row("escaped", get("/caf%C3%A9/%2F")).body("front /index.php /caf%C3%A9/%2F []"),
            row("trailing slash", get("/blog/")).body("front /index.php /blog/ []"),
            row("a file is a file", get("/real.txt")).body("a real file"),
            row("another script", get("/admin.php")).body("admin /admin.php []"),
            row("another script with path info", get("/admin.php/users/1"))
                .body("admin /admin.php [/users/1]"),
            row("the controller by name", get("/index.php/a?b"))
                .body("front /index.php /index.php/a?b [/a]"),
            row("no such script", get("/missing.php")).status(404),
        ],
    );
}

fn sites_by_host(kind: Kind) {
    let server = Setup::new(kind)
        .also("other.test", "sites/other")
        .also("*.wild.test", "sites/other")
        .start();
    let host = |target: &str, host: &str| get(target).header("Host", host);
    check(
        &server,
        vec![
            row("first", host("/hello.php", "localhost")).body("Hello from PHP"),
            row("other", host("/", "other.test")).body("other site other.test"),
            row("with a port", host("/", "other.test:8080")).body("other site other.test"),
            row("upper case", host("/", "OTHER.Test")).body("other site other.test"),
            row("wildcard", host("/", "a.wild.test")).contains("other site"),
            row("unknown name: the first", host("/hello.php", "unknown.test"))
                .body("Hello from PHP"),
            row("address", host("/hello.php", "127.0.0.1")).body("Hello from PHP"),
            row("not in the other root", host("/hello.php", "other.test")).status(404),
        ],
    );
    let mut connection = server.connect();
    for _ in 0..3 {
        let hello = connection.exchange(&host("/hello.php", "localhost"));
        assert_eq!(hello.expect(200).text(), "Hello from PHP");
        assert_eq!(
            connection.exchange(&host("/", "other.test")).expect(200).text(),
            "other site other.test"
        );
    }
}
