//! Event loops and their connections: as few loops serve as have time, one that is held up does not
//! hold up new clients, and connections that go from one loop to another lose nothing.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::harness::{Connection, Kind, Server, Setup, eventually, get, in_parallel, program};
use crate::metrics;

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
    started(|setup| setup.line(&format!("loops = {count}")).start())
}

fn started(start: impl FnOnce(Setup) -> Server) -> (Server, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("who.lua");
    fs::write(&script, WHO).unwrap();
    let setup = Setup::new(Kind::Classic)
        .workers(1)
        .line("lua.time = \"20s\"")
        // Clients are not to pay for it: half a head may have come before.
        .line("timeouts.head = \"2s\"")
        .site_line(&format!(
            "route = [{{ path = \"/who\", lua_raw_url = [\"{}\"] }}]",
            script.display()
        ));
    (start(setup), folder)
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

/// The values of the samples whose names begin so.
fn values(server: &Server, name: &str) -> Vec<usize> {
    let (_, text) = metrics::scrape(server, "*/*");
    let values = text.lines().filter(|line| line.starts_with(name));
    values.map(|line| line.rsplit(' ').next().unwrap().parse().expect("a number")).collect()
}

/// Waits until so many loops serve. Returns whether they have.
fn comes_to(server: &Server, serving: usize, patience: u64) -> bool {
    let look = || values(server, "tokamak_event_loops{state=\"serving\"}") == [serving];
    eventually(Duration::from_secs(patience), || look().then_some(())).is_some()
}

/// Sends requests on one connection until it is dropped, sixteen at once: a loop that serves them
/// hardly sleeps. Many more would keep it from looking at its clock.
struct Flood(TcpStream);

impl Flood {
    fn of(server: &Server) -> Flood {
        let stream = TcpStream::connect(server.address).expect("a connection");
        let mut client = stream.try_clone().expect("a copy");
        std::thread::spawn(move || while send_and_receive(&mut client, 16).is_some() {});
        Flood(stream)
    }
}

/// Sends so many requests and reads as many answers, none of which has an empty line in its body.
fn send_and_receive(client: &mut TcpStream, count: usize) -> Option<()> {
    client.write_all(GET.repeat(count).as_bytes()).ok()?;
    let (mut text, mut piece) = (Vec::new(), [0; 8192]);
    while text.windows(4).filter(|four| four == b"\r\n\r\n").count() < count {
        let length = client.read(&mut piece).ok().filter(|length| *length > 0)?;
        text.extend_from_slice(&piece[..length]);
    }
    Some(())
}

impl Drop for Flood {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// A crowd brings the second loop, and nothing that it could do is left when the crowd has gone:
/// one connection cannot be shared. So one loop is tried some ten seconds later. Programs beside it
/// may make that look worse than it was; another server has better luck.
#[test]
fn a_loop_that_brings_nothing_is_taken_back() {
    let is_taken_back = || {
        let (server, _folder) = started(|setup| metrics::start(setup.line("loops = 2")));
        let _flood = Flood::of(&server);
        let crowd: Vec<Connection> = (0..300).map(|_| server.connect()).collect();
        assert!(comes_to(&server, 2, 20), "each has as many clients as it may");
        drop(crowd);
        // A trial of one takes less than three seconds.
        comes_to(&server, 1, 25) && !comes_to(&server, 2, 5)
    };
    assert!((0..5).any(|_| is_taken_back()), "a busy loop has kept another one beside it");
}

/// A busy loop could use another one, but the processors that are idle are not this server's. A
/// machine that is busy with something else may hold a loop up, and then all serve.
#[test]
fn on_one_processor_one_loop_serves() {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let first = allowed.trim().split([',', '-']).next().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let command = folder.path().join("tokamak");
    let text = format!("#!/bin/sh\nexec taskset -c {first} {} \"$@\"\n", program().display());
    fs::write(&command, text).unwrap();
    fs::set_permissions(&command, fs::Permissions::from_mode(0o755)).unwrap();
    let serve = |loops: &str| {
        let line = format!("loops = {loops}");
        started(|setup| metrics::start(setup.program(command.clone()).line(&line)))
    };
    let (server, _folder) = serve("\"auto\"");
    let count = |state: &str| values(&server, &format!("tokamak_event_loops{{state=\"{state}\""));
    assert_eq!([count("serving"), count("idle")], [[1], [0]], "as many as there are processors");
    let stays_alone = || {
        let (server, _folder) = serve("2");
        let _flood = Flood::of(&server);
        !comes_to(&server, 2, 5)
    };
    assert!((0..5).any(|_| stays_alone()), "another loop serves on the same processor");
}

/// By these counts loops are compared.
#[test]
fn each_request_counts_for_its_loop() {
    let (server, _folder) = started(|setup| metrics::start(setup.line("loops = 2")));
    for target in ["/hello.php", "/missing.txt", "/who", "/hello.php?again"] {
        server.get(target);
    }
    let mut client = Client::of(&server);
    (0..6).for_each(|way| drop(client.ask(way)));
    let asked = 4 + client.requests;
    let counted = || values(&server, "tokamak_event_loop_requests_total{").iter().sum::<usize>();
    eventually(Duration::from_secs(20), || (counted() == asked).then_some(()))
        .unwrap_or_else(|| panic!("{} of {asked} requests were counted", counted()));
}
