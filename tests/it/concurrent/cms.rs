//! The site of `examples/cms`: writers and readers at once, and how many of them one process serves
//! while the database takes its time.

use std::process::Command;
use std::time::Duration;

use crate::harness::{Kind, Server, Setup, eventually, form, get, in_parallel, of_kinds, program};
use crate::layers::root;
use crate::services::mariadb::{MariaDb, PASSWORD};
use crate::services::visitor::Visitor;

/// Visitors at once: fewer than threads of [`in_parallel`].
const COUNT: usize = 12;

const PATIENCE: Duration = Duration::from_secs(25);

fn start(kind: Kind) -> (MariaDb, Server) {
    let database = MariaDb::start();
    database.create("reactor");
    let dsn = format!("mysql:host=127.0.0.1;port={};dbname=reactor", database.port());
    let setup = Setup::new(kind)
        .site("../examples/cms")
        .public("public")
        .worker("../worker.php")
        .front_controller("index.php")
        .workers(1)
        .env("CMS_DSN", &dsn)
        .env("CMS_USER", "reactor")
        .env("CMS_PASSWORD", PASSWORD);
    let setup = if kind == Kind::Async { setup.site_line("concurrency = 32") } else { setup };
    (database, setup.start())
}

#[test]
fn its_configuration_passes_the_check() {
    let file = root().join("examples/cms/tokamak.toml");
    let output = Command::new(program()).arg("check").arg("--config").arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

of_kinds!(everybody_writes_as_who_they_are; classic: Classic, concurrent: Async);

fn everybody_writes_as_who_they_are(kind: Kind) {
    let (_database, server) = start(kind);
    server.get("/nowhere").expect(404);
    server.get("/article/nothing").expect(404);
    server.send(&form("/write", "slug=mine&title=Mine")).expect(403);
    in_parallel(COUNT, |number| {
        let mut visitor = Visitor::of(server.address);
        let name = format!("<writer {number}>");
        let shown = format!("&lt;writer {number}&gt;");
        visitor.send(form("/login", &format!("name={name}"))).expect(303);
        let page = visitor.get("/write").expect(200).text();
        assert!(page.contains(&format!("Write, {shown}")), "{page}");

        visitor.send(form("/write", "slug=Not+a+name&title=x")).expect(422);
        let fields = format!("slug=on-{number}&title=On {number}&text=Text of {number}.");
        let written = visitor.send(form("/write", &fields)).expect(303);
        let article = format!("/article/on-{number}");
        assert_eq!(written.header("location"), Some(article.as_str()));
        for count in 1..4 {
            let said = format!("text=comment {count} of {number}");
            visitor.send(form(&article, &said)).expect(303);
            let page = visitor.get(&article).expect(200).text();
            let author = format!("<p>by {shown}</p>");
            let comment = format!("comment {count} of {number} <cite>{shown}</cite>");
            let texts = [&author, &comment, &format!("<p>Text of {number}.</p>")];
            assert!(texts.iter().all(|text| page.contains(*text)), "{texts:?} in {page}");
            assert_eq!(page.matches("<blockquote>").count(), count, "{page}");
        }
        let found = visitor.get(&format!("/?about=On%20{number}")).expect(200).text();
        assert!(found.contains(&format!("by {shown}, 3 comments")), "{found}");
    });
}

/// Somebody locks the articles: all who want them wait in one process, and others are served.
#[test]
fn a_request_that_waits_for_the_database_does_not_hold_up_others() {
    let (database, server) = start(Kind::Async);
    let lock = database.session("LOCK TABLES reactor.articles WRITE; DO GET_LOCK('locked', 0)");
    let is_locked = || database.query("SELECT IS_USED_LOCK('locked') > 0") == "1";
    eventually(PATIENCE, || is_locked().then_some(())).expect("the articles are locked");
    let waiting = "SELECT COUNT(*) FROM information_schema.processlist \
        WHERE state LIKE 'Waiting for table%lock'";
    std::thread::scope(|scope| {
        scope.spawn(|| {
            in_parallel(COUNT, |number| {
                let page = server.get(&format!("/?about=about-{number}")).expect(200).text();
                assert!(page.contains(&format!("value=\"about-{number}\"")), "{page}");
            });
        });
        let all = || (database.query(waiting) == COUNT.to_string()).then_some(());
        let all_came = eventually(PATIENCE, all).is_some();
        let page = all_came.then(|| server.send(&get("/write")));
        drop(lock);
        page.expect("all wait at once").expect(200);
    });
}
