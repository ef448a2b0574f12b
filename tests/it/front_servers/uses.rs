//! What is tried of a front server: the columns of the table.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;

use super::front::{Front, PATIENCE, QUEUE, WORKERS, Way};
use crate::fpm::client::{Client, Request as FastCgiRequest};
use crate::harness::{
    Connection, Kind, Request, Response, crc32, eventually, get, numbered, post, under_load,
};
use crate::operate::{kill, reload};

/// Sizes of bodies.
const SIZES: [usize; 4] = [0, 5, 50_000, 1 << 20];

/// How long an upload may wait for its answer: some wait for what never comes.
const ANSWER: Duration = Duration::from_secs(10);

/// After how many requests a connection is looked for.
const VISITS: usize = 8;

/// Bodies come whole, with a length and in chunks.
pub fn bodies(front: &mut Front) -> String {
    for is_chunked in [false, true] {
        for size in SIZES {
            let body = numbered(size);
            let plain = post("/input.php", "application/octet-stream", body.clone());
            let request = if is_chunked { plain.chunked(9999) } else { plain };
            let way = if is_chunked { "in chunks" } else { "with a length" };
            // What becomes of those that do not come whole differs from one to the next.
            assert!(comes_whole(front, &request, &body), "{size} bytes {way} do not come whole");
        }
    }
    String::new()
}

/// Whether PHP is given this body with this request.
fn comes_whole(front: &Front, request: &Request, body: &[u8]) -> bool {
    let mut connection = front.server.connect();
    connection.patience(ANSWER);
    let _ = connection.try_send(request.bytes());
    let Ok(response) = connection.try_response("POST") else { return false };
    let is = |said: Value| said["length"] == body.len() && said["crc32"] == crc32(body);
    response.status() == 200 && is(response.json())
}

/// A response without a body, and the next one at its place.
pub fn head(front: &mut Front) -> String {
    let mut connection = front.server.connect();
    let target = "/large.php?bytes=100000";
    let whole = connection.exchange(&get(&format!("{target}&whole"))).expect(200);
    let head = connection.exchange(&Request::new("HEAD", target)).expect(200);
    let next = connection.exchange(&get("/hello.php?next")).expect(200);
    assert!(next.text() == "Hello from PHP", "the next response is another one");
    let kind = |response: &Response| response.header("content-type").map(str::to_owned);
    assert!(kind(&head) == kind(&whole), "its Content-Type is {:?}", kind(&head));
    match head.header("content-length") {
        None | Some("100000") => String::new(),
        Some(other) => format!("with Content-Length {other}"),
    }
}

/// An interim response, or none, and then the page.
pub fn early_hints(front: &mut Front) -> String {
    let response = front.server.get("/early_hints.php").expect(200);
    assert!(response.text().starts_with("final 200"), "it is answered {:?}", response.text());
    match response.interim.len() {
        0 => "the page alone".to_owned(),
        _ => "103, and the page".to_owned(),
    }
}

/// The connections that the front server has to what is behind it.
fn connections(front: &Front) -> BTreeSet<String> {
    match front.way {
        Way::FastCgi => {
            let path = front.site.socket.display().to_string();
            let all = fs::read_to_string("/proc/net/unix").expect("Linux has it");
            let is_connected = |fields: &[&str]| fields.len() == 8 && fields[5] == "03";
            let inode = |line: &str| {
                let fields: Vec<_> = line.split_whitespace().collect();
                let is_ours = is_connected(&fields) && fields[7] == path;
                is_ours.then(|| fields[6].to_owned())
            };
            all.lines().filter_map(inode).collect()
        }
        Way::Http | Way::Proxy => {
            let port =
                if front.way == Way::Http { front.site.plain } else { front.site.proxied }.port();
            let all = fs::read_to_string("/proc/net/tcp").expect("Linux has it");
            let remote = |line: &str| {
                let fields: Vec<_> = line.split_whitespace().collect();
                let is_ours = fields[3] == "01" && fields[1].ends_with(&format!(":{port:04X}"));
                is_ours.then(|| fields[2].to_owned())
            };
            all.lines().skip(1).filter_map(remote).collect()
        }
    }
}

/// Whether requests in a row share a connection, to the front server and behind it.
pub fn kept(front: &mut Front) -> String {
    let mut connection = front.server.connect();
    let mut is_closed = false;
    let mut seen = Vec::new();
    for visit in 0..VISITS {
        // Another one each time: some keep pages.
        let response = connection.exchange(&get(&format!("/hello.php?{visit}"))).expect(200);
        if response.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
            (connection, is_closed) = (front.server.connect(), true);
        }
        seen.push(connections(front));
    }
    // One that is closed with its response may still be there at the next.
    let all = seen.into_iter().reduce(|all, more| &all & &more).unwrap_or_default();
    let inner = if !all.is_empty() { "kept" } else { "closed after each response" };
    if is_closed { format!("{inner}; the client's are closed") } else { inner.to_owned() }
}

