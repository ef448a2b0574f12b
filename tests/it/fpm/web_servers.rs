//! Real web servers in front: what they send is understood, what they get they understand.

use std::time::Duration;

use super::client::{Client, Heard, Request};
use super::pool;
use crate::harness::{
    Connection, Server, WebServer, crc32, eventually, get, in_parallel, numbered, post, under_load,
};
use crate::operate::kill;

const PATIENCE: Duration = Duration::from_secs(20);

/// Turns one function of a web server into a test for each.
macro_rules! behind_each {
    ($($name:ident),* $(,)?) => { $(
        mod $name {
            use crate::harness::WebServer;
            #[test]
            fn nginx() { super::$name(WebServer::Nginx); }
            #[test]
            fn nginx_that_keeps() { super::$name(WebServer::NginxThatKeeps); }
            #[test]
            fn apache() { super::$name(WebServer::Apache); }
            #[test]
            fn lighttpd() { super::$name(WebServer::Lighttpd); }
        }
    )* };
}

behind_each! {
    pages_are_served, many_at_once, a_dead_worker_costs_one_request, a_reload_loses_nothing,
    a_full_queue_is_503,
}

fn start(web_server: WebServer) -> Server {
    pool(2).behind(web_server).start()
}

fn pages_are_served(web_server: WebServer) {
    let server = start(web_server);
    let mut connection = server.connect();
    for _ in 0..3 {
        assert_eq!(connection.exchange(&get("/hello.php")).expect(200).text(), "Hello from PHP");
        let body = numbered(200_000);
        let response =
            connection.exchange(&post("/input.php", "application/octet-stream", body.clone()));
        let vars: serde_json::Value = serde_json::from_str(&response.expect(200).text()).unwrap();
        assert_eq!(vars["crc32"], crc32(&body));
        let response = connection.exchange(&get("/status.php?code=418"));
        assert_eq!(response.status(), 418);
        let large = connection.exchange(&get("/large.php?bytes=3000000")).expect(200);
        assert!(large.body == numbered(3_000_000));
    }
    let server_vars = server.get("/server.php/path/info?a=b").expect(200);
    let vars: serde_json::Value = serde_json::from_str(&server_vars.text()).unwrap();
    assert_eq!(vars["PATH_INFO"], "/path/info");
    assert_eq!(vars["QUERY_STRING"], "a=b");
    assert_eq!(vars["SCRIPT_NAME"], "/server.php");
    assert_eq!(server.get("/no-such.php").status(), 404);
}

fn many_at_once(web_server: WebServer) {
    let server = start(web_server);
    in_parallel(16, |thread| {
        let mut connection = server.connect();
        for nth in 0..50 {
            let body = format!("{thread} {nth}");
            let response = connection.exchange(&post("/echo.php", "text/plain", body.clone()));
            assert_eq!(response.expect(200).text(), body);
        }
    });
}

fn a_dead_worker_costs_one_request(web_server: WebServer) {
    let server = start(web_server);
    assert_eq!(server.get("/fail.php?how=kill&name=one").status(), 502);
    for _ in 0..20 {
        assert_eq!(server.text("/hello.php"), "Hello from PHP");
    }
}

fn a_reload_loses_nothing(web_server: WebServer) {
    let mut server = start(web_server);
    let master = server.first_process().pid().into();
    let ask = |connection: &mut Connection, text: &str| {
        let response = connection.exchange(&post("/echo.php", "text/plain", text));
        assert_eq!(response.status(), 200, "{response}");
        assert_eq!(response.text(), text);
        response
    };
    under_load(&server, ask, |load| {
        for nth in 1..=3 {
            kill("USR2", master);
            let is_over = || (server.log().matches("has taken over").count() == nth).then_some(());
            eventually(PATIENCE, is_over).expect("a new generation takes over");
            load.goes_on();
        }
    });
}

/// The client is told so, by whatever web server: of a refusal in FastCGI's own terms Apache makes
/// an empty 200.
fn a_full_queue_is_503(web_server: WebServer) {
    let server = pool(1).behind(web_server).start();
    // The one worker has the first, which ends when it is aborted; the others fill the queue.
    let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(&server)).collect();
    clients[0].send(&Request::new(&server, "/abort.php?name=full").bytes(1));
    clients[0].wait_for_answer();
    for client in &mut clients {
        for id in 2..=200 {
            client.send(&Request::new(&server, "/hello.php").bytes(id));
        }
    }
    let Heard::Ended(_, refused) = clients[3].hear() else { panic!("none is refused") };
    assert!(refused.head().starts_with("Status: 503 "), "{refused:?}");
    let response = server.get("/hello.php");
    assert_eq!(response.status(), 503, "{response}");
    assert!(!response.body.is_empty());
    drop(clients);
    let is_served = || (server.get("/hello.php").status() == 200).then_some(());
    eventually(PATIENCE, is_served).expect("it goes on");
}
