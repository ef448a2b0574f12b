//! What functions of PHP leave for the next request, found by calling them: each whose name sets,
//! opens, registers, enables or loads something is called with whatever arguments fit, and the next
//! request looks at all that it can see of its process. `tests/leftovers` has both. What is left
//! has to be a channel of `docs/isolation.md`, and be said to stay there.
//!
//! `scripts/test-leftovers` calls all of them, and those of all extensions of Debian's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use crate::harness::{Connection, Kind, Response, Server, Setup, get};
use crate::layers::root;

/// What a request sees, by what it looks at.
type Sights = BTreeMap<String, Value>;

/// What shows a channel of the page, by the name of either.
const SHOWN: &[(&str, &str)] = &[
    ("Imagick::getRegistry(polluted)", "Imagick::setRegistry()"),
    ("Imagick::listRegistry()", "Imagick::setRegistry()"),
    ("assert", "assert() callback"),
    ("default context", "stream_context_set_default()"),
    ("domains", "textdomain()"),
    ("imap_errors()", "imap_last_error()"),
    ("ini: session.save_path", "session_save_path()"),
    ("libxml_get_last_error()", "libxml_get_last_error()"),
    ("mb_regex_set_options()", "mb_regex_set_options()"),
    ("mysqli_connect_errno()", "mysqli_connect_errno()"),
    ("mysqli_connect_error()", "mysqli_connect_errno()"),
    ("mysqli_get_client_stats()", "mysqli_get_client_stats()"),
    ("openssl_error_string()", "openssl_error_string()"),
    ("odbc_error()", "odbc_error() without a connection"),
    ("odbc_errormsg()", "odbc_error() without a connection"),
    ("pinba_tags_get()", "pinba_tag_set()"),
    ("readline_list_history()", "history of readline"),
    ("rrd_error()", "rrd_error()"),
    ("session_save_path()", "session_save_path()"),
    ("socket_last_error()", "socket_last_error()"),
    ("spl_autoload_functions()", "spl_autoload_register()"),
    ("stomp_connect_error()", "stomp_connect_error()"),
    ("stream_get_filters()", "stream_filter_register()"),
    ("stream_get_wrappers()", "stream_wrapper_register()"),
];

/// What all requests of a process have in common while they are served at once: its descriptors,
/// and a count of objects.
const IN_COMMON: &[&str] = &[FILES, "SolrUtils::getSolrStats()"];

const FILES: &str = "process: files";

/// Calls that keep a connection, which is what they are for, and the channel that says so.
const KEEPING: (&[&str], &str) = (
    &[
        "Memcache::connect",
        "MemcachePool::connect",
        "ZMQContext::setOpt",
        "memcache_connect",
        "memcache_pconnect",
    ],
    "connections of Memcache, contexts of ZMQ",
);

/// One site and what its requests see of its worker.
struct Site {
    kind: Kind,
    server: Server,
    connection: Connection,
    process: String,
    /// What changes by itself.
    restless: BTreeSet<String>,
    before: Sights,
    /// What is not said on the page.
    found: BTreeSet<String>,
}

impl Site {
    fn start(kind: Kind) -> Site {
        // A script that is too young for opcache is read anew, and then is among the open files.
        let setup = Setup::new(kind)
            .site("leftovers")
            .workers(1)
            .php_admin_value("opcache.file_update_protection", "0");
        let setup = match std::env::var("LEFTOVERS_OF") {
            Ok(directories) => setup.server_env("PHP_INI_SCAN_DIR", &directories),
            Err(_) => setup,
        };
        let server = setup.start();
        let mut site = Site {
            kind,
            connection: server.connect(),
            server,
            process: String::new(),
            restless: BTreeSet::new(),
            before: Sights::new(),
            found: BTreeSet::new(),
        };
        site.look_anew();
        site
    }

    fn exchange(&mut self, target: &str) -> Response {
        self.connection.exchange(&get(target))
    }

    fn look(&mut self) -> (Sights, String) {
        let response = self.exchange("/index.php?do=look");
        let process = response.header("X-Process").unwrap_or_default().to_owned();
        let sights = serde_json::from_slice(&response.body)
            .unwrap_or_else(|error| panic!("{error} in {response}"));
        (sights, process)
    }

    /// Learns what is seen of a process without pollution; the first looks load what later ones
    /// use.
    fn look_anew(&mut self) {
        self.look();
        (self.before, _) = self.look();
        for _ in 0..2 {
            let (now, process) = self.look();
            let changed: Vec<_> = self.changes(&now).map(str::to_owned).collect();
            self.restless.extend(changed);
            self.process = process;
        }
    }