/// Says that it has begun, writes, and says whether it has learnt that the client is gone.
const LONG_PAGE: &str = r"<?php
    ignore_user_abort(false);
    $note = static fn ($name, $text) => file_put_contents(getenv('STATE') . '/' . $name, $text);
    register_shutdown_function(static fn () => $note('ended', (string) connection_aborted()));
    header('X-Accel-Buffering: no');
    for ($turn = 0; $turn < 200; $turn++) {
        echo str_repeat('x', 16384);
        flush();
        usleep(10_000);
    }
";

/// What the script of a visitor learns who leaves in the middle of a page.
pub fn visitor_leaves(front: &mut Front) -> String {
    let server = &front.server;
    fs::write(server.places.root().join("long.php"), LONG_PAGE).unwrap();
    let ended = || fs::read_to_string(server.state_file("ended")).ok().filter(|s| !s.is_empty());
    let mut connection = server.connect();
    connection.patience(Duration::from_millis(50));
    connection.send(get("/long.php").bytes());
    let begun = || (connection.head().is_ok() || ended().is_some()).then_some(());
    eventually(PATIENCE, begun).expect("the page begins or ends");
    drop(connection);
    let told = eventually(PATIENCE, ended);
    front.server.get("/hello.php").expect(200);
    match told.as_deref() {
        Some("1") => "the script is told".to_owned(),
        Some(_) => "the script runs to its end".to_owned(),
        None => panic!("the script never ends"),
    }
}

/// Whether a client is told so when no more requests can wait.
pub fn overload(front: &mut Front) -> String {
    let server = &front.server;
    let held: Vec<String> = (0..WORKERS).map(|number| format!("full-{number}")).collect();
    let response = match front.way {
        Way::FastCgi => {
            let mut clients: Vec<Client> = held.iter().map(|_| Client::connect(server)).collect();
            for (client, name) in clients.iter_mut().zip(&held) {
                client.send(&FastCgiRequest::new(server, &hold(name)).bytes(1));
                server.holds(name);
            }
            // The queue has 511 places: the others fill it.
            let mut others: Vec<Client> = (0..5).map(|_| Client::connect(server)).collect();
            for client in &mut others {
                for id in 1..=200 {
                    client.send(&FastCgiRequest::new(server, "/hello.php").bytes(id));
                }
            }
            others[4].hear();
            server.get("/hello.php?full")
        }
        Way::Http | Way::Proxy => {
            let ask = |target: &str| {
                let mut connection = Connection::open(front.site.plain);
                connection.send(get(target).bytes());
                connection
            };
            let occupy = |name: &String| {
                let connection = ask(&hold(name));
                server.holds(name);
                connection
            };
            let _occupied: Vec<_> = held.iter().map(occupy).collect();
            let mut others: Vec<_> = (0..QUEUE).map(|_| ask("/hello.php")).collect();
            let is_full = || {
                let mut last = ask("/hello.php");
                last.patience(Duration::from_millis(200));
                let answer = last.try_response("GET");
                others.push(last);
                answer.is_ok_and(|response| response.status() == 503).then_some(())
            };
            eventually(PATIENCE, is_full).expect("the queue is full");
            server.get("/hello.php?full")
        }
    };
    held.iter().for_each(|name| server.let_go(name));
    assert!(response.status() == 503, "it is answered {}", response.status());
    assert!(!response.body.is_empty(), "the 503 is empty");
    let is_served = || (server.get("/hello.php").status() == 200).then_some(());
    eventually(PATIENCE, is_served).expect("it goes on");
    "503".to_owned()
}

fn hold(name: &str) -> String {
    format!("/hold.php?name={name}")
}

/// Whether reloads under requests lose none of them.
pub fn reloads(front: &mut Front) -> String {
    let master = front.server.first_process().pid().into();
    let server = &front.server;
    let lost = Mutex::new(Vec::new());
    let ask = |connection: &mut Connection, text: &str| {
        let request = post("/echo.php", "text/plain", text);
        loop {
            let why = match try_exchange(connection, &request) {
                Ok(response) if response.status() == 200 => {
                    assert_eq!(response.text(), text);
                    return response;
                }
                Ok(response) => format!("one is answered {}", response.status()),
                Err(why) => why,
            };
            lost.lock().unwrap().push(why);
            *connection = server.connect();
        }
    };
    under_load(server, ask, |load| {
        for nth in 1..=3 {
            if server.kind == Kind::Fpm {
                kill("USR2", master);
                let is_over =
                    || (server.log().matches("has taken over").count() == nth).then_some(());
                eventually(PATIENCE, is_over).expect("a new generation takes over");
            } else {
                reload(server).expect("a reload");
            }
            load.goes_on();
        }
    });
    let lost = lost.into_inner().unwrap();
    assert!(lost.is_empty(), "{}", lost[0]);
    String::new()
}

fn try_exchange(connection: &mut Connection, request: &Request) -> Result<Response, String> {
    connection.try_send(request.bytes()).map_err(|_| "one cannot be sent".to_owned())?;
    connection.try_response("POST").map_err(|_| "one is not answered".to_owned())
}
