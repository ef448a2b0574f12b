//! Which extensions of PHP work in which mode: `docs/works-with.md`, made from what is seen here.
//! `tests/works-with` has a row for each extension, which is used as a page would: by five
//! visitors, by six at once, and by another. Each extension is alone with those that it needs.
//!
//! `scripts/works-with` tries all of Debian's, or the rows of one; a change tries some of those
//! that are installed.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use serde_json::Value;

use crate::harness::{Kind, Response, Server, Setup, in_parallel, in_threads};
use crate::layers::root;
use crate::services::mariadb::{MariaDb, PASSWORD};
use crate::services::postgresql::PostgreSql;
use crate::services::redis::Redis;
use crate::services::unpacked::{self, Unpacked};

/// The one extension whose rows are tried, if it is only one.
const ALONE: &str = "WORKS_WITH_ALONE";

/// Of how many installed extensions a change tries one.
const ONE_OF: usize = 4;

/// Whether two requests of async mode meet in one connection is chance, so it may also be ok.
const IN_USE: &str = "refused: another request uses the boot's connection";

/// Visitors one after the other.
const VISITORS: usize = 5;

/// Servers at once.
const AT_ONCE: usize = 3;

/// A column of the table.
struct Way {
    title: &'static str,
    kind: Kind,
    /// What has run before the image is taken, in sealed mode.
    image: Image,
}

#[derive(Clone, Copy)]
enum Image {
    Boot,
    WarmedWorker,
    None,
}

const WAYS: [Way; 5] = [
    Way { title: "classic", kind: Kind::Classic, image: Image::None },
    Way { title: "worker", kind: Kind::Worker, image: Image::None },
    Way { title: "sealed, boot", kind: Kind::Sealed, image: Image::Boot },
    Way { title: "sealed, warm-up", kind: Kind::Sealed, image: Image::WarmedWorker },
    Way { title: "async", kind: Kind::Async, image: Image::None },
];

/// Lists the rows, with the extensions that each needs, and says which of all are part of PHP.
/// Some extensions are in only one of the Debian releases; what newer releases of PHP have beside
/// extensions has `since`.
const LIST: &str = r"
    $version = PHP_MAJOR_VERSION . '.' . PHP_MINOR_VERSION;
    $rows = array_merge(...array_map(static fn ($file) => require $file, glob('extensions/*.php')));
    $rows = array_filter($rows, static fn ($row) => ($row['only'] ?? $version) === $version
        && version_compare($row['since'] ?? '0', $version, '<='));
    $row = static fn ($row, $name) => [
        'name' => $name, 'module' => $row['module'] ?? $name,
        'with' => $row['with'] ?? [], 'service' => $row['service'] ?? '',
        'is_new' => isset($row['since']),
    ];
    echo json_encode([
        'rows' => array_map($row, $rows, array_keys($rows)),
        'own' => array_map('strtolower', get_loaded_extensions()),
        'folder' => PHP_EXTENSION_DIR,
        'version' => $version,
    ]);";

/// An extension, used in one way.
struct Row {
    name: String,
    module: String,
    /// Extensions that it needs.
    with: Vec<String>,
    /// What it asks; empty: nothing.
    service: String,
    /// It is in the table of what newer releases have.
    is_new: bool,
}

impl Row {
    fn new(said: &Value) -> Row {
        let text = |key: &str| said[key].as_str().unwrap().to_owned();
        let with = texts(&said["with"]);
        let is_new = said["is_new"] == true;
        Row { name: text("name"), module: text("module"), with, service: text("service"), is_new }
    }
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// PHP and its extensions as they are here.
struct Php {
    /// Such as `8.2`, which is also the name of its table.
    version: String,
    rows: Vec<Row>,
    own: BTreeSet<String>,
    folders: Vec<PathBuf>,
}

impl Php {
    fn look() -> Php {
        let said = php(&["-n", "-r", LIST]);
        let said: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
        let folder = Path::new(said["folder"].as_str().unwrap());
        let unpacked = std::env::var_os(unpacked::FOLDER).map(|place| {
            Path::new(&place).join(folder.strip_prefix("/").expect("an absolute path"))
        });
        Php {
            version: said["version"].as_str().unwrap().to_owned(),
            rows: said["rows"].as_array().unwrap().iter().map(Row::new).collect(),
            own: texts(&said["own"]).into_iter().collect(),
            folders: unpacked.into_iter().chain([folder.to_owned()]).collect(),
        }
    }

