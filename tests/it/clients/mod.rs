//! Which HTTP clients of Debian do what over TLS: the last table of `docs/works-with.md`, made from
//! what is seen here. `tests/works-with/clients` has a script for each client, `NAME USE URL…`.
//!
//! `scripts/works-with-clients` tries all of them; a change tries some of those that are installed.

mod relay;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::{Kind, Setup, crc32, eventually, get, in_threads, numbered};
use crate::layers::root;
use crate::operate::reload;
use crate::tls::{Folder, Secured, secured_in};
use crate::works_with::written;
use relay::{Passed, Relay};

/// A Debian with all clients; without one, those of the machine are tried.
const ROOT: &str = "WORKS_WITH_CLIENTS_IN";

/// Of how many installed clients a change tries one.
const ONE_OF: usize = 8;

/// Clients at once.
const AT_ONCE: usize = 2;

/// What a client may do, in seconds. Java's compiler takes some of them.
const PATIENCE: u64 = 60;

/// The exit status of a script whose client has no such use.
const NO_SUCH_USE: i32 = 64;

const COLUMNS: &str = "| client | version | TLS | page | kept | range | upload | compressed | idle \
                       | reload |";

/// How scripts are run, by the end of their name.
const INTERPRETERS: [(&str, &[&str]); 13] = [
    ("sh", &["sh"]),
    ("py", &["python3"]),
    ("rb", &["ruby"]),
    ("pl", &["perl"]),
    ("php", &["php"]),
    ("lua", &["lua5.2"]),
    ("mjs", &["node"]),
    ("go", &["go", "run"]),
    ("java", &["java"]),
    ("erl", &["escript"]),
    ("tcl", &["tclsh"]),
    ("scm", &["guile", "--no-auto-compile"]),
    ("swipl", &["swipl"]),
];

/// A row: a script, and the packages that its first line names.
struct Client {
    name: String,
    script: PathBuf,
    interpreter: &'static [&'static str],
    packages: Vec<String>,
    /// Whether it has files for the site, such as a package.
    prepares: bool,
}

impl Client {
    fn all() -> Vec<Client> {
        let folder = root().join("tests/works-with/clients");
        let entries = fs::read_dir(folder).expect("the folder").map(|entry| entry.unwrap().path());
        let mut all: Vec<_> = entries.filter(|path| path.is_file()).map(Client::new).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    fn new(script: PathBuf) -> Client {
        let text = fs::read_to_string(&script).expect("a script is text");
        let line = text.lines().next().unwrap_or_default();
        let (_, packages) = line.split_once("Debian: ").expect("the first line names packages");
        let packages = packages.split_whitespace().map(str::to_owned).collect();
        let end = script.extension().unwrap().to_str().unwrap();
        let known = INTERPRETERS.iter().find(|(known, _)| *known == end);
        let (_, interpreter) = known.unwrap_or_else(|| panic!("no interpreter for .{end}"));
        let name = script.file_stem().unwrap().to_str().unwrap().to_owned();
        Client { name, script, interpreter, packages, prepares: text.contains("prepare") }
    }
}

/// Where clients run: a Debian in a folder, or the machine.
struct Place {
    root: Option<PathBuf>,
    versions: BTreeMap<String, String>,
}

impl Place {
    fn look() -> Place {
        let mut place =
            Place { root: std::env::var_os(ROOT).map(PathBuf::from), versions: BTreeMap::new() };
        let format = "${db:Status-Status} ${Package} ${Version}\n";
        let listed = place.command(&["dpkg-query", "-W", "-f", format]).output();
        // Without dpkg, there are no clients of Debian.
        let listed = listed.map(|output| output.stdout).unwrap_or_default();
        for line in String::from_utf8_lossy(&listed).lines() {
            if let ["installed", name, version] = *line.split(' ').collect::<Vec<_>>() {
                place.versions.insert(name.to_owned(), upstream(version).to_owned());
            }
        }
        place
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut all = vec!["timeout".to_owned(), PATIENCE.to_string()];
        if let Some(root) = &self.root {
            all.extend(["chroot".to_owned(), root.to_str().unwrap().to_owned()]);
        }
        all.extend(words.iter().map(|word| (*word).to_owned()));
        let mut command = Command::new(&all[0]);
        command.args(&all[1..]).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command
    }

    /// A folder that clients see, with their script.
    fn folder(&self, client: &Client) -> TempDir {
        let top = self.root.clone().unwrap_or_else(|| "/".into()).join("tmp");
        let folder = tempfile::Builder::new().prefix("client-").tempdir_in(top).unwrap();
        fs::copy(&client.script, folder.path().join(client.script.file_name().unwrap())).unwrap();
        folder
    }

