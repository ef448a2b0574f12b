//! Event loops and their connections: as few loops serve as have time, one that is held up does not
//! hold up new clients, and connections that go from one loop to another lose nothing.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::harness::{Connection, Kind, Server, Setup, get, in_parallel};

/// Tells the event loop by a table that only its scripts know, and which request of its connection
/// this is. With the query `spin` it holds the loop up for four seconds and more before; with
/// `late` it waits, and does not read the body.
const WHO: &str = "_G.mine = _G.mine or {}
    if lighty.env['uri.query'] == 'late' then tokamak.sleep(0.001)
    elseif lighty.r.req_attr['request.method'] == 'POST' then
        if not lighty.r.req_body.collect then return 0 end
        if lighty.r.req_body.get ~= 'hello' then return 400 end
    end
    local began = os.time()
    while lighty.env['uri.query'] == 'spin' and os.time() - began < 5 do end
    lighty.r.resp_body.set(tostring(_G.mine) .. ' ' .. lighty.r.req_item.req_count)
    return 200";

const GET: &str = "GET /who HTTP/1.1\r\nHost: localhost\r\n\r\n";
const POST: &str = "POST /who HTTP/1.1\r\nHost: localhost\r\n";

fn with_loops(count: usize) -> (Server, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("who.lua");
    fs::write(&script, WHO).unwrap();
    let server = Setup::new(Kind::Classic)
        .workers(1)
        .line(&format!("loops = {count}"))
        .line("lua.time = \"20s\"")
        // Clients are not to pay for it: half a head may have come before.
        .line("timeouts.head = \"2s\"")
        .site_line(&format!(
            "route = [{{ path = \"/who\", lua_raw_url = [\"{}\"] }}]",
            script.display()
        ))
        .start();
    (server, folder)
}

/// A server one of whose loops serves all these clients. A machine that is busy with something else
/// may hold a loop up, and then all serve: another server has better luck.
fn in_one_loop(loops: usize, clients: usize) -> (Server, TempDir, Vec<Client>, String) {
    for _ in 0..5 {
        let (server, folder) = with_loops(loops);
        let mut clients: Vec<Client> = (0..clients).map(|_| Client::of(&server)).collect();
        let mut seen: BTreeSet<String> =
            clients.iter_mut().flat_map(|client| client.ask(0)).collect();
        if let (Some(only), None) = (seen.pop_first(), seen.pop_first()) {
            return (server, folder, clients, only);
        }
    }
    panic!("several loops serve though one has time");
}

/// A client that asks again and again on one connection.
struct Client {
    connection: Connection,
    requests: usize,
}

impl Client {
    fn of(server: &Server) -> Client {
        Client { connection: Connection::open(server.address), requests: 0 }
    }

    /// Asks in one of several ways, and tells which loops have answered.
    fn ask(&mut self, way: usize) -> BTreeSet<String> {
        let count = match way % 6 {
            0 => {
                self.connection.send(GET);
                1
            }
            1 => {
                self.connection.send(GET.repeat(40));
                40
            }
            2 => {
                let (one, other) = GET.split_at(way % GET.len());
                self.connection.send(one);
                std::thread::sleep(Duration::from_millis(2));
                self.connection.send(format!("{other}{GET}"));
                2
            }
            3 => {
                self.connection.send(format!("{POST}Content-Length: 5\r\n\r\nhello"));
                1
            }
            4 => {
                self.connection.send(format!(
                    "{}Content-Length: 5\r\n\r\nhello",
                    POST.replace("who", "who?late")
                ));
                1
            }
            _ => {
                let chunks = "5\r\nhello\r\n0\r\n\r\n";
                self.connection
                    .send(format!("{POST}Transfer-Encoding: chunked\r\n\r\n{chunks}{GET}"));
                2
            }
        };
        (0..count).map(|_| self.answer()).collect()
    }

    fn answer(&mut self) -> String {
        let text = self.connection.response().expect(200).text();
        let (who, which) = text.rsplit_once(' ').expect("two words");
        self.requests += 1;
        assert_eq!(which, self.requests.to_string(), "of this connection");
        who.to_owned()
    }
}

#[test]
fn one_loop_serves_as_long_as_it_has_time() {
    in_one_loop(4, 16);
}

#[test]
fn a_loop_that_is_held_up_holds_up_no_new_client() {
    let (server, _folder, _, first) = in_one_loop(2, 1);
    while_one_is_held_up(&server, &first, |_| {});
}

#[test]
fn a_loop_that_was_held_up_gives_connections_away() {
    let (server, _folder, clients, first) = in_one_loop(2, 12);
    let clients: Vec<Mutex<Client>> = clients.into_iter().map(Mutex::new).collect();
    let moved = AtomicUsize::new(0);
    while_one_is_held_up(&server, &first, |is_over| {
        in_parallel(clients.len(), |nth| {
            let mut client = clients[nth].lock().unwrap();
            let mut seen = BTreeSet::new();
            let mut more = |way: usize| seen.extend(client.ask(way));
            (nth..).take_while(|_| !is_over()).for_each(&mut more);
            // The loops look at their connections five times a second.
            let end = Instant::now() + Duration::from_secs(1);
            (nth..).take_while(|_| Instant::now() < end).for_each(&mut more);
            moved.fetch_add(usize::from(seen.len() > 1), Ordering::Relaxed);
        });
    });
    let moved = moved.into_inner();
    assert!((1..12).contains(&moved), "{moved} connections went to the other loop");
}

/// Holds the first loop up while `act` runs, which can ask whether that is over, and new clients
/// come.
fn while_one_is_held_up(
    server: &Server,
    first: &str,
    act: impl FnOnce(&(dyn Fn() -> bool + Sync)) + Send,
) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| act(&|| is_over.load(Ordering::Relaxed)));
        let spinning = scope.spawn(|| {
            let answer = server.send(&get("/who?spin")).expect(200).text();
            is_over.store(true, Ordering::Relaxed);
            assert!(answer.starts_with(first), "{answer}");
        });
        // By now it takes no new client.
        std::thread::sleep(Duration::from_millis(1500));
        let mut new: Vec<Client> = (0..8).map(|_| Client::of(server)).collect();
        for client in &mut new {
            assert!(!client.ask(0).contains(first));
        }
        assert!(!is_over.load(Ordering::Relaxed), "not only when the first has time again");
        spinning.join().unwrap();
    });
}