    /// The lines that load an extension and those that it needs; `None` if one is not there.
    fn settings(&self, row: &Row) -> Option<String> {
        let find = |module: &str| {
            let mut files = self.folders.iter().map(|folder| folder.join(format!("{module}.so")));
            files.find(|file| file.exists())
        };
        // Since 8.5 it is a part of PHP.
        let opcache = find("opcache").map(|_| "zend_extension=opcache.so\n".to_owned());
        let mut lines = opcache.unwrap_or_default();
        for module in row.with.iter().chain([&row.module]) {
            if self.own.contains(module) {
                continue;
            }
            let file = find(module)?;
            let key = if module == "xdebug" { "zend_extension" } else { "extension" };
            let _ = writeln!(lines, "{key}={}", file.display());
        }
        Some(lines)
    }
}

fn php(arguments: &[&str]) -> String {
    let site = root().join("tests/works-with");
    let output = Command::new("php").args(arguments).current_dir(site).output().expect("PHP");
    String::from_utf8(output.stdout).expect("text")
}

/// One row, and a folder with the settings that load its extension.
struct Trial<'a> {
    row: &'a Row,
    version: String,
    settings: tempfile::TempDir,
}

impl<'a> Trial<'a> {
    fn new(row: &'a Row, settings: &str) -> Trial<'a> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("all.ini"), settings).unwrap();
        let output = Command::new("php")
            .args(["-r", &format!("echo phpversion('{}');", row.module.trim_end_matches("-php"))])
            .env("PHP_INI_SCAN_DIR", folder.path())
            .output()
            .expect("PHP");
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Trial { row, version, settings: folder }
    }

    /// What is seen of one mode: the cell of the table.
    fn cell(&self, way: &Way, services: &Services) -> String {
        let setup = Setup::new(way.kind).site("works-with").env("ROW", &self.row.name);
        let setup = setup.env("PASSWORD", PASSWORD);
        let setup = setup.env("PORT", &services.port(&self.row.service).to_string());
        let setup = setup.env("FOLDER", &services.folder(&self.row.service));
        let setup = match way.image {
            Image::Boot => setup.boot("boot.php"),
            Image::WarmedWorker => setup.warm(&["/index.php"]),
            Image::None => setup,
        };
        let setup = setup
            .server_env("PHP_INI_SCAN_DIR", self.settings.path().to_str().unwrap())
            .php_admin_value("ffi.enable", "1")
            .php_admin_value("opcache.file_update_protection", "0")
            .php_value("display_errors", "0");
        let tried = catch_unwind(AssertUnwindSafe(|| {
            let server = setup.start();
            let seen = visit(&server);
            let log = server.log();
            (seen, log)
        }));
        match tried {
            Ok((seen, log)) => verdict(&seen, &log),
            Err(_) => "does not work: the server does not answer".to_owned(),
        }
    }
}

/// What rows ask.
struct Services {
    redis: Option<Redis>,
    mariadb: Option<MariaDb>,
    postgresql: Option<PostgreSql>,
    soap: Option<Server>,
    unpacked: Vec<Unpacked>,
}

impl Services {
    fn start(trials: &[Trial<'_>]) -> Services {
        let is_asked = |name: &str| trials.iter().any(|trial| trial.row.service == name);
        let unpacked = unpacked::ALL.into_iter();
        let unpacked = unpacked.filter(|(names, _)| names.iter().any(|name| is_asked(name)));
        Services {
            redis: is_asked("redis").then(Redis::start),
            mariadb: is_asked("mariadb").then(|| {
                let mariadb = MariaDb::start();
                mariadb.create("reactor");
                mariadb
            }),
            postgresql: is_asked("postgresql").then(PostgreSql::start),
            // Not PHP's own server, which ends each connection with the answer.
            soap: is_asked("soap").then(|| Setup::new(Kind::Classic).site("works-with").start()),
            unpacked: unpacked.map(|(names, make)| Unpacked::start(names, make)).collect(),
        }
    }

    /// Port of a service; 0 without one.
    fn port(&self, name: &str) -> u16 {
        let port = match name {
            "redis" => self.redis.as_ref().map(Redis::port),
            "mariadb" => self.mariadb.as_ref().map(MariaDb::port),
            "postgresql" => self.postgresql.as_ref().map(PostgreSql::port),
            "soap" => self.soap.as_ref().map(|server| server.address.port()),
            _ => self.unpacked(name).map(|(_, port)| port),
        };
        port.unwrap_or_default()
    }

    /// Folder of a service, with what its clients need; empty without one.
    fn folder(&self, name: &str) -> String {
        let place = self.unpacked(name).map(|(service, _)| service.dir.path());
        place.map_or_else(String::new, |place| place.display().to_string())
    }

    fn unpacked(&self, name: &str) -> Option<(&Unpacked, u16)> {
        self.unpacked.iter().find_map(|service| {
            let (_, port) = service.ports.iter().find(|(known, _)| *known == name)?;
            Some((service, *port))
        })
    }
}

/// What visitors were given.
#[derive(Default)]
struct Seen {
    /// Answers that are not as they should be.
    wrong: BTreeSet<String>,
    /// Of each process, what it held after each visitor who was alone: threads and descriptors.
    held: BTreeMap<String, Vec<[usize; 2]>>,
}

impl Seen {
    fn hear(&mut self, response: &Response, is_alone: bool) {
        let text = String::from_utf8_lossy(&response.body).into_owned();
        if response.status() != 200 || text != "ok" {
            self.wrong.insert(format!("{} {text}", response.status()));
        }
        let numbers = response.header("x-holds").unwrap_or_default().split(' ');
        let counts: Vec<usize> = numbers.filter_map(|number| number.parse().ok()).collect();
        let process = response.header("x-process").unwrap_or_default().to_owned();
        if let (&[threads, files], true) = (&counts[..], is_alone) {
            self.held.entry(process).or_default().push([threads, files]);
        }
    }

