//! Invented configurations of nginx, Apache and Caddy, each with requests of many kinds, through
//! that server and through Tokamak with what was imported. Both have to answer the same, or a note
//! or the documentation says so; and nothing is served that the other server refuses.
//!
//! `TOKAMAK_IMPORTS=1000000 cargo test -p tokamak --test it -- import::differential` goes on until
//! so many requests have been compared, a third with each server; `TOKAMAK_SEED` begins elsewhere,
//! and `TOKAMAK_NGINX` and `TOKAMAK_CADDY` name other programs of nginx and Caddy.

mod apache;
mod caddy;
mod dice;
mod known;
mod nginx;
mod outcome;
mod requests;

use std::fs;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::Desk;
use crate::harness::{Connection, Process, eventually, is_root, program};
use dice::Dice;
use outcome::{Difference, Known, Outcome, Pair, Reply};
use requests::{Asked, FILES, SCRIPT};

/// Requests that `make test` compares: more would take longer than half a minute.
const FEW: usize = 10_000;

/// Sites of one configuration, which is one start of both servers.
const SITES: usize = 50;

/// Requests for a site in a row: more find little that is new.
const EACH: usize = 200;

/// Tokamak listens when the PHP of all sites has started, which took more than 20 seconds beside
/// other builds. Ten times as long would only delay a failure.
const PATIENCE: Duration = Duration::from_secs(120);

/// Clients at the same time: as many as keep both servers and their PHP busy on two processors.
const CLIENTS: usize = 4;

/// Where `make test` begins; any other number would do.
const SEED: u64 = 1;

/// A server that Tokamak is compared with.
struct Peer {
    /// What `tokamak import` calls its language.
    language: &'static str,
    /// One site of a configuration, by its number.
    site: fn(&mut Dice, &Desk, usize) -> String,
    /// Writes the configuration with these sites, and starts the server.
    start: fn(&mut Desk, &str) -> PathBuf,
    /// How it differs from Tokamak.
    known: &'static [Difference],
    /// The names of those that excuse that something else is served than by the other server.
    openings: &'static [&'static str],
}

/// One site of a configuration.
struct Invented {
    name: String,
    text: String,
    /// Where it stands among all sites.
    lines: Range<usize>,
    /// What is below its own folder, if it has one, is its own.
    folder: String,
}

/// The name of a site.
fn name(number: usize) -> String {
    format!("site.s{number}.test")
}

/// A client of one server, which keeps its connection as long as the server does.
struct Client {
    address: SocketAddr,
    connection: Option<Connection>,
}

impl Client {
    fn ask(&mut self, host: &str, asked: &Asked) -> Reply {
        let request = asked.request(host);
        let kept = self.connection.take().and_then(|mut connection| {
            // The server may have closed it meanwhile.
            connection.try_send(request.bytes()).ok()?;
            Some((connection.try_response(&request.method).ok()?, connection))
        });
        let (response, connection) = kept.unwrap_or_else(|| {
            let mut connection = Connection::open(self.address);
            (connection.exchange(&request), connection)
        });
        if response.header("connection") != Some("close") {
            self.connection = Some(connection);
        }
        Reply::of(&response, asked)
    }
}

#[test]
fn invented_sites_of_nginx_are_the_same_or_noted() {
    compare(&nginx::PEER);
}

#[test]
fn invented_sites_of_apache_are_the_same_or_noted() {
    compare(&apache::PEER);
}

#[test]
fn invented_sites_of_caddy_are_the_same_or_noted() {
    compare(&caddy::PEER);
}

fn compare(peer: &Peer) {
    let number = |name: &str| std::env::var(name).ok().map(|it| it.parse().expect("a number"));
    let all = number("TOKAMAK_IMPORTS").map_or(FEW, |it: u64| it.try_into().unwrap());
    let all = all.div_ceil(3);
    let seed = number("TOKAMAK_SEED").unwrap_or(SEED);
    let mut dice = Dice(seed);
    let mut outcome = Outcome::default();
    while outcome.compared() < all {
        let rest = all - outcome.compared();
        round(peer, &mut dice, rest, &mut outcome);
    }
    println!("{}, from seed {seed}: {outcome}", peer.language);
    assert!(outcome.is_good(), "{}, from seed {seed}: {outcome}", peer.language);
}

/// One start of both servers.
fn round(peer: &Peer, dice: &mut Dice, most: usize, outcome: &mut Outcome) {
    let mut desk = Desk::new(&[]);
    documents(&desk, "site");
    desk.start_fpm();
    desk.write("users", super::USERS);
    let mut text = String::new();
    let mut sites = Vec::new();
    for number in 0..SITES {
        let own = (peer.site)(dice, &desk, number);
        let start = text.lines().count() + 1;
        text.push_str(&own);
        sites.push(Invented {
            name: name(number),
            lines: start..text.lines().count() + 1,
            text: own + &overrides(&desk, number),
            folder: format!("{}/", desk.path(&format!("s{number}")).display()),
        });
    }
    let file = (peer.start)(&mut desk, &text);
    let notes = serve(&mut desk, peer.language, &file, &text);
    let each = (most / SITES).clamp(1, EACH);
    let asked: Vec<Vec<Asked>> =
        sites.iter().map(|_| (0..each).map(|_| Asked::invent(dice)).collect()).collect();
    let replies = ask_all(&desk, &sites, &asked);
    let known = Known {
        differences: [known::OF_ALL, peer.known],
        openings: [known::OPENINGS, peer.openings],
    };
    for (site, answered) in sites.iter().zip(asked.iter().zip(&replies)) {
        let is_own = |note: &&Noted| match note.file.is_empty() {
            true => site.lines.contains(&note.line),
            false => note.file.starts_with(&site.folder),
        };
        let notes: Vec<&Noted> = notes.iter().filter(is_own).collect();
        for (asked, (theirs, ours)) in answered.0.iter().zip(answered.1) {
            let pair = Pair { site, asked, theirs, ours };
            outcome.add(&pair, &known, &notes, || rules(&desk, &site.name));
        }
    }
}