    /// What a path is for clients.
    fn inside(&self, path: &Path) -> String {
        let top = self.root.as_deref().unwrap_or(Path::new("/"));
        format!("/{}", path.strip_prefix(top).expect("a file below").display())
    }
}

/// A version without an epoch and without what Debian adds.
fn upstream(version: &str) -> &str {
    let version = version.split_once(':').map_or(version, |(_, rest)| rest);
    version.rsplit_once('-').map_or(version, |(upstream, _)| upstream)
}

/// A server, the relay in front of it, and one client's folder.
struct Trial<'a> {
    client: &'a Client,
    place: &'a Place,
    folder: TempDir,
    secured: Secured,
    relay: Relay,
}

/// What one run of a client has shown.
struct Seen {
    code: Option<i32>,
    said: Vec<u8>,
    wrong: String,
    /// The lines of the access log.
    requests: Vec<Logged>,
    passed: Vec<Passed>,
    /// The folder of the client.
    folder: String,
}

/// A line of the access log.
#[derive(Debug)]
struct Logged {
    protocol: String,
    status: String,
    bytes: String,
    expect: String,
    accepts: String,
    connection: String,
}

const FORMAT: &str = "asked $server_protocol $status $body_bytes_sent \\\"$http_expect\\\" \
                      \\\"$http_accept_encoding\\\" \\\"$http_connection\\\"";

impl Logged {
    fn all(log: &str) -> Vec<Logged> {
        log.lines().filter_map(|line| Logged::read(line.strip_prefix("asked ")?)).collect()
    }

    fn read(line: &str) -> Option<Logged> {
        let (head, rest) = line.split_once(" \"")?;
        let mut head = head.split(' ').map(str::to_owned);
        let mut rest = rest.strip_suffix('"')?.split("\" \"").map(str::to_owned);
        Some(Logged {
            protocol: head.next()?,
            status: head.next()?,
            bytes: head.next()?,
            expect: rest.next()?,
            accepts: rest.next()?,
            connection: rest.next()?,
        })
    }
}

/// When the second of two requests comes.
#[derive(Clone, Copy, PartialEq)]
enum Pause {
    None,
    UntilIdleEnds,
    UntilReloaded,
}

const LONG: usize = 200_000;
const UPLOADED: usize = 1_000_000;
/// What a download that was broken off has already.
const PART: usize = 60_000;