    /// What each visitor leaves in the process that serves the next one. The first may have loaded
    /// what stays for all.
    fn left(&self) -> Option<&'static str> {
        let grows = |which: usize| {
            self.held.values().any(|held| {
                held.len() > VISITORS / 2 && held[1..].is_sorted_by(|a, b| a[which] < b[which])
            })
        };
        if grows(0) {
            Some("each visitor leaves a thread")
        } else if grows(1) {
            Some("each visitor leaves a descriptor")
        } else {
            None
        }
    }
}

/// Some visitors one after the other, six at once, and one more.
fn visit(server: &Server) -> Seen {
    let seen = Mutex::new(Seen::default());
    let ask = |is_alone| {
        let response = server.get("/index.php");
        seen.lock().unwrap().hear(&response, is_alone);
    };
    (0..VISITORS).for_each(|_| ask(true));
    in_parallel(6, |_| ask(false));
    ask(false);
    seen.into_inner().unwrap()
}

/// A cell: by the answers that were wrong, and by what the log says.
fn verdict(seen: &Seen, log: &str) -> String {
    if log.contains("Unable to load dynamic library") {
        return "does not work: the extension cannot be loaded".to_owned();
    }
    assert!(!log.contains("Cannot load module"), "{log}"); // `with` does not name all
    let after = |text: &str| log.lines().find_map(|line| line.split_once(text)).map(|(_, end)| end);
    let refusal = after("no image can be taken: ").and_then(|end| end.rsplit_once("; this site"));
    let replaced = after("a worker is replaced: ").and_then(|end| end.rsplit_once(", pid="));
    let killed = ["SIGSEGV", "SIGABRT", "SIGBUS"].iter().find(|signal| log.contains(**signal));
    let outcome = match (seen.wrong.first(), refusal) {
        (Some(first), _) if first.contains("Tokamak\\ConnectionInUse") => IN_USE.to_owned(),
        (Some(_), _) if log.contains("hold a connection: open it in the request") => {
            "refused: the boot's connection is closed, and the log says so".to_owned()
        }
        (Some(first), _) => {
            let first: String = first.chars().take(120).collect();
            format!("does not work: {}", first.replace(['|', '\n'], " "))
        }
        (None, Some((reason, _))) if reason.contains("threads run") => {
            "refused: threads run, of which an image can hold only one".to_owned()
        }
        (None, Some((reason, _))) => format!("refused: {reason}"),
        (None, None) => "ok".to_owned(),
    };
    let notes = [
        killed.map(|signal| format!("a process dies by {signal}")),
        replaced.map(|(cause, _)| format!("the worker is replaced: {cause}")),
        seen.left().map(str::to_owned),
    ];
    [outcome].into_iter().chain(notes.into_iter().flatten()).collect::<Vec<_>>().join("; ")
}

/// The cells of all trials, in their order.
fn cells(trials: &[Trial<'_>], services: &Services) -> Vec<Vec<String>> {
    let cells = in_threads(AT_ONCE, trials.len() * WAYS.len(), |number| {
        trials[number / WAYS.len()].cell(&WAYS[number % WAYS.len()], services)
    });
    cells.chunks(WAYS.len()).map(<[_]>::to_vec).collect()
}

/// The first line of what a panic says.
pub fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it ends");
    let line: String = text.lines().next().unwrap_or_default().chars().take(100).collect();
    line.replace('|', " ")
}

/// The version and the cells of a row of the page.
pub fn written<'a>(rows: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let row = rows.lines().find(|row| row.starts_with(&format!("| {name} |")))?;
    Some(row.trim_end_matches(" |").split(" | ").skip(1).collect())
}