/// The answers of both servers to the requests for each site. Several clients take one site after
/// the other, since one alone would wait for one server at a time.
fn ask_all(desk: &Desk, sites: &[Invented], asked: &[Vec<Asked>]) -> Vec<Vec<(Reply, Reply)>> {
    let (theirs, ours) = (desk.theirs, desk.ours);
    let next = AtomicUsize::new(0);
    let replies: Vec<OnceLock<Vec<(Reply, Reply)>>> =
        sites.iter().map(|_| OnceLock::new()).collect();
    let client = || {
        let client = |address| Client { address, connection: None };
        let (mut theirs, mut ours) = (client(theirs), client(ours));
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(site) = sites.get(number) else { break };
            let both = |asked| (theirs.ask(&site.name, asked), ours.ask(&site.name, asked));
            replies[number].set(asked[number].iter().map(both).collect()).expect("asked once");
        }
    };
    thread::scope(|scope| (0..CLIENTS).for_each(|_| drop(scope.spawn(client))));
    replies.into_iter().map(|it| it.into_inner().expect("asked")).collect()
}

/// Writes the documents of a site below a folder.
fn documents(desk: &Desk, folder: &str) {
    for file in FILES {
        let text = if file.ends_with(".php") { SCRIPT.to_owned() } else { requests::text(file) };
        desk.write(&format!("{folder}/{file}"), &text);
    }
}

/// The `.htaccess` files of a site: a failure shows them beside the virtual host, since they decide
/// what is served, too.
fn overrides(desk: &Desk, number: usize) -> String {
    let folder = desk.path(&format!("s{number}"));
    let names = ["", "uploads", "admin", "docs", "data", "old", "sub"];
    let texts = names.iter().filter_map(|name| {
        let text = fs::read_to_string(folder.join(name).join(".htaccess")).ok()?;
        Some(format!("{name}/.htaccess:\n{text}"))
    });
    texts.collect()
}

/// A note of the importer.
struct Noted {
    /// The other file that it is of, if it is not of the main one.
    file: String,
    /// Its line, from the first one of the sites on.
    line: usize,
    text: String,
}

/// Imports a configuration and serves it; gives the notes.
fn serve(desk: &mut Desk, language: &str, file: &Path, sites: &str) -> Vec<Noted> {
    let output = desk.import(language, file);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    let configuration = desk.path("tokamak.toml");
    let environment = [
        ("TOKAMAK_LISTEN".to_owned(), desk.ours.to_string()),
        ("TOKAMAK_CONTROL".to_owned(), desk.path("control").display().to_string()),
        // Each site has a worker of its own, which would load all extensions of this machine.
        ("PHPRC".to_owned(), desk.path("php.ini").display().to_string()),
        ("PHP_INI_SCAN_DIR".to_owned(), String::new()),
    ];
    let arguments = ["serve", "--config", configuration.to_str().unwrap()];
    desk.start(&program(), &arguments, &environment);
    for address in [desk.theirs, desk.ours] {
        let listens = || {
            let ended = desk.processes.iter_mut().find_map(Process::ended);
            assert!(ended.is_none(), "{ended:?}: {}", desk.log());
            std::net::TcpStream::connect(address).ok().map(drop)
        };
        eventually(PATIENCE, listens).expect("a server listens");
    }
    let whole = fs::read_to_string(file).unwrap();
    let first = sites.split(['$', '\n']).next().unwrap_or_default();
    let before = whole.lines().position(|line| line.starts_with(first)).unwrap_or_default();
    let main = file.display().to_string();
    let notes = said.lines().filter_map(|text| {
        let (file, rest) = text.split_once(':')?;
        let (line, _) = rest.split_once(':')?;
        let line: usize = line.parse().ok()?;
        let is_main = file == main;
        Some(Noted {
            file: if is_main { String::new() } else { file.to_owned() },
            line: if is_main { line.saturating_sub(before) } else { line },
            text: text.to_owned(),
        })
    });
    notes.collect()
}

/// What was written for a site.
fn rules(desk: &Desk, name: &str) -> String {
    let text = fs::read_to_string(desk.path("tokamak.toml")).unwrap();
    let named = format!("\"{name}\"");
    let sites = text.split("\n[[site]]\n").filter(|site| site.contains(&named));
    sites.collect::<Vec<_>>().join("\n[[site]]\n")
}