impl Trial<'_> {
    fn start<'a>(client: &'a Client, place: &'a Place, lines: &[&str]) -> Trial<'a> {
        let folder = place.folder(client);
        // An authority that signs is not the certificate that it signs: some clients look.
        let made = authority_and_certificate();
        for name in ["authority.pem", "stranger.pem"] {
            fs::copy(made.path(name), folder.path().join(name)).unwrap();
        }
        let setup = Setup::new(Kind::Classic).site("works-with/clients/site");
        let format = format!("log.access_format = \"{FORMAT}\"");
        let lines = [&["log.access = \"-\"", &*format], lines].concat();
        let secured = secured_in(made, setup, &lines, &[]);
        fs::write(secured.server.places.root().join("file.txt"), numbered(LONG)).unwrap();
        fs::write(folder.path().join("sent"), numbered(UPLOADED)).unwrap();
        let relay = Relay::start(secured.address);
        let trial = Trial { client, place, folder, secured, relay };
        if client.prepares {
            let made = trial.folder.path().join("site");
            fs::create_dir(&made).unwrap();
            let seen = trial.run(&["prepare", "site"]);
            assert_eq!(seen.code, Some(0), "{}: {}", client.name, seen.wrong);
            let to = trial.secured.server.places.root();
            let copied = Command::new("cp").arg("-rT").args([&made, &to]).status();
            assert!(copied.expect("cp runs").success());
        }
        trial
    }

    fn url(&self, host: &str, path: &str) -> String {
        format!("https://{host}:{}{path}", self.relay.address.port())
    }

    fn page(&self, number: usize) -> String {
        self.url("localhost", &format!("/page.php?n={number}"))
    }

    fn run(&self, words: &[&str]) -> Seen {
        self.run_with(words, "authority.pem", Pause::None)
    }

    fn run_with(&self, words: &[&str], authority: &str, pause: Pause) -> Seen {
        let before = (Logged::all(&self.secured.server.log()).len(), self.relay.passed().len());
        let inside = self.place.inside(self.folder.path());
        let mut all = vec!["sh", "-c", "cd \"$0\" && exec \"$@\"", &inside];
        all.extend(self.client.interpreter);
        let script = self.client.script.file_name().unwrap().to_str().unwrap();
        all.push(script);
        all.extend(words);
        let output = |name: &str| fs::File::create(self.folder.path().join(name)).unwrap();
        let mut child = self
            .place
            .command(&all)
            .env("AUTHORITY", format!("{inside}/{authority}"))
            .env("HOME", &inside)
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::piped())
            .stdout(output("said"))
            .stderr(output("wrong"))
            .spawn()
            .expect("the client runs");
        if pause != Pause::None {
            self.pause(pause, &mut child, before);
        }
        // Without a pause the client reads nothing; at the end of its input some would stop.
        let input = child.stdin.take();
        let code = child.wait().unwrap().code();
        drop(input);
        let read = |name: &str| fs::read(self.folder.path().join(name)).unwrap();
        // A response is logged when all of it has been sent, which the client may see before.
        let requests = || Logged::all(&self.secured.server.log()).split_off(before.0);
        let wanted = if matches!(words[0], "kept" | "later") { 2 } else { 1 };
        let logged = || Some(requests()).filter(|requests| requests.len() >= wanted);
        let logged = eventually(Duration::from_millis(500), logged);
        Seen {
            code,
            said: read("said"),
            wrong: String::from_utf8_lossy(&read("wrong")).into_owned(),
            requests: logged.unwrap_or_else(requests),
            passed: self.relay.passed().split_off(before.1),
            folder: format!("{inside}/"),
        }
    }

    /// Waits between the two requests of a client, then lets it go on.
    fn pause(&self, pause: Pause, child: &mut Child, (requests, connections): (usize, usize)) {
        let patience = Duration::from_secs(PATIENCE);
        let server = &self.secured.server;
        let came = eventually(patience, || {
            let has_ended = child.try_wait().unwrap().is_some();
            (has_ended || Logged::all(&server.log()).len() > requests).then_some(!has_ended)
        });
        if came != Some(true) {
            return;
        }
        if pause == Pause::UntilReloaded {
            reload(server).expect("a reload");
        }
        // A reload leaves a second for requests that are on their way.
        eventually(patience, || {
            let has_ended = child.try_wait().unwrap().is_some();
            let passed = self.relay.passed();
            let is_over = passed[connections..].iter().any(|one| one.ended);
            (has_ended || is_over).then_some(())
        });
        let _ = child.stdin.as_mut().unwrap().write_all(b"\n");
    }
}

/// A certificate for `localhost`, the authority that has signed it, and another authority.
fn authority_and_certificate() -> Folder {
    let folder = Folder::new();
    folder.certificate("authority", &["authority.test"]);
    folder.certificate("stranger", &["stranger.test"]);
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    let files = ["-subj", "/CN=localhost", "-keyout", "localhost.key", "-out", "localhost.csr"];
    folder.openssl(&[&["req"], &key[..], &files].concat());
    let extensions = "basicConstraints = CA:FALSE\nsubjectAltName = DNS:localhost\n\
                      extendedKeyUsage = serverAuth\n";
    fs::write(folder.path("extensions"), extensions).unwrap();
    let sign = ["x509", "-req", "-in", "localhost.csr", "-CA", "authority.pem", "-CAkey"];
    let more = ["authority.key", "-set_serial", "2", "-days", "30", "-extfile", "extensions"];
    folder.openssl(&[&sign[..], &more, &["-out", "localhost.pem"]].concat());
    folder
}

impl Seen {
    fn has(&self, body: &[u8]) -> bool {
        self.said.windows(body.len().max(1)).any(|window| window == body)
    }

    fn has_pages(&self, numbers: &[usize]) -> bool {
        numbers.iter().all(|number| self.has(format!("This is page {number}.").as_bytes()))
    }

