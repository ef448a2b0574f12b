//! Which FastCGI applications work: a table of `docs/works-with.md`, made from what is seen here.
//! `tests/works-with/fastcgi` has the same small application for each library.
//!
//! `scripts/works-with-fastcgi` tries all of them; a change tries those that are installed.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::iter;
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::applications::{Application, built, example};
use super::connections::connections;
use crate::harness::{
    Kind, Server, Setup, crc32, eventually, get, in_parallel, in_threads, numbered, post,
};
use crate::layers::root;
use crate::operate::status;
use crate::works_with::{message, split, written};

/// A folder with unpacked packages of what is not installed, and a file `versions`.
const UNPACKED: &str = "WORKS_WITH_FASTCGI_IN";

/// Far above what a loaded machine needs, but for what never comes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Rows at once.
const AT_ONCE: usize = 3;

/// Bytes of a field that is a long parameter.
const LONG: usize = 12_000;

/// An application of the table.
struct Row {
    name: &'static str,
    /// Whose version is shown: of a package of Debian, or of what `scripts/works-with-fastcgi` has
    /// from elsewhere.
    package: &'static str,
    /// The program and its arguments, but for the socket, which comes last.
    command: fn(&Places) -> Vec<String>,
    /// What `script` of the route is, for who runs programs.
    script: Option<&'static str>,
}

/// Where things are.
struct Places<'a> {
    /// Unpacked packages.
    unpacked: Option<&'a Path>,
    /// A folder for what is compiled.
    directory: &'a Path,
}

impl Places<'_> {
    /// A program and its arguments, which find what is unpacked.
    fn run(&self, words: &[&str]) -> Vec<String> {
        let Some(place) = self.unpacked.map(Path::display) else {
            return words.iter().map(|word| (*word).to_owned()).collect();
        };
        let variables = [
            format!("PERL5LIB={place}/usr/share/perl5:{place}/usr/lib/x86_64-linux-gnu/perl5/5.36"),
            format!("NODE_PATH={place}/usr/share/nodejs"),
            format!("PYTHONPATH={place}/python"),
            format!("LUA_PATH={place}/usr/share/lua/5.1/?.lua;;"),
            format!("LUA_CPATH={place}/usr/lib/x86_64-linux-gnu/lua/5.1/?.so;;"),
        ];
        let words = words.iter().map(|word| word.replace("UNPACKED", &place.to_string()));
        ["env".to_owned()].into_iter().chain(variables).chain(words).collect()
    }

    /// The same for a program that has its socket on descriptor 0.
    fn on_descriptor_0(&self, words: &[&str]) -> Vec<String> {
        let starter = ours("on_descriptor_0.py");
        let words: Vec<_> = ["python3", "-B", &starter].iter().chain(words).copied().collect();
        self.run(&words)
    }
}

/// The path of an application of the table.
fn ours(name: &str) -> String {
    root().join("tests/works-with/fastcgi").join(name).display().to_string()
}

