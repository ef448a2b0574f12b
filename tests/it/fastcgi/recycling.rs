//! php-fpm whose processes end now and then: no request is lost, and least of all one that may not
//! be repeated.

use super::fpm::{Fpm, in_front_of};
use crate::harness::{Connection, Server, in_parallel, post, under_load};

/// Sends the text, and expects it back.
fn echo(connection: &mut Connection, text: &str) -> crate::harness::Response {
    let response = connection.exchange(&post("/echo.php", "text/plain", text));
    assert_eq!((response.status(), response.text().as_str()), (200, text), "{response}");
    response
}

fn has_no_errors(server: &Server) {
    assert!(!server.log().contains("ERROR"), "{}", server.log());
}

#[test]
fn children_that_end_after_some_requests_lose_none() {
    for most in [1, 3, 20] {
        let pools = [Fpm::start_with("a", 3, &format!("pm.max_requests = {most}\n"))];
        let server = in_front_of(&pools, "").start();
        in_parallel(8, |client| {
            let mut connection = server.connect();
            for number in 0..25 {
                echo(&mut connection, &format!("{client}-{number}"));
                assert_eq!(server.text("/hello.php"), "Hello from PHP");
            }
        });
        has_no_errors(&server);
    }
}

#[test]
fn a_graceful_reload_loses_none() {
    let pools = [Fpm::start("a", 3)];
    let server = in_front_of(&pools, "").start();
    under_load(&server, echo, |load| {
        for _ in 0..3 {
            load.goes_on();
            pools[0].reload();
        }
        load.goes_on();
    });
    has_no_errors(&server);
}