    /// How a failure is told: by a line of what the client has to say.
    fn failure(&self) -> String {
        let said = String::from_utf8_lossy(&self.said);
        let lines = || self.wrong.lines().filter(|line| !line.trim().is_empty());
        // Stack traces begin or end with it.
        let words = ["Error:", "Error [", "Error)", "error:", "ERROR"];
        let tells = |line: &&str| words.iter().any(|word| line.contains(word));
        let line = if self.wrong.contains("Traceback") { None } else { lines().find(tells) };
        let line = line.or_else(|| lines().next_back()).or_else(|| said.lines().next_back());
        let line = line.unwrap_or("no word").trim().replace('|', " ");
        let line = line.replace(&self.folder, "");
        // Ruby begins with the place.
        let line = line.rsplit_once("': ").map_or(line.as_str(), |(_, end)| end);
        let statuses: Vec<_> = self.requests.iter().map(|one| one.status.as_str()).collect();
        let short: String = line.chars().take(200).collect();
        if std::env::var_os("SHOW").is_some() {
            eprintln!("--- {:?} {:?}\n{:.600}\n{said:.300}", self.code, self.requests, self.wrong);
        }
        match self.code {
            Some(0) => format!("does not work: another body (status {})", statuses.join(", ")),
            Some(124) => "does not work: it waits for ever".to_owned(),
            _ => format!("does not work: {}", without_numbers(&short)),
        }
    }
}

/// Ports, times and addresses in memory differ from run to run; none has fewer than four digits.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    let mut number = String::new();
    for letter in text.chars().chain(['\n']) {
        if letter.is_ascii_digit() {
            number.push(letter);
            continue;
        }
        let is_long = number.len() > 3;
        out.push_str(if is_long { "N" } else { &number });
        number.clear();
        out.push(letter);
    }
    out.trim_end().to_owned()
}

fn cell(is_ok: bool, notes: &[String], seen: &Seen) -> String {
    match seen.code {
        Some(NO_SUCH_USE) => "–".to_owned(),
        _ if is_ok => [&["ok".to_owned()], notes].concat().join("; "),
        _ => seen.failure(),
    }
}

/// The cells of a client.
fn cells(client: &Client, place: &Place) -> Vec<String> {
    let trial = Trial::start(client, place, &[]);
    let page = trial.run(&["page", &trial.page(1)]);
    let tls = page.passed.iter().find_map(Passed::negotiated).unwrap_or("–".to_owned());
    let of_page = page_cell(&trial, &page);
    let pages = [trial.page(1), trial.page(2)];
    let twice = trial.run(&["kept", &pages[0], &pages[1]]);
    let of_kept = kept_cell(&twice);
    let is_kept = of_kept.starts_with("ok");
    let mut all = vec![tls, of_page, of_kept];
    all.extend([range_cell(&trial), upload_cell(&trial), compressed_cell(&trial)]);
    let later = |trial: &Trial<'_>, pause| {
        let words = ["later", &trial.page(1), &trial.page(2)];
        let seen = trial.run_with(&words, "authority.pem", pause);
        cell(seen.has_pages(&[1, 2]), &[], &seen)
    };
    if is_kept {
        // Long enough for the two requests of a client that does not wait.
        let idle = Trial::start(client, place, &["timeouts.idle = \"1s\""]);
        all.push(later(&idle, Pause::UntilIdleEnds));
        all.push(later(&trial, Pause::UntilReloaded));
    } else {
        all.extend(["–".to_owned(), "–".to_owned()]);
    }
    eprintln!("{}: {}", client.name, all.join(" | "));
    all
}

fn page_cell(trial: &Trial<'_>, page: &Seen) -> String {
    let protocol = page.requests.last().map_or(String::new(), |one| one.protocol.clone());
    let mut notes = vec![protocol];
    if page.has_pages(&[1]) {
        let words = ["page", &trial.page(1)];
        if trial.run_with(&words, "stranger.pem", Pause::None).has_pages(&[1]) {
            notes.push("takes any certificate".to_owned());
        } else if trial.run(&["page", &trial.url("127.0.0.1", "/page.php?n=1")]).has_pages(&[1]) {
            notes.push("takes a certificate for another name".to_owned());
        }
    }
    cell(page.has_pages(&[1]), &notes, page)
}

fn kept_cell(seen: &Seen) -> String {
    if !seen.has_pages(&[1, 2]) || seen.passed.len() == 1 {
        return cell(seen.has_pages(&[1, 2]), &[], seen);
    }
    let is_old = |one: &Logged| one.protocol == "HTTP/1.0" && one.connection == "-";
    let closes = |one: &Logged| is_old(one) || one.connection.to_lowercase().contains("close");
    let note = if seen.requests.iter().any(closes) { "asks to close" } else { "a connection each" };
    format!("–; {note}")
}