/// The page's text up to the table that begins so, its heading with it; its rows; the text behind
/// it.
pub fn split<'a>(page: &'a str, heading: &str) -> [&'a str; 3] {
    let heading = page.find(heading).unwrap_or_else(|| panic!("no table begins with {heading}"));
    let rows = heading + page[heading..].match_indices('\n').nth(1).expect("two lines").0 + 1;
    let end = page[rows..].find("\n\n").map_or(page.len(), |end| rows + end + 1);
    [&page[..rows], &page[rows..end], &page[end..]]
}

/// The page, of which these tests write a table each.
static PAGE: Mutex<()> = Mutex::new(());

/// Tries rows, and writes the table that begins so (`is_written`), or compares it. With
/// `keeps_others`, rows that were not tried stay.
fn compare(head: &str, trials: &[Trial<'_>], is_written: bool, keeps_others: bool) {
    let services = Services::start(trials);
    let mut found = cells(trials, &services);
    let _guard = PAGE.lock();
    let path = root().join("docs/works-with.md");
    let page = fs::read_to_string(&path).expect("the page");
    let titles = WAYS.map(|way| way.title).join(" | ");
    let [introduction, rows, rest] = split(&page, &format!("| {head} | version | {titles} |"));
    for (trial, cells) in trials.iter().zip(&mut found) {
        let kept = written(rows, &trial.row.name).into_iter().flatten().skip(1);
        let met = |(cell, kept): &(&mut String, &str)| *cell == "ok" && *kept == IN_USE;
        cells.iter_mut().zip(kept).filter(met).for_each(|(cell, kept)| *cell = kept.to_owned());
    }
    if is_written {
        let row = |(trial, cells): (&Trial<'_>, &Vec<String>)| {
            format!("| {} | {} | {} |\n", trial.row.name, trial.version, cells.join(" | "))
        };
        let mut lines: Vec<_> = trials.iter().zip(&found).map(row).collect();
        let is_tried = |line: &str| {
            trials.iter().any(|trial| line.starts_with(&format!("| {} |", trial.row.name)))
        };
        if keeps_others {
            let others = rows.lines().filter(|line| !is_tried(line));
            lines.extend(others.map(|line| format!("{line}\n")));
        }
        lines.sort();
        fs::write(&path, format!("{introduction}{}{rest}", lines.concat()))
            .expect("docs/ is there");
        return;
    }
    for (trial, cells) in trials.iter().zip(&found) {
        let name = &trial.row.name;
        let written = written(rows, name).unwrap_or_else(|| panic!("the page has no {name}"));
        for ((way, cell), written) in WAYS.iter().zip(cells).zip(&written[1..]) {
            assert_eq!(cell, written, "{name}, {}, PHP {}", way.title, trial.version);
        }
    }
}

/// Rows of the table, each with the settings that load its extension; those whose extension is not
/// here are left out.
fn present<'a>(
    php: &'a Php,
    is_meant: impl Fn(&Row) -> bool + 'a,
) -> impl Iterator<Item = (&'a Row, String)> {
    let rows = php.rows.iter().filter(move |row| is_meant(row));
    rows.filter_map(|row| php.settings(row).map(|settings| (row, settings)))
}

fn trials<'a>(rows: impl Iterator<Item = (&'a Row, String)>) -> Vec<Trial<'a>> {
    rows.map(|(row, settings)| Trial::new(row, &settings)).collect()
}

fn is_update() -> bool {
    std::env::var_os("UPDATE_DOCS").is_some()
}

#[test]
fn extensions_work_as_the_page_says() {
    let php = Php::look();
    let all = std::env::var_os(unpacked::FOLDER).is_some();
    let is_unpacked =
        |row: &Row| unpacked::ALL.iter().any(|(names, _)| names.contains(&row.service.as_str()));
    let alone = std::env::var(ALONE).ok();
    let is_meant = |row: &Row| {
        let is_asked = alone.as_ref().is_none_or(|module| *module == row.module);
        !row.is_new && is_asked && (all || !is_unpacked(row))
    };
    for row in php.rows.iter().filter(|row| all && is_meant(row)) {
        assert!(php.settings(row).is_some(), "{}, or what it needs, is not there", row.module);
    }
    let step = if all { 1 } else { ONE_OF };
    let trials = trials(present(&php, is_meant).step_by(step));
    compare(&format!("PHP {}", php.version), &trials, all && is_update(), alone.is_some());
}

/// Older releases of PHP have few of these rows, or none.
#[test]
fn what_is_new_in_php_works_as_the_page_says() {
    let php = Php::look();
    let trials = trials(present(&php, |row| row.is_new));
    compare("new in PHP", &trials, is_update(), true);
}