/// The rows, in the table's order.
const ROWS: [Row; 24] = [
    Row {
        name: "C, libfcgi, threads",
        package: "libfcgi-dev",
        command: |places| vec![built("c/app.c", places.directory)],
        script: None,
    },
    Row {
        name: "CGI programs, fcgiwrap",
        package: "fcgiwrap",
        command: |places| places.on_descriptor_0(&["fcgiwrap", "-c", "2"]),
        script: Some("app.cgi"),
    },
    Row {
        name: "CLISP, its module",
        package: "clisp-module-fastcgi",
        command: |places| places.on_descriptor_0(&["sh", "UNPACKED/clisp", &ours("clisp.lisp")]),
        script: None,
    },
    Row {
        name: "Go, net/http/fcgi",
        package: "golang-go",
        command: |places| vec![go(places.directory)],
        script: None,
    },
    Row {
        name: "Lua, WSAPI",
        package: "lua-wsapi-fcgi",
        command: |places| places.on_descriptor_0(&["lua5.1", &ours("app.lua")]),
        script: None,
    },
    Row {
        name: "Node, node-fastcgi",
        package: "node-fastcgi",
        command: |places| places.run(&["node", &ours("node.js")]),
        script: None,
    },
    Row {
        name: "OCaml, netcgi2",
        package: "libocamlnet-ocaml-dev",
        command: |places| places.run(&["UNPACKED/netcgi"]),
        script: None,
    },
    Row {
        name: "PHP 8.2, php-cgi, two processes",
        package: "php8.2-cgi",
        command: |_| with_php("php-cgi.sh", "php-cgi8.2"),
        script: Some("app.php"),
    },
    Row {
        name: "PHP 8.2, php-fpm, two processes",
        package: "php8.2-fpm",
        command: |_| with_php("php-fpm.sh", "php-fpm8.2"),
        script: Some("app.php"),
    },
    Row {
        name: "PHP 8.4, php-cgi, two processes",
        package: "php8.4-cgi",
        command: |_| with_php("php-cgi.sh", "php-cgi8.4"),
        script: Some("app.php"),
    },
    Row {
        name: "PHP 8.4, php-fpm, two processes",
        package: "php8.4-fpm",
        command: |_| with_php("php-fpm.sh", "php-fpm8.4"),
        script: Some("app.php"),
    },
    Row {
        name: "Perl, AnyEvent::FCGI",
        package: "libanyevent-fcgi-perl",
        command: |places| places.run(&["perl", &ours("anyevent.pl")]),
        script: None,
    },
    Row {
        name: "Perl, CGI::Fast",
        package: "libcgi-fast-perl",
        command: |places| places.run(&["perl", &ours("cgi-fast.pl")]),
        script: None,
    },
    Row {
        name: "Perl, FCGI",
        package: "libfcgi-perl",
        command: |places| places.run(&["perl", &example("perl/app.pl")]),
        script: None,
    },
    Row {
        name: "Perl, FCGI::Async",
        package: "libfcgi-async-perl",
        command: |places| places.run(&["perl", &ours("fcgi-async.pl")]),
        script: None,
    },
    Row {
        name: "Perl, FCGI::EV",
        package: "libfcgi-ev-perl",
        command: |places| places.run(&["perl", &ours("fcgi-ev.pl")]),
        script: None,
    },
    Row {
        name: "Perl, Mojolicious",
        package: "libmojo-server-fastcgi-perl",
        command: |places| places.on_descriptor_0(&["perl", &ours("mojo.pl")]),
        script: None,
    },
    Row {
        name: "Perl, Net::Async::FastCGI",
        package: "libnet-async-fastcgi-perl",
        command: |places| places.run(&["perl", &ours("net-async.pl")]),
        script: None,
    },
    Row {
        name: "Perl, Plack, two processes",
        package: "libplack-perl",
        command: |places| places.run(&["perl", &ours("plack.pl")]),
        script: None,
    },
    Row {
        name: "Python, flup",
        package: "flup",
        command: |places| places.run(&["python3", "-B", &ours("wsgi-flup.py")]),
        script: None,
    },
    Row {
        name: "Python, uWSGI, two processes",
        package: "uwsgi-core",
        command: |places| {
            places.run(&[
                "UNPACKED/usr/bin/uwsgi-core",
                "--plugins-dir=UNPACKED/usr/lib/uwsgi/plugins",
                "--plugin=python311",
                "--master",
                "--die-on-term",
                "--processes=2",
                "--chmod-socket=666",
                &format!("--wsgi-file={}", ours("wsgi.py")),
                "--fastcgi-socket",
            ])
        },
        script: None,
    },
    Row {
        name: "Ruby, fcgi",
        package: "ruby-fcgi",
        command: |places| places.on_descriptor_0(&["ruby", &example("ruby/app.rb")]),
        script: None,
    },
    Row {
        name: "Rust, fastcgi",
        package: "fastcgi",
        command: |places| places.on_descriptor_0(&["UNPACKED/rust/debug/fastcgi"]),
        script: None,
    },
    Row {
        name: "Rust, tokio-fastcgi",
        package: "tokio-fastcgi",
        command: |places| places.run(&["UNPACKED/rust/debug/tokio-fastcgi"]),
        script: None,
    },
];

/// Packages of Debian 13, whose rows are written there.
const OF_DEBIAN_13: [&str; 2] = ["php8.4-cgi", "php8.4-fpm"];

fn is_of_debian_13(row: &Row) -> bool {
    OF_DEBIAN_13.contains(&row.package)
}

/// One of PHP's own programs, as a script starts it.
fn with_php(script: &str, program: &str) -> Vec<String> {
    ["/bin/sh", &ours(script), program].map(str::to_owned).to_vec()
}

