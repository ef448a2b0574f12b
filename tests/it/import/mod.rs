//! Each test writes a site's configuration as its application's notes ask for it, starts the real
//! server with it, and Tokamak with what was imported from the same file over the same documents.
//! Both get the same requests, hostile ones too. Where they differ, the table says how.

mod apache;
mod caddy;
mod differential;
mod nested;
mod nginx;
mod proxies;

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::{Connection, Process, Response, eventually, free_address, get, is_root, post};
use crate::harness::{php_fpm, program};

/// Says which script runs, and what it was told.
const SCRIPT: &str = "<?php\nforeach (['SCRIPT_NAME', 'PATH_INFO', 'REQUEST_URI', 'QUERY_STRING'] \
    as $name) {\n    echo $name, '=', $_SERVER[$name] ?? '', \"\\n\";\n}\n";

/// A folder with documents, and the servers that serve them.
struct Desk {
    folder: TempDir,
    processes: Vec<Process>,
    theirs: SocketAddr,
    ours: SocketAddr,
}

impl Desk {
    /// A folder with these files below `site`. Scripts say what they are told.
    fn new(files: &[&str]) -> Desk {
        let folder = tempfile::Builder::new().prefix("tokamak-import-").tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let (theirs, ours) = (free_address(), free_address());
        let desk = Desk { folder, processes: Vec::new(), theirs, ours };
        fs::create_dir(desk.path("site")).unwrap();
        for file in files {
            let path = desk.path("site").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let text = if file.ends_with(".php") { SCRIPT } else { file };
            fs::write(path, text).unwrap();
        }
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file, with `$TOP`, `$ADDRESS` and `$SOCKET` in place of what they are here.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        let top = self.folder.path().display().to_string();
        let text = text
            .replace("$ADDRESS", &self.theirs.to_string())
            .replace("$SOCKET", &format!("{top}/fpm.socket"))
            .replace("$TOP", &top);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn start(&mut self, program: &Path, arguments: &[&str], environment: &[(String, String)]) {
        let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
        let log = self.path("log");
        self.processes.push(Process::start(program, &arguments, environment, &log));
    }

    fn start_fpm(&mut self) {
        let user = if is_root() { "user = www-data\ngroup = www-data\n" } else { "" };
        let text = format!(
            "[global]\nerror_log = $TOP/fpm.log\ndaemonize = no\n[site]\nlisten = $SOCKET\n\
             listen.mode = 0666\npm = static\npm.max_children = 2\n{user}"
        );
        let file = self.write("fpm.conf", &text);
        let arguments = ["--nodaemonize", "--fpm-config", file.to_str().unwrap()];
        self.start(&php_fpm(), &arguments, &[]);
        // Its socket is there before others may connect to it.
        let said = || fs::read_to_string(self.path("fpm.log")).unwrap_or_default();
        let is_ready = || said().contains("ready to handle connections").then_some(());
        eventually(Duration::from_secs(20), is_ready).expect("php-fpm");
    }

    /// Imports a file; gives what was said of it.
    fn import(&self, language: &str, file: &Path) -> Output {
        let output = self.path("tokamak.toml");
        let mut command = Command::new(program());
        command.args(["import", language, "-o"]).arg(&output).arg(file);
        // The settings of this machine are not the matter: the same for all kinds of PHP.
        let none = self.write("php.ini", "");
        command.env("PHPRC", none).env("PHP_INI_SCAN_DIR", "");
        command.args(["--prefix"]).arg(self.prefix(language)).output().unwrap()
    }

    fn prefix(&self, language: &str) -> PathBuf {
        match language {
            "nginx" => "/etc/nginx".into(),
            _ => self.path(""),
        }
    }

    /// Imports a file, which has to end with this status, and serves what was written.
    #[track_caller]
    fn serve_imported(&mut self, language: &str, file: &Path, status: i32) -> String {
        let output = self.import(language, file);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{said}");
        let configuration = self.path("tokamak.toml");
        let text = fs::read_to_string(&configuration).unwrap();
        let environment = [
            ("TOKAMAK_LISTEN".to_owned(), self.ours.to_string()),
            ("TOKAMAK_CONTROL".to_owned(), self.path("control").display().to_string()),
        ];
        let arguments = ["serve", "--config", configuration.to_str().unwrap()];
        self.start(&program(), &arguments, &environment);
        for address in [self.theirs, self.ours] {
            let listens = || {
                let ended = self.processes.iter_mut().find_map(Process::ended);
                assert!(ended.is_none(), "{ended:?}: {}\n{text}", self.log());
                TcpStream::connect(address).ok().map(drop)
            };
            eventually(Duration::from_secs(20), listens).expect("a server listens");
        }
        text
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Sends each request to both servers, and compares the answers.
    #[track_caller]
    fn compare(&self, rows: &[Row]) {
        let mut wrong = Vec::new();
        for row in rows {
            let ask = |address| {
                let request = match row.sends {
                    0 => get(row.target),
                    bytes => post(row.target, "text/plain", vec![b'a'; bytes]),
                };
                let request = request.header("Host", row.host);
                let request =
                    row.fields.iter().fold(request, |it, (name, value)| it.header(name, value));
                Answer::of(&Connection::open(address).exchange(&request))
            };
            let (theirs, ours) = (ask(self.theirs), ask(self.ours));
            let is_as_expected = match row.expected {
                Expected::Same => theirs == ours,
                Expected::Status(both) => theirs == ours && theirs.status == both,
                Expected::Differs(their, our) => (theirs.status, ours.status) == (their, our),
            };
            if !is_as_expected {
                let target = row.target;
                wrong.push(format!("{target}\n  theirs: {theirs:?}\n  ours:   {ours:?}"));
            }
        }
        let written = fs::read_to_string(self.path("tokamak.toml")).unwrap_or_default();
        assert!(wrong.is_empty(), "{}\n{written}\n{}", wrong.join("\n"), self.log());
    }
}

impl Desk {
    /// Sends each request to both servers, and compares what caches and browsers are told: the
    /// fields `Cache-Control`, with their words in any order, and those that begin with `X-`.
    #[track_caller]
    fn compare_fields(&self, rows: Vec<Row>) {
        for row in rows {
            let answered = |address| {
                let request = get(row.target).header("Host", row.host);
                let request =
                    row.fields.iter().fold(request, |it, (name, value)| it.header(name, value));
                let response = Connection::open(address).exchange(&request);
                let is_compared = |name: &str| name == "cache-control" || name.starts_with("x-");
                let fields = response.head.headers.iter();
                let fields = fields.map(|(name, value)| (name.to_ascii_lowercase(), value));
                let fields = fields.filter(|(name, _)| is_compared(name) && name != "x-powered-by");
                let mut fields: Vec<String> = fields
                    .flat_map(|(name, value)| {
                        let words = value.split(',').map(|word| format!("{name}: {}", word.trim()));
                        words.collect::<Vec<_>>()
                    })
                    .collect();
                fields.sort();
                (response.status(), fields)
            };
            let (theirs, ours) = (answered(self.theirs), answered(self.ours));
            let written = fs::read_to_string(self.path("tokamak.toml")).unwrap_or_default();
            assert_eq!(theirs, ours, "theirs, ours: {}\n{written}", row.target);
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // Those that connect to others first.
        while self.processes.pop().is_some() {}
    }
}

/// What of an answer is compared.
#[derive(Debug, PartialEq)]
struct Answer {
    status: u16,
    location: Option<String>,
    /// Only of a 200: failures have pages of the servers' own.
    body: Option<String>,
}

impl Answer {
    fn of(response: &Response) -> Answer {
        let location = response.header("location").map(|location| {
            // nginx and Apache write the whole URL where Tokamak writes the path.
            let own = location.strip_prefix("http://").and_then(|rest| rest.split_once('/'));
            match own {
                Some((host, path))
                    if host.starts_with("127.0.0.1") || host.starts_with("site.") =>
                {
                    format!("/{path}")
                }
                _ => location.to_owned(),
            }
        });
        let status = response.status();
        Answer { status, location, body: (status == 200).then(|| response.text()) }
    }
}

/// What is expected of two answers.
#[derive(Clone, Copy)]
enum Expected {
    /// They are the same.
    Same,
    /// They are the same, with this status.
    Status(u16),
    /// They have these statuses, the other server's and ours.
    Differs(u16, u16),
}

/// One request.
struct Row {
    host: &'static str,
    target: &'static str,
    /// Header fields that it has beside `Host`.
    fields: Vec<(&'static str, &'static str)>,
    /// Bytes of its body.
    sends: usize,
    expected: Expected,
}

impl Row {
    /// The same request with one more header field.
    fn with(mut self, name: &'static str, value: &'static str) -> Row {
        self.fields.push((name, value));
        self
    }

    /// The same request with a body of so many bytes.
    fn sending(mut self, bytes: usize) -> Row {
        self.sends = bytes;
        self
    }

    /// The same request with the name and the password of [`USERS`].
    fn by_max(self) -> Row {
        self.with("Authorization", "Basic bWF4Om9wZW4gc2VzYW1l")
    }
}

/// Compares who is let into `/office`, which is for 192.0.2.0/24, behind the proxies 127.0.0.1 and
/// 10.0.0.0/8.
#[track_caller]
fn forwarded(desk: &Desk) {
    let from = |expected, chain| status(expected, "/office/a.txt").with("X-Forwarded-For", chain);
    desk.compare(&[
        status(403, "/office/a.txt"),
        status(200, "/all/a.txt"),
        from(200, "192.0.2.7"),
        from(403, "203.0.113.9"),
        from(403, "192.0.2.7, 203.0.113.9"),
        from(200, "203.0.113.9, 192.0.2.7"),
        from(200, "192.0.2.7, 10.1.2.3"),
        from(403, "203.0.113.9, 10.1.2.3"),
        from(403, "192.0.2.7, 203.0.113.9, 10.1.2.3"),
        from(403, "192.0.2.7, unknown"),
        from(403, "10.1.2.3"),
        from(403, "").with("X-Real-IP", "192.0.2.7"),
        from(200, "203.0.113.9").with("X-Forwarded-For", "192.0.2.7"),
    ]);
}

/// A file of users: `max` with the password `open sesame`.
const USERS: &str = "max:$2y$05$sAUVDeawl8IUyF6tAJT5FOdZlvYCNziyyum9Pwxla1r4SVpqfx/JG\n";

fn same(target: &'static str) -> Row {
    Row { host: "site.test", target, fields: Vec::new(), sends: 0, expected: Expected::Same }
}

fn status(status: u16, target: &'static str) -> Row {
    Row { expected: Expected::Status(status), ..same(target) }
}

fn differs(theirs: u16, ours: u16, target: &'static str) -> Row {
    Row { expected: Expected::Differs(theirs, ours), ..same(target) }
}
