//! Invented configurations of nginx, each with requests of many kinds, through nginx and through
//! Tokamak with what was imported. Both have to answer the same, or a note or the documentation
//! says so; and nothing is served that nginx refuses.
//!
//! `TOKAMAK_IMPORTS=1000000 cargo test -p tokamak --test it -- import::differential` goes on until
//! so many requests have been compared; `TOKAMAK_SEED` begins elsewhere.

mod nginx;
mod outcome;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::Desk;
use crate::harness::{Connection, eventually, get, is_root, program};
use outcome::{Outcome, Reply};

/// Requests that `make test` compares: more would take longer than a minute.
const FEW: usize = 10_000;

/// Sites of one configuration, which is one start of both servers.
const SITES: usize = 50;

/// Where `make test` begins; any other number would do.
const SEED: u64 = 1;

/// A sequence of numbers that look random, the same for the same seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.roll() % end as u64).unwrap()
    }

    /// Whether something happens that does so once in `times`.
    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// The documents of all sites.
const FILES: [&str; 26] = [
    "index.php",
    "other.php",
    "info.php",
    "page.html",
    "robots.txt",
    "notes.txt",
    "css/app.css",
    "img/a.png",
    "img/evil.php",
    "uploads/a.png",
    "uploads/evil.php",
    "uploads/deep/evil.php",
    "admin/index.php",
    "admin/tool.php",
    "admin/style.css",
    "docs/index.html",
    "docs/guide.html",
    "docs/run.php",
    "data/secret.txt",
    "data/script.php",
    "empty/.keep",
    "sub/page.html",
    ".env",
    ".git/config",
    ".well-known/proof.txt",
    "old/page.html",
];

/// Paths without a file.
const MISSING: [&str; 14] = [
    "/",
    "/some/page",
    "/some/page/",
    "/missing.php",
    "/missing.png",
    "/uploads/missing.png",
    "/uploads/missing.php",
    "/admin/none",
    "/docs/none",
    "/data/none.txt",
    "/blog/2020/post.html",
    "/p/12",
    "/gone",
    "/news/x",
];

/// A request.
fn target(dice: &mut Dice) -> String {
    let mut target = match dice.below(10) {
        0..=4 => format!("/{}", dice.pick(&FILES)),
        5..=7 => (*dice.pick(&MISSING)).to_owned(),
        _ => {
            let folders = ["uploads", "admin", "docs", "data", "empty", "img", "css", ".git"];
            format!("/{}/", dice.pick(&folders))
        }
    };
    match dice.below(12) {
        0 => target.push_str("/more"),
        1 => target.push_str("/more.png"),
        2 => target.push_str("/index.php"),
        3 => target = target.trim_end_matches('/').to_owned() + "/",
        4 if target.len() > 1 => target = target.trim_end_matches('/').to_owned(),
        5 => target = format!("/x/..{target}"),
        6 => target = format!("/{target}"),
        7 => target = target.replacen(".php", "%2ephp", 1),
        8 => target = target.to_ascii_uppercase(),
        _ => {}
    }
    match dice.below(6) {
        0 => target.push_str("?a=1"),
        1 => target.push_str("?q=/admin/&b=.php"),
        _ => {}
    }
    if target.is_empty() { "/".to_owned() } else { target }
}

/// One site of a configuration.
struct Invented {
    name: String,
    text: String,
    /// The lines of its block.
    lines: std::ops::Range<usize>,
}

/// A client of one server, which keeps its connection as long as the server does.
struct Client {
    address: SocketAddr,
    connection: Option<Connection>,
}

impl Client {
    fn ask(&mut self, host: &str, target: &str) -> Reply {
        let open = || Connection::open(self.address);
        let mut connection = self.connection.take().unwrap_or_else(open);
        let response = connection.exchange(&get(target).header("Host", host));
        if response.header("connection") != Some("close") {
            self.connection = Some(connection);
        }
        Reply::of(&response)
    }
}

