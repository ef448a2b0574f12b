//! phpMyAdmin as Debian packages it: its log-in page in classic mode and under php-fpm, and with
//! the boot script of `examples/phpmyadmin` in sealed mode.

use std::collections::BTreeSet;
use std::sync::Mutex;

use crate::harness::{Kind, Server, Setup, form, in_parallel, tests};
use crate::services::visitor::Visitor;

crate::harness::of_kinds!(
    gives_each_visitor_a_log_in_page;
    classic: Classic, sealed: Sealed, peer: Peer
);

fn start(kind: Kind) -> Server {
    let boot = tests().join("../examples/phpmyadmin/boot.php");
    Setup::new(kind)
        .site("sites/phpmyadmin")
        .boot(boot.to_str().unwrap())
        .front_controller("index.php")
        .php_value("display_errors", "0")
        .start()
}

/// A hidden field of the form.
fn field<'a>(page: &'a str, name: &str) -> &'a str {
    let begin = format!("name=\"{name}\" value=\"");
    let (_, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("no {name} in {page}"));
    rest.split_once('"').unwrap().0
}

fn gives_each_visitor_a_log_in_page(kind: Kind) {
    let server = start(kind);
    let tokens = Mutex::new(BTreeSet::new());
    in_parallel(8, |number| {
        let mut visitor = Visitor::of(server.address);
        let page = visitor.get("/?lang=de").expect(200).text();
        assert!(page.contains("lang=\"de\""), "{page}");
        let page = visitor.get("/").expect(200).text();
        assert!(page.contains("lang=\"de\""), "the cookie says so: {page}");
        let english = Visitor::of(server.address).get("/").expect(200).text();
        assert!(english.contains("lang=\"en\""), "{english}");
        let token = field(&page, "token");
        log_in(&mut visitor, &page, token, number);
        tokens.lock().unwrap().insert(token.to_owned());
    });
    assert_eq!(tokens.lock().unwrap().len(), 8, "each has a token of its own");
}

/// The token is looked at first, and then the database, where nobody of that name is.
fn log_in(visitor: &mut Visitor, page: &str, token: &str, number: usize) {
    let session = field(page, "set_session");
    for (token, has_passed) in [(token, true), ("wrong", false)] {
        let body = format!(
            "set_session={session}&pma_username=visitor-{number}&pma_password=x&server=1\
             &lang=en&token={token}"
        );
        let answer = visitor.send(form("/", &body)).expect(200).text();
        let name = format!("value=\"visitor-{number}\"");
        assert_eq!(answer.contains(&name), has_passed, "{token}: {answer}");
        assert_eq!(answer.contains("Cannot log in to the MySQL server"), has_passed, "{answer}");
    }
}