fn range_cell(trial: &Trial<'_>) -> String {
    let whole = numbered(LONG);
    let part = trial.folder.path().join("part");
    fs::write(&part, &whole[..PART]).unwrap();
    // Some clients ask by it whether the file is still the same.
    let date = fs::metadata(trial.secured.server.places.root().join("file.txt")).unwrap();
    let file = fs::File::options().append(true).open(&part).unwrap();
    file.set_modified(date.modified().unwrap()).unwrap();
    let seen = trial.run(&["range", &trial.url("localhost", "/file.txt"), "part"]);
    let is_whole = seen.has(&whole);
    if is_whole && !seen.requests.iter().any(|one| one.status == "206") {
        return "–; fetches all of it again".to_owned();
    }
    cell(is_whole, &[], &seen)
}

fn upload_cell(trial: &Trial<'_>) -> String {
    let seen = trial.run(&["upload", &trial.url("localhost", "/upload.php"), "sent"]);
    let answer = format!("{UPLOADED} {}", crc32(&numbered(UPLOADED)));
    let waits = seen.requests.iter().any(|one| one.expect.eq_ignore_ascii_case("100-continue"));
    let notes = if waits { vec!["with 100-continue".to_owned()] } else { vec![] };
    cell(seen.has(answer.as_bytes()), &notes, &seen)
}

fn compressed_cell(trial: &Trial<'_>) -> String {
    let seen = trial.run(&["compressed", &trial.url("localhost", "/file.txt")]);
    let is_whole = seen.has(&numbered(LONG));
    let asked = |one: &&Logged| one.accepts != "-" && one.accepts != "identity";
    let Some(last) = seen.requests.iter().rfind(asked) else {
        return if is_whole { "–".to_owned() } else { cell(false, &[], &seen) };
    };
    // The log does not have the coding, but the length, which each of them makes another one.
    let with = |coding: &&str| {
        let answer = trial.secured.server.send(&get("/file.txt").header("Accept-Encoding", coding));
        answer.body.len().to_string() == last.bytes
    };
    let coding = ["zstd", "br", "gzip"].into_iter().find(with).unwrap_or("not compressed");
    cell(is_whole, &[coding.to_owned()], &seen)
}

#[test]
fn clients_work_as_the_page_says() {
    let place = Place::look();
    let path = root().join("docs/works-with.md");
    let page = fs::read_to_string(&path).expect("the page");
    let (before, rest) = page.split_once(COLUMNS).expect("docs/works-with.md has the table");
    let clients = Client::all();
    let version = |client: &Client| place.versions.get(&client.packages[0]).map(String::as_str);
    let is_there = |client: &&Client| {
        let mut packages = client.packages.iter();
        let only = std::env::var("CLIENTS").ok();
        let is_meant = only.is_none_or(|only| only.split(' ').any(|name| name == client.name));
        packages.all(|name| place.versions.contains_key(name)) && is_meant
    };
    // Other releases of Debian have other versions, which may do something else.
    let is_of_page = |client: &&Client| {
        place.root.is_some()
            || written(rest, &client.name).is_some_and(|row| version(client) == Some(row[0]))
    };
    let step = if place.root.is_some() { 1 } else { ONE_OF };
    let present = clients.iter().filter(is_there).filter(is_of_page).step_by(step);
    let present: Vec<&Client> = present.collect();
    let found = in_threads(AT_ONCE, present.len(), |number| cells(present[number], &place));
    if place.root.is_some() && std::env::var_os("UPDATE_DOCS").is_some() {
        let is_tried = |name: &str| present.iter().any(|client| client.name == name);
        let name = |row: &str| row.split(" | ").next().unwrap_or_default()[2..].to_owned();
        let kept = rest.lines().skip(2).filter(|row| !row.is_empty() && !is_tried(&name(row)));
        let mut rows: Vec<String> = kept.map(|row| format!("{row}\n")).collect();
        for (client, cells) in present.iter().zip(&found) {
            let version = version(client).unwrap_or_default();
            rows.push(format!("| {} | {version} | {} |\n", client.name, cells.join(" | ")));
        }
        rows.sort();
        let line = format!("|{}", " --- |".repeat(COLUMNS.matches('|').count() - 1));
        fs::write(&path, format!("{before}{COLUMNS}\n{line}\n{}", rows.concat()))
            .expect("docs/ is there");
        return;
    }
    for (client, cells) in present.iter().zip(&found) {
        let name = &client.name;
        let row = written(rest, name).unwrap_or_else(|| panic!("the page has no {name}"));
        let titles = COLUMNS.trim_matches(['|', ' ']).split(" | ").skip(2);
        for ((title, cell), written) in titles.zip(cells).zip(&row[1..]) {
            assert_eq!(cell, written, "{name}, {title}");
        }
    }
}