#[test]
fn invented_sites_of_nginx_are_the_same_or_noted() {
    let number = |name: &str| std::env::var(name).ok().map(|it| it.parse().expect("a number"));
    let all: usize = number("TOKAMAK_IMPORTS").map_or(FEW, |it: u64| it.try_into().unwrap());
    let mut dice = Dice(number("TOKAMAK_SEED").unwrap_or(SEED));
    let mut outcome = Outcome::default();
    while outcome.compared() < all {
        let rest = all - outcome.compared();
        round(&mut dice, rest, &mut outcome);
    }
    println!("{outcome}");
    assert!(outcome.is_good(), "{outcome}");
}

/// One start of both servers.
fn round(dice: &mut Dice, most: usize, outcome: &mut Outcome) {
    let mut desk = Desk::new(&FILES);
    desk.start_fpm();
    let mut text = head();
    let mut sites = Vec::new();
    for number in 0..SITES {
        let name = format!("site.s{number}.test");
        let own = nginx::site(dice, &name);
        let start = text.lines().count() + 1;
        text.push_str(&own);
        sites.push(Invented { name, text: own, lines: start..text.lines().count() + 1 });
    }
    text.push_str("}\n");
    let file = desk.write("nginx.conf", &text);
    desk.write("users", super::USERS);
    let (top, name) = (desk.path("").display().to_string(), file.display().to_string());
    let nginx = Path::new("/usr/sbin/nginx");
    desk.start(nginx, &["-p", &top, "-c", &name, "-e", "stderr"], &[]);
    let notes = serve(&mut desk, &file);
    let each = (most / SITES).clamp(1, 200);
    for site in &sites {
        let is_own = |note: &&Noted| site.lines.contains(&note.line);
        let notes: Vec<&Noted> = notes.iter().filter(is_own).collect();
        let client = |address| Client { address, connection: None };
        let (mut theirs, mut ours) = (client(desk.theirs), client(desk.ours));
        for _ in 0..each {
            let target = target(dice);
            let pair = (theirs.ask(&site.name, &target), ours.ask(&site.name, &target));
            outcome.add(&site.text, &target, pair, &notes, || rules(&desk, &site.name));
        }
    }
}

/// A note of the importer.
struct Noted {
    line: usize,
    text: String,
}

/// Imports a configuration and serves it; gives the notes.
fn serve(desk: &mut Desk, file: &Path) -> Vec<Noted> {
    let output = desk.import("nginx", file);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    let configuration = desk.path("tokamak.toml");
    let environment = [
        ("TOKAMAK_LISTEN".to_owned(), desk.ours.to_string()),
        ("TOKAMAK_CONTROL".to_owned(), desk.path("control").display().to_string()),
    ];
    let arguments = ["serve", "--config", configuration.to_str().unwrap()];
    desk.start(&program(), &arguments, &environment);
    for address in [desk.theirs, desk.ours] {
        let listens = || {
            let ended = desk.processes.iter_mut().find_map(crate::harness::Process::ended);
            assert!(ended.is_none(), "{ended:?}: {}", desk.log());
            std::net::TcpStream::connect(address).ok().map(drop)
        };
        eventually(Duration::from_secs(20), listens).expect("a server listens");
    }
    let prefix = format!("{}:", file.display());
    let notes = said.lines().filter_map(|line| {
        let (number, _) = line.strip_prefix(&prefix)?.split_once(':')?;
        Some(Noted { line: number.parse().ok()?, text: line.replace(&prefix, "line ") })
    });
    notes.collect()
}

/// What was written for a site.
fn rules(desk: &Desk, name: &str) -> String {
    let text = fs::read_to_string(desk.path("tokamak.toml")).unwrap();
    let named = format!("\"{name}\"");
    let mut sites = text.split("\n[[site]]\n");
    sites.find(|site| site.contains(&named)).unwrap_or_default().to_owned()
}

fn head() -> String {
    let user = if is_root() { "user www-data;" } else { "" };
    format!(
        "{user}\ndaemon off;\npid $TOP/nginx.pid;\nworker_processes 1;\nevents {{ }}\nhttp {{\n\
         include /etc/nginx/mime.types;\naccess_log off;\nclient_body_temp_path $TOP/body;\n\
         fastcgi_temp_path $TOP/fastcgi;\nproxy_temp_path $TOP/proxy;\n\
         uwsgi_temp_path $TOP/uwsgi;\nscgi_temp_path $TOP/scgi;\n"
    )
}