    /// What is seen otherwise than before.
    fn changes<'a>(&'a self, now: &'a Sights) -> impl Iterator<Item = &'a str> {
        let gone = self.before.keys().filter(|key| !now.contains_key(*key));
        let changed = now.keys().filter(|key| self.before.get(*key) != now.get(*key));
        gone.chain(changed).filter(|key| !self.restless.contains(*key)).map(String::as_str)
    }

    /// Notes what a call has left that the page does not say.
    fn compare(&mut self, now: &Sights, page: &str, call: &str) {
        let is_known = |seen: &&str| {
            let shown = SHOWN.iter().find(|(shows, _)| shows == seen).map(|(_, channel)| *channel);
            let is_kept = *seen == FILES && KEEPING.0.contains(&call);
            let channel = shown.or(is_kept.then_some(KEEPING.1));
            channel.is_some_and(|channel| may_stay(page, channel, self.kind))
        };
        let left = self.changes(now).filter(|seen| !is_known(seen));
        let line = |seen| {
            let (was, is) = (self.before.get(seen), now.get(seen));
            format!("{call} leaves {seen}: {} for {}", text(is), text(was))
        };
        self.found.extend(left.map(line).collect::<Vec<_>>());
    }

    /// Calls a function, and looks: in async mode also while the request that called it goes on.
    fn call(&mut self, page: &str, name: &str, number: usize) {
        let bytes: String = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let target = format!("/index.php?do=call&name={bytes}");
        let status = if self.kind == Kind::Async {
            let mut polluter = self.server.connect();
            polluter.send(get(&format!("{target}&hold={number}")).bytes());
            self.server.holds(&number.to_string());
            let (mut now, _) = self.look();
            for seen in IN_COMMON {
                now.extend(self.before.get(*seen).map(|same| ((*seen).to_owned(), same.clone())));
            }
            self.compare(&now, page, &format!("{name}, meanwhile,"));
            self.server.let_go(&number.to_string());
            polluter.response().status()
        } else {
            self.exchange(&target).status()
        };
        let (now, process) = self.look();
        if status == 200 && process == self.process {
            self.compare(&now, page, name);
            self.before = now;
        } else {
            self.look_anew(); // of another process, or of another boot
        }
    }
}

fn text(value: Option<&Value>) -> String {
    value.map_or("nothing".into(), Value::to_string)
}

/// Whether the page says that a channel stays.
fn may_stay(page: &str, channel: &str, kind: Kind) -> bool {
    let row = page.lines().find(|line| line.starts_with(&format!("| {channel} |")));
    let row = row.unwrap_or_else(|| panic!("docs/isolation.md has no channel {channel}"));
    let column = match kind {
        Kind::Classic => 3,
        Kind::Worker => 4,
        Kind::Sealed => 5,
        Kind::Async => 6,
        other => panic!("no column of {other:?}"),
    };
    let cell = row.split('|').nth(column).expect("a row of all modes").trim();
    cell == "stays" || cell == "shared"
}

/// Calls every fourth function, or all of them with the extensions of `LEFTOVERS_OF`, and fails if
/// something is left that the page does not say.
fn nothing_is_left_but_what_the_page_says(kind: Kind) {
    let page = fs::read_to_string(root().join("docs/isolation.md")).expect("the page");
    let mut site = Site::start(kind);
    let list = site.exchange("/index.php?do=list");
    let names: Vec<String> = serde_json::from_slice(&list.body).expect("a list of names");
    let (least, each_of) = match std::env::var_os("LEFTOVERS_OF") {
        Some(_) => (900, 1), // fewer: an extension could not be loaded
        None => (500, 4),
    };
    assert!(names.len() > least, "only {} functions", names.len());
    for (number, name) in names.iter().enumerate().step_by(each_of) {
        site.call(&page, name, number);
    }
    let found: Vec<_> = site.found.iter().map(String::as_str).collect();
    assert!(found.is_empty(), "{kind:?}: not on the page:\n{}", found.join("\n"));
}

#[test]
fn classic_mode_leaves_nothing() {
    nothing_is_left_but_what_the_page_says(Kind::Classic);
}

#[test]
fn sealed_mode_leaves_nothing() {
    nothing_is_left_but_what_the_page_says(Kind::Sealed);
}

#[test]
fn worker_mode_leaves_what_the_page_says() {
    nothing_is_left_but_what_the_page_says(Kind::Worker);
}

#[test]
fn async_mode_leaves_what_the_page_says_meanwhile_and_later() {
    nothing_is_left_but_what_the_page_says(Kind::Async);
}