/// Builds the application in Go.
fn go(directory: &Path) -> String {
    let program = directory.join("app").display().to_string();
    let output = Command::new("go")
        .args(["build", "-o", &program, &ours("app.go")])
        .output()
        .expect("go runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// A column: what is tried. It returns a note, or panics.
type Use = fn(&mut Application, &Row) -> String;

const USES: [(&str, Use); 8] = [
    ("page", page),
    ("bodies", bodies),
    ("long parameter", long_parameter),
    ("twenty at once", at_once),
    ("connections", kept_connections),
    ("several requests on one", shared_connections),
    ("clients that leave", clients_that_leave),
    ("killed, and back", killed),
];

/// A server in front of it. Limits are short: some never answer.
fn serve(application: &Application, row: &Row, lines: &str) -> Server {
    let socket = application.socket.display();
    let route = "[[site.route]]\npath = \"/app\"\nupstream = \"app\"";
    let script = row.script.map(|script| format!("\nscript = \"{}\"", ours(script)));
    Setup::new(Kind::Fastcgi)
        .upstream(&format!(
            "address = \"unix:{socket}\"\nfirst_byte_timeout = \"10s\"\nread_timeout = \"10s\"\n\
             send_timeout = \"10s\"\n{lines}"
        ))
        .site_line(&format!("{route}{}", script.unwrap_or_default()))
        .start()
}

fn ask_page(server: &Server, query: &str) {
    let response = server.get(&format!("/app/env?{query}")).expect(200);
    let text = response.text();
    assert!(text.contains(&format!("QUERY_STRING={query}\n")), "{text}");
    assert!(text.contains("PATH_INFO=/env\n") || text.contains("PATH_INFO=/app/env\n"), "{text}");
}

fn page(application: &mut Application, row: &Row) -> String {
    let server = serve(application, row, "");
    ask_page(&server, "q=1");
    String::new()
}

fn bodies(application: &mut Application, row: &Row) -> String {
    let server = serve(application, row, "");
    // Whether a large one is lost may be chance; a change need not find out each time.
    let larges = if std::env::var_os(UNPACKED).is_some() { 5 } else { 1 };
    for size in [0, 5, 50_000].into_iter().chain(iter::repeat_n(3 << 20, larges)) {
        let sent = numbered(size);
        let back = catch_unwind(AssertUnwindSafe(|| {
            server.send(&post("/app/echo", "text/plain", sent.clone()).chunked(9999)).body
        }));
        let is_same = back.is_ok_and(|back| (back.len(), crc32(&back)) == (size, crc32(&sent)));
        assert!(is_same, "not each of {size} bytes is answered");
    }
    String::new()
}

fn long_parameter(application: &mut Application, row: &Row) -> String {
    let server = serve(application, row, "");
    let long = "y".repeat(LONG);
    let response = server.send(&get("/app/env").header("X-Long", &long));
    assert!(response.status() == 200, "it is answered {}", response.status());
    assert!(response.text().contains(&format!("HTTP_X_LONG={long}\n")), "it does not come whole");
    String::new()
}

/// Each of these requests is answered, with what is for it.
fn ask_at_once(server: &Server, count: usize) {
    let failed = AtomicUsize::new(0);
    in_parallel(count, |number| {
        let asked = catch_unwind(AssertUnwindSafe(|| ask_page(server, &format!("n={number}"))));
        failed.fetch_add(usize::from(asked.is_err()), Ordering::Relaxed);
    });
    assert!(failed.into_inner() == 0, "not all are answered");
}

fn at_once(application: &mut Application, row: &Row) -> String {
    let server = serve(application, row, "");
    ask_at_once(&server, 20);
    String::new()
}

fn kept_connections(application: &mut Application, row: &Row) -> String {
    let server = serve(application, row, "multiplex = false");
    // One that is closed shows at its next request.
    (0..8).for_each(|number| ask_page(&server, &format!("n={number}")));
    match connections(&server).as_str() {
        "closed" => "closed after each response".to_owned(),
        word => word.to_owned(),
    }
}

fn shared_connections(application: &mut Application, row: &Row) -> String {
    let server = serve(application, row, "multiplex = true");
    ask_at_once(&server, 20);
    if connections(&server) != "shared" {
        return "it does not say that it can".to_owned();
    }
    let server = serve(application, row, "");
    let is_found = || {
        ask_page(&server, "n=1");
        (connections(&server) == "shared").then_some(())
    };
    assert!(eventually(PATIENCE, is_found).is_some(), "it is not found by itself");
    ask_at_once(&server, 20);
    "yes, by itself".to_owned()
}

fn clients_that_leave(application: &mut Application, row: &Row) -> String {
    let server = serve(application, row, "");
    for _ in 0..20 {
        let mut client = TcpStream::connect(server.address).expect("the server");
        client.write_all(b"GET /app/env HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    }
    ask_page(&server, "n=1");
    let is_at_rest = || {
        let status = status(&server);
        (status["upstreams"][0]["addresses"][0]["in_use"] == 0).then_some(())
    };
    assert!(eventually(PATIENCE, is_at_rest).is_some(), "a request stays under way");
    ask_at_once(&server, 8);
    String::new()
}

fn killed(application: &mut Application, row: &Row) -> String {
    let server = serve(application, row, "pause = \"100ms\"");
    (0..3).for_each(|number| ask_page(&server, &format!("n={number}")));
    application.kill_and_restart();
    let answers = || (server.get("/app/env").status() == 200).then_some(());
    assert!(eventually(PATIENCE, answers).is_some(), "it does not answer any more");
    (0..3).for_each(|number| ask_page(&server, &format!("n={number}")));
    String::new()
}

/// The cells of a row.
fn cells(row: &Row, unpacked: Option<&Path>) -> Vec<String> {
    let try_out = |(_, tried): &(&str, Use)| {
        let start = |directory: &Path| (row.command)(&Places { unpacked, directory });
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let mut application = Application::start(start);
            tried(&mut application, row)
        }));
        match outcome {
            Ok(note) if note.is_empty() => "ok".to_owned(),
            Ok(note) => format!("ok: {note}"),
            Err(panic) => format!("does not work: {}", message(&*panic)),
        }
    };
    USES.iter().map(try_out).collect()
}

/// The version of an installed package, or of one that is unpacked.
fn version(package: &str, unpacked: Option<&Path>) -> Option<String> {
    let output = Command::new("dpkg-query")
        .args(["--show", "--showformat=${db:Status-Status} ${Version}", package])
        .output()
        .expect("dpkg-query runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let installed = text.strip_prefix("installed ").map(str::to_owned);
    installed.or_else(|| {
        let versions = fs::read_to_string(unpacked?.join("versions")).expect("the versions");
        let line = versions.lines().find_map(|line| line.strip_prefix(&format!("{package} ")));
        line.map(str::to_owned)
    })
}

const HEADING: &str = "| application | version |";

#[test]
fn applications_work_as_the_page_says() {
    let path = root().join("docs/works-with.md");
    let page = fs::read_to_string(&path).expect("the page");
    let titles: Vec<_> = USES.iter().map(|(title, _)| *title).collect();
    assert!(page.contains(&format!("{HEADING} {} |", titles.join(" | "))), "other columns");
    let unpacked = std::env::var_os(UNPACKED).map(PathBuf::from);
    let unpacked = unpacked.as_deref();
    let [before, rows, after] = split(&page, HEADING);
    let updates = std::env::var_os("UPDATE_DOCS").is_some();
    let present: Vec<_> = ROWS
        .iter()
        .filter_map(|row| {
            let version = version(row.package, unpacked);
            assert!(
                version.is_some() || unpacked.is_none() || is_of_debian_13(row),
                "{} is neither installed nor unpacked",
                row.package
            );
            version.map(|version| (row, version))
        })
        .collect();
    // Some at once: some wait for what never comes.
    let found = in_threads(AT_ONCE, present.len(), |number| cells(present[number].0, unpacked));
    let found: BTreeMap<_, _> = present
        .iter()
        .zip(found)
        .map(|((row, version), cells)| (row.name, (version, cells)))
        .collect();
    let mut lines = String::new();
    for row in &ROWS {
        let found = found.get(row.name);
        if let Some((version, cells)) =
            found.filter(|_| updates && (unpacked.is_some() || is_of_debian_13(row)))
        {
            lines.push_str(&format!("| {} | {version} | {} |\n", row.name, cells.join(" | ")));
            continue;
        }
        let Some(written) = written(rows, row.name) else {
            assert!(updates || found.is_none(), "the page has no {}", row.name);
            continue;
        };
        lines.push_str(&format!("| {} | {} |\n", row.name, written.join(" | ")));
        for ((title, cell), written) in
            titles.iter().zip(found.into_iter().flat_map(|(_, cells)| cells)).zip(&written[1..])
        {
            assert!(updates || cell == written, "{}, {title}: {cell}", row.name);
        }
    }
    if updates {
        fs::write(&path, format!("{before}{lines}{after}")).expect("docs/ is there");
    }
}
